package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/policy"
)

// HeldMachine is a machine that a recovery holds, or held.
type HeldMachine struct {
	ID            uuid.UUID
	Name, Cluster string
	// ObservedAt is when it was last observed since the recovery was entered, and Matches whether it
	// was the machine it is pinned to.
	ObservedAt *time.Time
	Matches    bool
	ReleasedAt *time.Time

	observation *uuid.UUID
}

// HeldAttempt is an attempt that nobody can answer for yet.
type HeldAttempt struct {
	ID      uuid.UUID
	Machine string
	State   State
}

// RecoveryItem is a line of the checklist.
type RecoveryItem struct {
	// Name is one word; Open is true while it keeps the recovery from being ended.
	Name string
	Open bool
	// Text says how it stands, and Do what to do; Do is empty when there is nothing.
	Text, Do string
}

// RecoveryStatus is how far a recovery is, and what it came from. Times are the database's.
type RecoveryStatus struct {
	Standing Standing
	Epoch    uuid.UUID
	// Found is what is marked now.
	Found Found
	// Entered is the recovery that the epoch in force began with; null when it began with the installation.
	Entered *Recovery
	// Machines are those that it holds or held, by name.
	Machines []HeldMachine
	// Attempts may still land, or nobody knows whether they did.
	Attempts []HeldAttempt
	// Denied are people whom the gateway's deny list names and who are not revoked here.
	Denied []policy.Person
	Items  []RecoveryItem

	version int64
	now     time.Time
}

// RecoveryStatus reads it, for a deny list. It takes no lock. A database that is older than this
// process has seen it is said to be, as decisions say it here, before it is marked for all.
func (s *Store) RecoveryStatus(ctx context.Context, deny []policy.Person) (RecoveryStatus, error) {
	was := s.seen.before()
	var out RecoveryStatus
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, s.watch, opts, func(tx pgx.Tx) (err error) {
		out, err = readStatus(ctx, tx, deny, false)
		return err
	})
	if err != nil {
		return out, err
	}
	s.seen.hold(was, out.Epoch, out.version, out.now, &out.Standing)
	out.Items = out.checklist(false)
	return out, nil
}

func readStatus(ctx context.Context, tx pgx.Tx, deny []policy.Person, settled bool) (out RecoveryStatus, err error) {
	var revision string
	var revoked bool
	if err := scanWithStanding(tx.QueryRow(ctx, sqlStamp, "", ""), &out.Standing, &out.version, &out.Epoch, &revision, &revoked, &out.now); err != nil {
		return out, sqlError("reading how the recovery stands", err)
	}
	if out.Found, _, _, err = readFound(ctx, tx); err != nil {
		return out, err
	}
	entered, err := latestRecovery(ctx, tx)
	switch {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return out, err
	default:
		out.Entered = &entered
		if out.Machines, err = heldMachines(ctx, tx, entered.Epoch); err != nil {
			return out, err
		}
	}
	rows, err := tx.Query(ctx, sqlRecoveryAttempts)
	if err == nil {
		out.Attempts, err = pgx.CollectRows(rows, pgx.RowToStructByPos[HeldAttempt])
	}
	if err != nil {
		return out, sqlError("reading the attempts", err)
	}
	if out.Denied, err = notRevoked(ctx, tx, deny); err != nil {
		return out, err
	}
	out.Items = out.checklist(settled)
	return out, nil
}

func heldMachines(ctx context.Context, tx pgx.Tx, epoch uuid.UUID) ([]HeldMachine, error) {
	rows, err := tx.Query(ctx, sqlRecoveryMachines, epoch)
	if err != nil {
		return nil, sqlError("reading the machines", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m HeldMachine, err error) {
		var pinned bool
		err = row.Scan(&m.ID, &m.Name, &m.Cluster, &pinned, &m.ReleasedAt, &m.observation, &m.ObservedAt, &m.Matches)
		m.Matches = m.Matches && m.observation != nil
		return m, err
	})
	if err != nil {
		return nil, sqlError("reading the machines", err)
	}
	return out, nil
}

// notRevoked are the people of a list who are not revoked.
func notRevoked(ctx context.Context, tx pgx.Tx, list []policy.Person) ([]policy.Person, error) {
	if len(list) == 0 {
		return nil, nil
	}
	var issuers, subjects []string
	for _, p := range list {
		issuers, subjects = append(issuers, p.Issuer), append(subjects, p.Subject)
	}
	rows, err := tx.Query(ctx, sqlRecoveryRevoked, issuers, subjects)
	if err != nil {
		return nil, sqlError("reading who is revoked", err)
	}
	revoked, err := pgx.CollectRows(rows, pgx.RowToStructByPos[policy.Person])
	if err != nil {
		return nil, sqlError("reading who is revoked", err)
	}
	return slices.DeleteFunc(slices.Clone(list), func(p policy.Person) bool { return slices.Contains(revoked, p) }), nil
}

