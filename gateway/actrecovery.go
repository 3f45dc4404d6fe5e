package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"bronzeward/audit"
	"bronzeward/audit/tree"
	"bronzeward/gateway/control"
)

// RecoveryAnchor is the anchor as a recovery moves it. Each method is a network call, bounded by
// ctx; an error may have the method ReasonClass, as Issuer's.
type RecoveryAnchor interface {
	// Begin notes that an epoch is about to begin, and gives the one that will: next, or one that was
	// noted before and never came to be. It gives the last head of the epoch that ends with it.
	Begin(ctx context.Context, old, next uuid.UUID) (epoch uuid.UUID, size int64, root string, err error)
	// Finish says that the epoch has begun: it is the one remembered from now on, the house is in
	// recovery, and what was latched is off. Again it changes nothing.
	Finish(ctx context.Context, epoch uuid.UUID) error
	// Unfinished is whether the epoch of the database has begun and this does not say so yet.
	Unfinished(ctx context.Context, epoch uuid.UUID) (bool, error)
	// End says that the recovery of an epoch is over. Again it changes nothing.
	End(ctx context.Context, epoch uuid.UUID) error
}

// EnterRecovery ends the epoch. The order of its writes, and what a crash between them leaves:
//
//	anchor: an epoch is pending       nothing has happened; entering again takes the same epoch
//	database: the epoch moves         the house is in recovery, nothing is applied, nothing is signed
//	                                  in the new tree; entering again goes on here
//	anchor: the epoch is remembered   all of it; entering again finds a recovery under way
func (a *Acts) EnterRecovery(ctx context.Context, by Actor, reason string, once *control.Once) (control.Recovery, error) {
	act, said, err := a.act(ctx, by, ActRecoveryEnter, "recovery", "")
	if err != nil {
		return control.Recovery{}, err
	}
	snap, err := a.Store.Refresh(ctx, 0)
	if err != nil {
		return control.Recovery{}, err
	}
	if once != nil {
		if err := a.Store.Replayed(ctx, once, by.Caller.Issuer, by.Caller.Subject); err != nil {
			return control.Recovery{}, a.enteredBefore(ctx, by, snap, err)
		}
	}
	if snap.Standing.State == control.RecoveryEntered {
		return a.finishRecovery(ctx, by, snap)
	}
	act.Once = once
	e := control.Entering{Epoch: uuid.New(), Reason: reason}
	if a.Recovery != nil {
		if e.Epoch, e.OldSize, e.OldRoot, err = a.Recovery.Begin(ctx, snap.Epoch, e.Epoch); err != nil {
			away := keysAwayOf(err)
			return control.Recovery{}, a.refusedAct(ctx, by, ActRecoveryEnter, "recovery", codes.Unavailable, "BW-RECOVERY-007",
				"recovery was not entered: OpenBao could not be told of it: "+away.why, err, away.next())
		}
	}
	e.Origin = tree.Origin(snap.InstallationID, e.Epoch)
	if a.Adopt != nil {
		a.Adopt(e.Epoch) // before the commit: this process goes on in it
	}
	entered, err := a.Store.EnterRecovery(ctx, e, act)
	if err = a.replayed(ctx, by, ActRecoveryEnter, "recovery", a.denied(ctx, err, said)); err != nil {
		return control.Recovery{}, err
	}
	return entered, a.tellRecovery(ctx, said.wrote[len(said.wrote)-1], func(ctx context.Context) error { return a.Recovery.Finish(ctx, e.Epoch) })
}

// enteredBefore answers a repetition with what the first came to, before the anchor is told that anything begins. Where the first was
// cut short, the anchor is told the rest.
func (a *Acts) enteredBefore(ctx context.Context, by Actor, snap *control.Snapshot, before error) error {
	err := a.replayed(ctx, by, ActRecoveryEnter, "recovery", before)
	var done *control.ReplayedError
	if !errors.As(err, &done) || snap.Standing.State != control.RecoveryEntered {
		return err
	}
	if _, untold := a.tellRest(ctx, done.Receipt, snap.Epoch); untold != nil {
		return untold
	}
	return err
}

// tellRest tells the anchor of an epoch that was entered, where it was not told, and whether it was not. Its error is *NotAnchoredError.
func (a *Acts) tellRest(ctx context.Context, entry audit.Receipt, epoch uuid.UUID) (untold bool, _ error) {
	if a.Recovery == nil {
		return false, nil
	}
	untold, err := a.Recovery.Unfinished(ctx, epoch)
	if err != nil {
		return false, &NotAnchoredError{Receipt: entry, why: keysAwayOf(err).why, cause: err}
	}
	if !untold {
		return false, nil
	}
	return true, a.tellRecovery(ctx, entry, func(ctx context.Context) error { return a.Recovery.Finish(ctx, epoch) })
}

