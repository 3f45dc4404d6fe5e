package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"bronzeward/policy"
)

// Bounds of a change's clocks.
const (
	minClock = time.Minute
	maxClock = 30 * 24 * time.Hour
)

// capture writes a new change with its review, its sealed bytes and its place in the outbox.
// It gives the change as it stands.
func capture(ctx context.Context, tx pgx.Tx, n *NewChange, m *Machine, st Stamp, by policy.Person, entry uuid.UUID) (*Change, error) {
	if n.ApproveWithin < minClock || n.ApproveWithin > maxClock || n.UseWithin < minClock || n.UseWithin > maxClock {
		return nil, fmt.Errorf("%w: a change's clocks run between %s and %s", ErrInvalid, minClock, maxClock)
	}
	if len(n.Set) > 100 || !printable(n.Set) {
		return nil, fmt.Errorf("%w: a set has a name of at most 100 printable bytes", ErrInvalid)
	}
	if !validReason(n.Why) {
		return nil, fmt.Errorf("%w: a reason has at most %d printable bytes", ErrInvalid, maxReason)
	}
	if len(n.Sealed) == 0 {
		return nil, errors.New("a change without its sealed bytes is not captured")
	}
	n.MachineID, n.Epoch = m.ID, st.Epoch
	if err := withinCap(ctx, tx, n, st.Now, by); err != nil {
		return nil, err
	}
	c := &Change{
		ID: n.ID, Binding: n.Binding, MachineName: m.Name, Cluster: m.Cluster, Set: n.Set, Why: n.Why, Requester: by, EntryID: entry,
		Asked: n.Asked, CreatedAt: st.Now, ApproveBy: st.Now.Add(n.ApproveWithin), UseWithin: n.UseWithin,
		State: ChangeWaiting, Since: st.Now, By: by, Sealed: true, Diffs: len(n.Review.Changes), NotCompared: !n.Review.Compared(),
	}
	key := n.Key()
	review, err := reviewColumns(n.Review)
	if err != nil {
		return nil, err
	}
	b := &pgx.Batch{}
	b.Queue(sqlChangeAdd, uuid.UUID(c.ID), entry, c.MachineID, c.Cluster, c.Kind, c.Mode, c.TryTimeout, c.Digest, c.Size, c.Base, c.Persistent,
		c.Identity.NodeID, c.Identity.ClusterID, c.Identity.SMBIOS, c.Epoch, key, c.Set, by.Issuer, by.Subject,
		c.CreatedAt, c.ApproveBy, c.UseWithin, orNull(uuid.UUID(c.Drift)), c.Why)
	b.Queue(sqlChangeReviewAdd, append([]any{uuid.UUID(c.ID)}, review...)...)
	b.Queue(sqlSealedAdd, uuid.UUID(c.ID), n.Sealed)
	b.Queue(sqlChangeStateAdd, uuid.UUID(c.ID), c.MachineID, key, c.Since, by.Issuer, by.Subject, entry,
		c.Asked.Required, groupsOf(c.Asked), c.Asked.SelfApproval)
	err = tx.SendBatch(ctx, b).Close()
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.ConstraintName == "change_states_one_live_per_binding" {
		return nil, fmt.Errorf("%w: the same change was captured meanwhile", ErrMoved)
	}
	if err != nil {
		return nil, sqlError("capturing the change", err)
	}
	if n.Notify {
		if err := addNotice(ctx, tx, c.ID); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// withinCap holds the caller to what may be waiting, exactly: the requester's row is locked,
// as the last lock of the transaction.
func withinCap(ctx context.Context, tx pgx.Tx, n *NewChange, now time.Time, by policy.Person) error {
	var count int
	var size int64
	b := &pgx.Batch{}
	b.Queue(sqlRequesterLock, by.Issuer, by.Subject)
	b.Queue(sqlRequesterWaiting, by.Issuer, by.Subject, now).QueryRow(func(row pgx.Row) error { return row.Scan(&count, &size) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return sqlError("counting the waiting changes of the caller", err)
	}
	const hint = "bronzeward changes list, and cancel what is not needed: bronzeward changes cancel ID"
	if count >= n.MostWaiting {
		return &ChangeError{Code: "BW-CHANGE-004", Message: fmt.Sprintf("you have %d changes waiting, which is as many as one person may have", count), Hint: hint}
	}
	if size+n.Size > n.MostBytes {
		return &ChangeError{Code: "BW-CHANGE-004", Message: fmt.Sprintf(
			"your changes, ended ones for a while too, hold %d bytes, and %d more would be over the %d one person may have",
			size, n.Size, n.MostBytes), Hint: hint}
	}
	return nil
}

// reviewColumns are the review as JSON; none of the three is null.
func reviewColumns(r Review) ([]any, error) {
	if r.Changes == nil {
		r.Changes = []policy.ConfigChange{}
	}
	if r.Discards == nil {
		r.Discards = []policy.ConfigChange{}
	}
	if r.Warnings == nil {
		r.Warnings = []policy.Reason{}
	}
	out := make([]any, 0, 3)
	for _, part := range []any{r.Changes, r.Discards, r.Warnings} {
		raw, err := json.Marshal(part)
		if err != nil {
			return nil, fmt.Errorf("writing down what an approver looks at: %w", err)
		}
		out = append(out, string(raw))
	}
	return out, nil
}