// checklist is what keeps the recovery from being ended, and what is to be known of it.
func (s *RecoveryStatus) checklist(settled bool) []RecoveryItem {
	if s.Standing.Doubtful() {
		item := RecoveryItem{Name: "enter", Open: true, Text: s.Standing.Message, Do: "bronzeward recovery enter --reason TEXT"}
		if s.Standing.State == RecoveryOlderOpenBao {
			item.Do = "bring back the newest state of OpenBao; when there is none: " + item.Do
		}
		return []RecoveryItem{item}
	}
	r := s.Entered
	if r == nil {
		return nil
	}
	items := []RecoveryItem{{Name: "lost", Text: r.lost()}, {
		Name: "void", Text: number(r.ApprovalsVoided, "approval of the old epoch is void", "approvals of the old epoch are void") + ", and " +
			number(r.ChangesEnded, "change ended", "changes ended"),
		Do: "propose and approve again what is still wanted",
	}}
	if r.State == RecoveryRolledBack {
		items = append(items, RecoveryItem{
			Name: "check", Text: "freezes, retirements, machines, their addresses and pins, rollout limits, drift that was settled and laws of the lost time are gone, and nobody knows which",
			Do: "compare bronzeward machines list --all, clusters list and policy status with your own records, and do again what is missing",
		})
	}
	add := func(name string, open bool, text, do string) {
		if !open {
			do = ""
		}
		items = append(items, RecoveryItem{Name: name, Open: open, Text: text, Do: do})
	}
	since := r.Revoked - r.Revocations
	missing := max(0, r.LostRevocations-since)
	switch {
	case r.LostRevocations == 0:
		add("revocations", false, "no revocation is known to be lost", "")
	case missing > 0 && !settled:
		add("revocations", true, fmt.Sprintf("%d of %s not made again; whose, only people know", missing, number(r.LostRevocations, "lost revocation was", "lost revocations were")),
			"bronzeward identities revoke --issuer ISSUER --subject SUBJECT --reason TEXT; or say that they need not be: bronzeward recovery exit --revocations-settled --reason TEXT")
	default:
		add("revocations", false, number(r.LostRevocations, "revocation was lost", "revocations were lost")+", and "+number(since, "was made since", "were made since"), "")
	}
	var names []string
	for _, p := range s.Denied {
		names = append(names, fmt.Sprintf("%q of %q", p.Subject, p.Issuer))
	}
	add("denied", len(names) > 0, counted(names, "person of the deny list is not revoked in the book", "people of the deny list are not revoked in the book"),
		"bronzeward identities revoke --issuer ISSUER --subject SUBJECT --reason TEXT")
	names = nil
	for _, a := range s.Attempts {
		names = append(names, a.ID.String()+" on "+a.Machine)
	}
	add("attempts", len(names) > 0, counted(names, "attempt is unresolved", "attempts are unresolved"),
		"bronzeward attempts account ID --landed|--not-landed --reason TEXT")
	var unseen, others, unreleased []string
	for _, m := range s.Machines {
		switch {
		case m.ReleasedAt != nil:
		case m.ObservedAt == nil:
			unseen = append(unseen, m.Name)
		case !m.Matches:
			others = append(others, m.Name)
		default:
			unreleased = append(unreleased, m.Name)
		}
	}
	add("observe", len(unseen) > 0, counted(unseen, "machine was not observed since", "machines were not observed since"), "bronzeward machines observe NAME")
	if len(others) > 0 {
		add("identity", true, counted(others, "machine is not the one it is pinned to", "machines are not those they are pinned to"),
			"bronzeward machines pin --replace NAME, by an approver; then observe it")
	}
	add("release", len(unreleased) > 0, counted(unreleased, "machine was observed and not released", "machines were observed and not released"), "bronzeward recovery release NAME")
	return items
}

// lost says what is gone, by time and count.
func (r *Recovery) lost() string {
	if r.Message != "" {
		return r.Message
	}
	switch {
	case r.State == RecoveryOlderOpenBao:
		return "OpenBao was older than this database; nothing of the book is known to be lost"
	case r.State == RecoveryNone:
		return "nothing is known to be lost: recovery was entered without that anything was found"
	}
	return LostText(r.Found)
}

// LostText names the lost range by time and count.
func LostText(f Found) string {
	text := "nothing that was signed is lost"
	if f.LostRows > 0 {
		text = "up to " + number(f.LostRows, "signed entry or outcome is lost", "signed entries and outcomes are lost")
	}
	if f.LostFrom != nil && f.LostUntil != nil && f.LostFrom.Before(*f.LostUntil) {
		text += fmt.Sprintf(", of the time from %s to %s", f.LostFrom.UTC().Format(time.RFC3339), f.LostUntil.UTC().Format(time.RFC3339))
	} else if f.LostUntil != nil {
		text += fmt.Sprintf(", of the time before %s", f.LostUntil.UTC().Format(time.RFC3339))
	}
	if f.LostRevocations > 0 {
		text += "; " + number(f.LostRevocations, "revocation is lost", "revocations are lost")
	}
	return text
}

// mostNamed is how many names a line of the checklist has.
const mostNamed = 5

// number is a number of things, in words for one and for many.
func number(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// counted says how many there are, and names the first.
func counted(names []string, one, many string) string {
	text := number(int64(len(names)), one, many)
	if len(names) == 0 {
		return text
	}
	text += ": " + strings.Join(names[:min(len(names), mostNamed)], ", ")
	if len(names) > mostNamed {
		text += ", …"
	}
	return text
}