// finishRecovery goes on with a recovery whose anchor was not told; ErrConflict when it was.
func (a *Acts) finishRecovery(ctx context.Context, by Actor, snap *control.Snapshot) (control.Recovery, error) {
	there, err := a.Store.LatestRecovery(ctx)
	if err != nil {
		return there, err
	}
	receipt, err := a.Read(ctx, by, ActRecoveryEnter, "recovery")
	if err != nil {
		return there, err
	}
	if a.Told != nil {
		a.Told(ctx, receipt)
	}
	if untold, err := a.tellRest(ctx, receipt, snap.Epoch); untold || err != nil {
		return there, err
	}
	return there, &control.RecoveryError{
		Code: "BW-RECOVERY-006", Hint: "bronzeward recovery status",
		Message: fmt.Sprintf("recovery was entered before, by %q; what is left to do is on its list", there.By.Subject),
	}
}

// tellRecovery tells the anchor of what the database says by now. Its error is *NotAnchoredError: it
// is in force, and doing it again tells the anchor.
func (a *Acts) tellRecovery(ctx context.Context, entry audit.Receipt, tell func(context.Context) error) error {
	if a.Recovery == nil {
		return nil // in development: nothing outside of the database remembers it
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), anchorWithin)
	defer cancel()
	if err := tell(ctx); err != nil {
		return &NotAnchoredError{Receipt: entry, why: keysAwayOf(err).why, cause: err}
	}
	return a.forwardAnchor(ctx, entry)
}

// RecoveryStatus is how far a recovery is, with what is left to do.
func (a *Acts) RecoveryStatus(ctx context.Context) (control.RecoveryStatus, error) {
	status, err := a.Store.RecoveryStatus(ctx, a.Deny)
	if err != nil || a.Recovery == nil || status.Standing.State != control.RecoveryEntered {
		return status, err
	}
	item := control.RecoveryItem{Name: "anchor", Open: true, Do: "bronzeward recovery enter --reason TEXT"}
	switch unfinished, err := a.Recovery.Unfinished(ctx, status.Epoch); {
	case err != nil:
		item.Text, item.Do = "OpenBao does not say whether it knows of this recovery: "+keysAwayOf(err).why, "bring OpenBao back"
	case unfinished:
		item.Text = "OpenBao was not told that the epoch began: entering was cut short"
	default:
		return status, nil
	}
	status.Items = append(status.Items, item)
	return status, nil
}

// ReleaseMachine lets go of a machine that recovery holds.
func (a *Acts) ReleaseMachine(ctx context.Context, by Actor, name string, once *control.Once) (audit.Receipt, error) {
	act, said, err := a.act(ctx, by, ActMachinesRelease, name, "")
	if err != nil {
		return audit.Receipt{}, err
	}
	act.Once = once
	receipt, err := a.Store.ReleaseMachine(ctx, name, act)
	return receipt, a.replayed(ctx, by, ActMachinesRelease, name, a.denied(ctx, err, said))
}

// ExitRecovery ends the recovery when nothing on its list is open. The anchor is told first: after a
// crash between the two the house is still in recovery, and ending it again ends it.
func (a *Acts) ExitRecovery(ctx context.Context, by Actor, settled bool, reason string, once *control.Once) (audit.Receipt, error) {
	act, said, err := a.act(ctx, by, ActRecoveryExit, "recovery", "")
	if err != nil {
		return audit.Receipt{}, err
	}
	act.Once = once
	e := control.Exiting{RevocationsSettled: settled, Reason: reason, Deny: a.Deny}
	if once != nil {
		if err := a.Store.Replayed(ctx, once, by.Caller.Issuer, by.Caller.Subject); err != nil {
			return audit.Receipt{}, a.replayed(ctx, by, ActRecoveryExit, "recovery", err)
		}
	}
	epoch, err := a.Store.MayExit(ctx, e)
	if err != nil {
		return audit.Receipt{}, err
	}
	if a.Recovery != nil {
		err := a.Recovery.End(ctx, epoch)
		if err != nil {
			away := keysAwayOf(err)
			return audit.Receipt{}, a.refusedAct(ctx, by, ActRecoveryExit, "recovery", codes.Unavailable, "BW-RECOVERY-007",
				"recovery was not ended: OpenBao could not be told of it: "+away.why, err, away.next())
		}
	}
	receipt, err := a.Store.ExitRecovery(ctx, e, act)
	err = a.replayed(ctx, by, ActRecoveryExit, "recovery", a.denied(ctx, err, said))
	return receipt, a.anchored(ctx, said, err)
}
