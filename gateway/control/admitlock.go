package control

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
	"bronzeward/policy"
)

// view is what one run of the transaction read.
type view struct {
	locked Locked
	// held are the attempts that may still land, in the whole cluster for an apply.
	held []Attempt
	// limit is the cluster's rollout limit; zero when its slot is not locked.
	limit int
	// expired are the machine's live changes whose clock has run out.
	expired []Change
	// asked is this process's monotonic clock from before the database's was read.
	asked time.Time
}

// lockForDecision takes the locks in the documented order and reads under them.
func (s *Store) lockForDecision(ctx context.Context, tx pgx.Tx, r Request) (view, error) {
	var v view
	was := s.seen.before()
	st := &v.locked.Stamp
	b := &pgx.Batch{}
	b.Queue(sqlLockShared)
	b.Queue(sqlStamp, r.Caller.Issuer, r.Caller.Subject).QueryRow(func(row pgx.Row) error {
		return scanWithStanding(row, &st.Standing, &st.AuthorityVersion, &st.Epoch, &st.LiveRevision, &st.CallerRevoked, &st.Now)
	})
	b.Queue(sqlMachineForUpdate, r.MachineID).QueryRow(func(row pgx.Row) error {
		return scanMachine(row, &v.locked.Machine)
	})
	var live []Change
	var approvals []Approval
	if r.Apply || r.Changes {
		b.Queue(sqlChangesLockLive, r.MachineID)
	}
	if r.Apply {
		b.Queue(sqlClusterSlot, r.MachineID).QueryRow(func(row pgx.Row) error { return row.Scan(&v.limit) })
	}
	b.Queue(sqlHeldAttempts, r.MachineID, r.Apply).Query(func(rows pgx.Rows) (err error) {
		v.held, err = pgx.CollectRows(rows, collectAttempt)
		return err
	})
	b.Queue(sqlDriftOpen, r.MachineID).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, scanDrift)
		if len(found) > 0 { // one, by the unique index
			v.locked.Drift = &found[0]
		}
		return err
	})
	if r.Apply || r.Changes {
		b.Queue(sqlChangesLive, r.MachineID).Query(func(rows pgx.Rows) (err error) {
			live, err = pgx.CollectRows(rows, scanChange)
			return err
		})
		b.Queue(sqlApprovalsLive, r.MachineID).Query(func(rows pgx.Rows) (err error) {
			approvals, err = pgx.CollectRows(rows, scanApproval)
			return err
		})
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return view{}, sqlError("locking the machine", err)
	}
	// The clock is asked for in its own round trip, after the last lock: send_by on this
	// process's monotonic clock then cannot be later than in the database.
	v.asked = s.cfg.Clock()
	var err error
	if st.Now, err = readClock(ctx, tx); err != nil {
		return view{}, err
	}
	s.seen.hold(was, st.Epoch, st.AuthorityVersion, st.Now, &st.Standing)
	v.sortChanges(live, approvals)
	v.locked.Holds = v.locked.Machine.Holds()
	if st.Standing.Stops() {
		v.locked.Holds = append(v.locked.Holds, st.Standing.Hold(st.Epoch))
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
	if v.locked.Drift != nil {
		v.locked.Holds = append(v.locked.Holds, v.locked.Drift.Hold())
	}
	if v.locked.Unseen, err = unseen(ctx, tx, r, &v); err != nil {
		return view{}, err
	}
	if v.locked.Unseen {
		v.locked.Holds = append(v.locked.Holds, policy.Hold{Kind: policy.HoldDrift, Since: st.Now, Scope: "machine"})
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
	if err := guardCapture(r, v, j); err != nil {
		return err
	}
	if j.Entry.Verdict != audit.Allowed {
		if j.spends() {
			return &GuardError{Guard: "attempt_needs_allow", Message: "an attempt or adoption was asked for without an allow"}
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
	if l.Standing.Stops() {
		return &GuardError{Guard: "attempts_not_in_recovery", Message: "the house is in recovery"}
	}
	if j.Adopt != nil {
		return guardAdoption(r, v, j)
	}
	if j.Attempt == nil {
		return nil
	}
	if err := standsOpen(&l.Machine); err != nil {
		return err
	}
	if err := guardChange(r, l, j); err != nil {
		return err
	}
	if err := guardDrift(l, j.Spend); err != nil {
		return err
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

// standsOpen refuses a machine that a person closed to changes. The attempt's row says it once more.
func standsOpen(m *Machine) error {
	switch {
	case m.Retired != nil:
		return &GuardError{Guard: "attempts_machine_not_retired", Message: "the machine was retired " + m.Retired.Text()}
	case m.Frozen != nil:
		return &GuardError{Guard: "attempts_machine_not_frozen", Message: "the machine is frozen " + m.Frozen.text()}
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
