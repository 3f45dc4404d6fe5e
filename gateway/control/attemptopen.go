package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// newAttempt builds the row from the judgement and the database's clock.
func (s *Store) newAttempt(r Request, v view, j Judgement) (*Attempt, error) {
	n := *j.Attempt
	if n.ID == uuid.Nil {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("making an attempt id: %w", err)
		}
		n.ID = id
	}
	if n.Transport < SendWithin || n.Transport > maxTransport {
		return nil, fmt.Errorf("%w: the transport deadline is %s after the decision; between %s and %s",
			ErrInvalid, n.Transport, SendWithin, maxTransport)
	}
	if n.CredentialVersion < 0 {
		return nil, fmt.Errorf("%w: the credential's version is %d", ErrInvalid, n.CredentialVersion)
	}
	now, m := v.locked.Now, v.locked.Machine
	return &Attempt{
		ID: n.ID, EntryID: j.Entry.ID, MachineID: m.ID, MachineName: m.Name, Cluster: m.Cluster,
		State: StateOpen, Owner: s.owner(v.locked.Epoch), Caller: r.Caller,
		RequestKey: RequestKey(r.Digest, r.Caller, r.MachineID, r.Mode), Mode: n.Mode,
		Digest: n.Digest, Base: n.Base, Persistent: n.Persistent, Identity: n.Identity,
		OpenedAt: now, SendBy: now.Add(SendWithin), LeaseUntil: now.Add(s.cfg.Lease),
		TransportDeadline: now.Add(n.Transport),
		SendBefore:        v.asked.Add(SendWithin), ResetBefore: v.asked.Add(n.Transport),
		ChangeID: j.Spend, liveType: n.LiveType, stage: n.Stage, minor: n.Minor, size: n.Size, quorum: j.Quorum,
		CredentialVersion: n.CredentialVersion,
	}, nil
}

// openAttempt inserts the row and moves the machine's serial.
func openAttempt(ctx context.Context, tx pgx.Tx, a *Attempt, floor time.Duration) error {
	b := &pgx.Batch{}
	b.Queue(sqlAttemptOpen, a.ID, a.EntryID, a.MachineID, a.Cluster, a.Owner.Instance, a.Owner.Generation,
		a.Owner.Epoch, a.Caller.Issuer, a.Caller.Subject, a.RequestKey, a.Mode, a.Digest, a.Base, a.Persistent,
		a.liveType, a.stage, a.minor, a.Identity.NodeID, a.Identity.ClusterID, a.Identity.SMBIOS,
		a.OpenedAt, a.SendBy, a.LeaseUntil, a.TransportDeadline, floor,
		orNull(uuid.UUID(a.ChangeID)), a.quorum.Required, groupsOf(a.quorum), a.quorum.SelfApproval, a.size, a.CredentialVersion).
		QueryRow(func(row pgx.Row) error { return row.Scan(&a.SettleAfter) })
	b.Queue(sqlSerialBump, a.MachineID)
	err := tx.SendBatch(ctx, b).Close()
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.ConstraintName == "attempts_one_held_per_machine" {
		return &heldError{}
	}
	if err != nil {
		return sqlError("opening the attempt", err)
	}
	return nil
}

// heldError is the unique index speaking.
type heldError struct{}

func (*heldError) Error() string { return "the machine is held" }

// whoHolds names the attempt behind a unique violation, after the rollback.
func (s *Store) whoHolds(ctx context.Context, r Request) error {
	rows, err := s.pool.Query(ctx, sqlHeldAttempts, r.MachineID, false)
	if err != nil {
		return unavailable("reading the holder", err)
	}
	held, err := pgx.CollectRows(rows, collectAttempt)
	if err != nil {
		return unavailable("reading the holder", err)
	}
	for i := range held {
		return busyError(&held[i], "machine")
	}
	return fmt.Errorf("%w: the machine was held a moment ago", ErrMoved)
}
