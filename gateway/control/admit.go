package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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
	// Changes asks for the machine's live changes, locked. A real apply and a proposal need them.
	Changes bool
	// Mode and Digest (keyed, of the request's bytes) name the very same request again.
	Mode   string
	Digest string
	// Active and Persistent are the digests of what the evidence shows, made under the keys of the
	// machine's last applied ones. Empty where that cannot be done, and then they are not compared.
	Active, Persistent string
	// Once is set when the request carries an Idempotency-Key.
	Once *Once
}

// Locked is what was read under the locks, in the documented order.
type Locked struct {
	Stamp
	Machine Machine
	// Holds are what closes the machine's scope: a freeze, a retirement, attempts; and, for an
	// apply, the attempts that use up the cluster's rollout limit.
	Holds []policy.Hold
	// InFlight is the held attempt of the very same request, if there is one: the judge
	// refuses and names it.
	InFlight *Attempt
	// Drift is the machine's open one; null when there is none. It is among Holds.
	Drift *Drift
	// Unseen is true when the evidence shows a drift that no sight has opened yet. It is among
	// Holds, without an id.
	Unseen bool
	// Changes are the machine's live ones whose clocks still run, oldest first; when they were asked for.
	Changes []Change
}

// Judgement is what the caller's judge decided on what is Locked.
type Judgement struct {
	Entry audit.Entry
	// Attempt is to be opened; null opens none. It needs Entry.Verdict Allowed.
	Attempt *NewAttempt
	// Adopt takes what was found as applied; null does not. It needs Entry.Verdict Allowed, and Spend.
	Adopt *NewAdoption
	// Quorum is what the law asks for an apply. When it asks for approvals, an attempt needs
	// Spend: the change among Locked.Changes that it spends.
	Quorum policy.Quorum
	Spend  ChangeID
	// Known is the live change this request is the same as, when nothing is spent: what the
	// law asks for it now is kept with it.
	Known ChangeID
	// Capture is a change to be written; null writes none.
	Capture *NewChange
	// Supersede are live changes that were proposed against something else than the machine
	// runs; Overtaken is the digest of what it runs.
	Supersede []ChangeID
	// OnDisk are those of Supersede that only what is on the disk overtook.
	OnDisk    []ChangeID
	Overtaken string
	// Retry rolls back with ErrMoved: the judge needs other evidence.
	Retry bool
}

// Admission is a decision that is durable.
type Admission struct {
	Receipt audit.Receipt
	// Attempt is open and this process's; null when none was wanted.
	Attempt *Attempt
	// Change is the one that was captured, or that the attempt or adoption spends; null without.
	Change *Change
	Locked Locked
}

// Admit decides in one transaction: authority lock (shared), version, machine row, cluster
// slot, clock, judge, entry and attempt, commit. The judge is pure Go and calls nothing over
// a network; it may be run again when the transaction lost a race.
//
// When Admit errs, nothing may be sent. ErrMoved asks for another round; *BusyError,
// *InFlightError, *ChangeError and *GuardError are refusals that no policy can waive and that
// were not recorded (a judge that reads Holds, InFlight and CallerRevoked refuses before, and
// is); *ReplayedError says that an Idempotency-Key was carried out before;
// ErrUnavailable, *CommitUnknownError among it, is an outage.
func (s *Store) Admit(ctx context.Context, r Request, judge func(Locked) Judgement) (Admission, error) {
	if !printable(r.Caller.Issuer+r.Caller.Subject) || len(r.Caller.Issuer)+len(r.Caller.Subject) > 2048 {
		return Admission{}, fmt.Errorf("%w: the caller's name has bytes that are not printable, or too many", ErrInvalid)
	}
	var adm Admission
	err := s.inTx(ctx, func(tx pgx.Tx) (written, error) {
		adm = Admission{}
		before, err := takeOnce(ctx, tx, r.Caller, r.Once)
		if err != nil {
			return written{}, err
		}
		v, err := s.lockForDecision(ctx, tx, r)
		if err != nil {
			return written{}, err
		}
		once := r.Once
		if before != nil {
			if !v.locked.CallerRevoked {
				return written{}, before
			}
			once = nil // a revoked person is refused, and what was kept stays
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
		if err := s.carryOut(ctx, tx, r, once, v, j, &adm); err != nil {
			return written{}, err
		}
		// A crash up to here leaves nothing. After the commit it leaves an open attempt,
		// which DeadAttempts lists once its lease has ended, or a captured change.
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

// carryOut writes what was judged: the entry, and with it the attempt and the change it
// spends, or the change that is captured, and what became of the machine's other changes.
func (s *Store) carryOut(ctx context.Context, tx pgx.Tx, r Request, once *Once, v view, j Judgement, adm *Admission) (err error) {
	if j.Attempt != nil {
		if adm.Attempt, err = s.newAttempt(r, v, j); err != nil {
			return err
		}
		j.Entry.AttemptID = adm.Attempt.ID
	}
	if adm.Receipt, err = audit.Append(ctx, tx, j.Entry); err != nil {
		return sqlError("appending the entry", err)
	}
	if err := moveChanges(ctx, tx, r, v, j); err != nil {
		return err
	}
	ref := uuid.Nil
	switch {
	case adm.Attempt != nil:
		if err := openAttempt(ctx, tx, adm.Attempt, s.cfg.SettleFloor); err != nil {
			return err
		}
		ref = adm.Attempt.ID
		if adm.Change, err = spend(ctx, tx, v, j, adm.Attempt.ID, r.Caller); err != nil {
			return err
		}
	case j.Adopt != nil:
		ref = uuid.UUID(j.Spend)
		if adm.Change, err = s.adopt(ctx, tx, r, v, j); err != nil {
			return err
		}
	case j.Capture != nil:
		if adm.Change, err = capture(ctx, tx, j.Capture, &v.locked.Machine, v.locked.Stamp, r.Caller, j.Entry.ID); err != nil {
			return err
		}
		if err := adm.Change.recount(ctx, tx, v.locked.Now, v.locked.Epoch, step{reason: "the law asks for no approval", entry: j.Entry.ID}); err != nil {
			return err
		}
		ref = uuid.UUID(adm.Change.ID)
	case j.Known != ChangeID{}:
		adm.Change = v.locked.change(j.Known)
		ref = uuid.UUID(j.Known)
	}
	if j.Entry.Verdict != audit.Allowed {
		return forgetOnce(ctx, tx, r.Caller, once)
	}
	return keepOnce(ctx, tx, r.Caller, once, ref)
}
