package control

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/policy"
)

// step is one move of a change.
type step struct {
	to      ChangeState
	by      policy.Person // the zero value is the gateway itself
	reason  string
	base    string    // what the machine runs instead, for superseded
	attempt uuid.UUID // for spent
	adopted bool      // for spent, when nothing was sent
	entry   uuid.UUID // the decision that moved it, if one did
}

// become moves a locked change and keeps c as it is now. now is the clock read after the
// last lock.
func (c *Change) become(ctx context.Context, tx pgx.Tx, now time.Time, s step) error {
	if !c.State.MayBecome(s.to) {
		return &GuardError{Guard: "changes_step", Message: fmt.Sprintf("a change that is %s does not become %s", c.State, s.to)}
	}
	next := *c
	next.State, next.Since, next.By, next.Reason, next.OvertakenBy, next.AttemptID = s.to, now, s.by, s.reason, s.base, s.attempt
	switch {
	case s.to == ChangeApproved && c.State == ChangeWaiting:
		useBy := now.Add(c.UseWithin)
		next.UseBy = &useBy
	case s.to == ChangeWaiting:
		next.UseBy = nil
	}
	_, err := tx.Exec(ctx, sqlChangeMove, uuid.UUID(c.ID), string(s.to), now, next.UseBy, orNull(s.attempt),
		s.by.Issuer, s.by.Subject, s.reason, s.base, orNull(s.entry), s.adopted)
	if err != nil {
		return sqlError(fmt.Sprintf("moving change %s to %s", c.ID, s.to), err)
	}
	*c = next
	return nil
}

func orNull(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}

// recount moves a live change between waiting and approved by the approvals that count now.
// Who spends it is not known yet.
func (c *Change) recount(ctx context.Context, tx pgx.Tx, now time.Time, epoch uuid.UUID, s step) error {
	enough := len(c.Counting(c.Asked, policy.Person{}, epoch)) >= c.Asked.Required
	switch {
	case enough && c.State == ChangeWaiting:
		s.to = ChangeApproved
	case !enough && c.State == ChangeApproved:
		s.to = ChangeWaiting
	default:
		return nil
	}
	return c.become(ctx, tx, now, s)
}

// ask keeps what the law asks for a live change when that has moved.
func (c *Change) ask(ctx context.Context, tx pgx.Tx, q policy.Quorum) error {
	if c.Asked.Required == q.Required && c.Asked.SelfApproval == q.SelfApproval &&
		strings.Join(c.Asked.Groups, "\x00") == strings.Join(q.Groups, "\x00") {
		return nil
	}
	if _, err := tx.Exec(ctx, sqlChangeAsked, uuid.UUID(c.ID), q.Required, groupsOf(q), q.SelfApproval); err != nil {
		return sqlError("keeping what the law asks of "+c.ID.String(), err)
	}
	c.Asked = q
	return nil
}

// groupsOf never is null.
func groupsOf(q policy.Quorum) []string { return append([]string{}, q.Groups...) }

// lockChanges locks the changes' machines, then the changes, both in the order of their ids,
// and reads them. *ChangeError when one does not exist.
func lockChanges(ctx context.Context, tx pgx.Tx, ids []ChangeID) ([]Change, error) {
	raw := make([]uuid.UUID, len(ids))
	for i, id := range ids {
		raw[i] = uuid.UUID(id)
	}
	b := &pgx.Batch{}
	b.Queue(sqlChangeMachinesLock, raw)
	b.Queue(sqlChangesLock, raw)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, sqlError("locking changes", err)
	}
	list, err := readChanges(ctx, tx, "reading changes", sqlChangesByID, raw)
	if err != nil {
		return nil, err
	}
	found := make(map[ChangeID]bool, len(list))
	for i := range list {
		found[list[i].ID] = true
	}
	for _, id := range ids {
		if !found[id] {
			return nil, noChange(id)
		}
	}
	return list, nil
}

// What a machine does that a change was not proposed against.
const (
	runsAnother  = "the machine runs another configuration than it was made for"
	holdsAnother = "the machine has another configuration on its disk than it was made for"
)

// supersede ends the live changes of a locked machine that were proposed against something
// else than it runs now. by says what brought that, where it is known.
func supersede(ctx context.Context, tx pgx.Tx, machine uuid.UUID, active, persistent string, entry uuid.UUID, by string) error {
	if by != "" {
		by = " (" + by + ")"
	}
	return endLive(ctx, tx, machine, entry, func(c *Change) (reason, base string) {
		switch {
		case differs(c.Base, active):
			return runsAnother + by, active
		case differs(c.Persistent, persistent):
			return holdsAnother + by, persistent
		}
		return "", ""
	})
}

// overtakeAll ends every live change of a locked machine: they were for another machine, or
// for the same one at another place.
func overtakeAll(ctx context.Context, tx pgx.Tx, machine, entry uuid.UUID, reason string) error {
	return endLive(ctx, tx, machine, entry, func(*Change) (string, string) { return reason, "" })
}

// endLive supersedes the live changes of a locked machine that why gives a reason for, and
// the base it runs instead where that is why.
func endLive(ctx context.Context, tx pgx.Tx, machine, entry uuid.UUID, why func(*Change) (reason, base string)) error {
	if _, err := tx.Exec(ctx, sqlChangesLockLive, machine); err != nil {
		return sqlError("locking the machine's changes", err)
	}
	live, err := readChanges(ctx, tx, "reading the machine's changes", sqlChangesLive, machine)
	if err != nil {
		return err
	}
	now, err := readClock(ctx, tx)
	if err != nil {
		return err
	}
	for i := range live {
		reason, base := why(&live[i])
		if reason == "" {
			continue
		}
		if err := live[i].become(ctx, tx, now, step{to: ChangeSuperseded, reason: reason, base: base, entry: entry}); err != nil {
			return err
		}
	}
	return nil
}

// readClock reads the database's clock in its own round trip: after the last lock.
func readClock(ctx context.Context, tx pgx.Tx) (now time.Time, err error) {
	if err := tx.QueryRow(ctx, sqlClock).Scan(&now); err != nil {
		return now, sqlError("reading the clock", err)
	}
	return now, nil
}

// differs is true when two digests of one scheme and key version are not the same. Others
// are never compared: whoever has the text decides then.
func differs(a, b string) bool {
	return a != b && scheme(a) == scheme(b) && a != "" && b != ""
}

// scheme is a digest's scheme and key version.
func scheme(digest string) string {
	at := strings.LastIndex(digest, ":")
	if at < 0 {
		return ""
	}
	return digest[:at]
}
