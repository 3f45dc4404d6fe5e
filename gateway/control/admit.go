package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"bronzeward/audit"
	"bronzeward/policy"
)

// Request is what is to be decided about one machine.
type Request struct {
	MachineID uuid.UUID
	// Serial is the machine's, noted before the evidence was read (Store.Serial). It must
	// still be current when Apply is true; zero is not compared otherwise.
	Serial int64
	Caller policy.Person
	// Apply is true for a real apply: the cluster's slot is locked, and an attempt may be
	// opened. It is false for other mutations, which have an entry only.
	Apply bool
	// Mode and Digest (keyed, of the request's bytes) name the very same request again.
	Mode   string
	Digest string
}

// Locked is what was read under the locks, in the documented order.
type Locked struct {
	Stamp
	Machine Machine
	// Holds are the attempts that close the machine's scope, and, for an apply, those that
	// use up the cluster's rollout limit.
	Holds []policy.Hold
	// InFlight is the held attempt of the very same request, if there is one: the judge
	// refuses and names it.
	InFlight *Attempt
}

// Judgement is what the caller's judge decided on what is Locked.
type Judgement struct {
	Entry audit.Entry
	// Attempt is to be opened; null opens none. It needs Entry.Verdict Allowed.
	Attempt *NewAttempt
	// Retry rolls back with ErrMoved: the judge needs other evidence.
	Retry bool
}

// Admission is a decision that is durable.
type Admission struct {
	Receipt audit.Receipt
	// Attempt is open and this process's; null when none was wanted.
	Attempt *Attempt
	Locked  Locked
}

// Admit decides in one transaction: authority lock (shared), version, machine row, cluster
// slot, clock, judge, entry and attempt, commit. The judge is pure Go and calls nothing over
// a network; it may be run again when the transaction lost a race.
//
// When Admit errs, nothing may be sent. ErrMoved asks for another round; *BusyError,
// *InFlightError and *GuardError are refusals that no policy can waive and that were not
// recorded (a judge that reads Holds, InFlight and CallerRevoked refuses before, and is);
// ErrUnavailable, *CommitUnknownError among it, is an outage.
func (s *Store) Admit(ctx context.Context, r Request, judge func(Locked) Judgement) (Admission, error) {
	if !printable(r.Caller.Issuer+r.Caller.Subject) || len(r.Caller.Issuer)+len(r.Caller.Subject) > 2048 {
		return Admission{}, fmt.Errorf("%w: the caller's name has bytes that are not printable, or too many", ErrInvalid)
	}
	var adm Admission
	err := s.inTx(ctx, func(tx pgx.Tx) (written, error) {
		adm = Admission{}
		v, err := s.lockForDecision(ctx, tx, r)
		if err != nil {
			return written{}, err
		}
		if (r.Apply || r.Serial != 0) && v.locked.Machine.Serial != r.Serial {
			return written{}, fmt.Errorf("%w: machine %s is at serial %d, the evidence is of %d",
				ErrMoved, v.locked.Machine.Name, v.locked.Machine.Serial, r.Serial)
		}
		j := judge(v.locked)
		if j.Retry {
			return written{}, fmt.Errorf("%w: the judge asks for another round", ErrMoved)
		}
		if err := s.stampEntry(&j.Entry, v.locked.Stamp); err != nil {
			return written{}, err
		}
		if err := guard(r, v, j); err != nil {
			return written{}, err
		}
		adm.Locked = v.locked
		if j.Attempt != nil {
			adm.Attempt, err = s.newAttempt(r, v, j)
			if err != nil {
				return written{}, err
			}
			j.Entry.AttemptID = adm.Attempt.ID
		}
		adm.Receipt, err = audit.Append(ctx, tx, j.Entry)
		if err != nil {
			return written{}, sqlError("appending the entry", err)
		}
		if adm.Attempt != nil {
			if err := openAttempt(ctx, tx, adm.Attempt, s.cfg.SettleFloor); err != nil {
				return written{}, err
			}
		}
		// A crash up to here leaves nothing. After the commit it leaves an open attempt,
		// which DeadAttempts lists once its lease has ended.
		return written{entry: j.Entry.ID}, nil
	})
	if err == nil {
		return adm, nil
	}
	var unknown *CommitUnknownError
	if errors.As(err, &unknown) && adm.Attempt != nil {
		unknown.AttemptID = adm.Attempt.ID
	}
	var held *heldError
	if errors.As(err, &held) {
		return Admission{}, s.whoHolds(ctx, r)
	}
	return Admission{}, err
}

// view is what one run of the transaction read.
type view struct {
	locked Locked
	// held are the attempts that may still land, in the whole cluster for an apply.
	held []Attempt
	// limit is the cluster's rollout limit; zero when its slot is not locked.
	limit int
	// asked is this process's monotonic clock from before the database's was read.
	asked time.Time
}

// lockForDecision takes the locks in the documented order and reads under them.
func (s *Store) lockForDecision(ctx context.Context, tx pgx.Tx, r Request) (view, error) {
	var v view
	st := &v.locked.Stamp
	b := &pgx.Batch{}
	b.Queue(sqlLockShared)
	b.Queue(sqlStamp, r.Caller.Issuer, r.Caller.Subject).QueryRow(func(row pgx.Row) error {
		return row.Scan(&st.AuthorityVersion, &st.Epoch, &st.LiveRevision, &st.CallerRevoked, &st.Now)
	})
	b.Queue(sqlMachineForUpdate, r.MachineID).QueryRow(func(row pgx.Row) error {
		return scanMachine(row, &v.locked.Machine)
	})
	if r.Apply {
		b.Queue(sqlClusterSlot, r.MachineID).QueryRow(func(row pgx.Row) error { return row.Scan(&v.limit) })
	}
	b.Queue(sqlHeldAttempts, r.MachineID, r.Apply).Query(func(rows pgx.Rows) (err error) {
		v.held, err = pgx.CollectRows(rows, collectAttempt)
		return err
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return view{}, sqlError("locking the machine", err)
	}
	// The clock is asked for in its own round trip, after the last lock: send_by on this
	// process's monotonic clock then cannot be later than in the database.
	v.asked = s.cfg.Clock()
	if err := tx.QueryRow(ctx, sqlClock).Scan(&st.Now); err != nil {
		return view{}, sqlError("reading the clock", err)
	}
	key := RequestKey(r.Digest, r.Caller, r.MachineID, r.Mode)
	others := 0
	for i := range v.held {
		a := &v.held[i]
		if a.MachineID != r.MachineID {
			others++
			continue
		}
		v.locked.Holds = append(v.locked.Holds, a.Hold("machine"))
		if r.Apply && a.RequestKey == key {
			v.locked.InFlight = a
		}
	}
	if r.Apply && others >= v.limit {
		for i := range v.held {
			if v.held[i].MachineID != r.MachineID {
				v.locked.Holds = append(v.locked.Holds, v.held[i].Hold("cluster"))
			}
		}
	}
	return v, nil
}

// guard is what no policy can waive, in Go; the attempt's row says it once more.
func guard(r Request, v view, j Judgement) error {
	if j.Entry.Verdict != audit.Allowed {
		if j.Attempt != nil {
			return &GuardError{Guard: "attempt_needs_allow", Message: "an attempt was asked for without an allow"}
		}
		return nil
	}
	l := v.locked
	switch {
	case l.CallerRevoked:
		return &GuardError{Guard: "caller_not_revoked", Message: "the caller is revoked"}
	case l.LiveRevision == "" || j.Entry.PolicyRevision != l.LiveRevision:
		return fmt.Errorf("%w: judged by revision %q, live is %q", ErrMoved, j.Entry.PolicyRevision, l.LiveRevision)
	case l.InFlight != nil:
		return &InFlightError{AttemptID: l.InFlight.ID, EntryID: l.InFlight.EntryID}
	}
	if err := busy(r, v); err != nil {
		return err
	}
	if j.Attempt == nil {
		return nil
	}
	switch {
	case !r.Apply:
		return &GuardError{Guard: "attempt_needs_slot", Message: "an attempt was asked for without the cluster's slot"}
	case !l.Machine.Pinned() || l.Machine.Identity != j.Attempt.Identity:
		return &GuardError{Guard: "attempts_expected_identity", Message: "the machine is not pinned to the identity that was read"}
	case j.Attempt.Mode != r.Mode || j.Attempt.Mode != "no-reboot":
		return &GuardError{Guard: "attempts_mode", Message: "only mode no-reboot is sent"}
	case l.Machine.Role != "worker" || j.Attempt.LiveType != "worker":
		return &GuardError{Guard: "attempts_live_type", Message: "only workers are applied to"}
	}
	return nil
}

// busy refuses what is held: the machine for everything, the rollout limit for applies.
func busy(r Request, v view) error {
	var other *Attempt
	others := 0
	for i := range v.held {
		a := &v.held[i]
		if a.MachineID == r.MachineID {
			return busyError(a, "machine")
		}
		others++
		if other == nil {
			other = a
		}
	}
	if r.Apply && others >= v.limit {
		return busyError(other, "cluster")
	}
	return nil
}

func busyError(a *Attempt, scope string) *BusyError {
	return &BusyError{
		Holder: a.ID, Machine: a.MachineID, State: a.State, Person: a.Caller, Since: a.OpenedAt, Scope: scope,
	}
}

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
	now, m := v.locked.Now, v.locked.Machine
	return &Attempt{
		ID: n.ID, EntryID: j.Entry.ID, MachineID: m.ID, MachineName: m.Name, Cluster: m.Cluster,
		State: StateOpen, Owner: s.owner(v.locked.Epoch), Caller: r.Caller,
		RequestKey: RequestKey(r.Digest, r.Caller, r.MachineID, r.Mode), Mode: n.Mode,
		Digest: n.Digest, Base: n.Base, Persistent: n.Persistent, Identity: n.Identity,
		OpenedAt: now, SendBy: now.Add(SendWithin), LeaseUntil: now.Add(s.cfg.Lease),
		TransportDeadline: now.Add(n.Transport),
		SendBefore:        v.asked.Add(SendWithin), ResetBefore: v.asked.Add(n.Transport),
		liveType: n.LiveType, stage: n.Stage, minor: n.Minor,
	}, nil
}

// openAttempt inserts the row and moves the machine's serial.
func openAttempt(ctx context.Context, tx pgx.Tx, a *Attempt, floor time.Duration) error {
	b := &pgx.Batch{}
	b.Queue(sqlAttemptOpen, a.ID, a.EntryID, a.MachineID, a.Cluster, a.Owner.Instance, a.Owner.Generation,
		a.Owner.Epoch, a.Caller.Issuer, a.Caller.Subject, a.RequestKey, a.Mode, a.Digest, a.Base, a.Persistent,
		a.liveType, a.stage, a.minor, a.Identity.NodeID, a.Identity.ClusterID, a.Identity.SMBIOS,
		a.OpenedAt, a.SendBy, a.LeaseUntil, a.TransportDeadline, floor).
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
