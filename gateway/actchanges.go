package gateway

import (
	"context"
	"errors"
	"fmt"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

// Submit captures a change without talosctl; see Gateway.Propose.
func (a *Acts) Submit(ctx context.Context, by Actor, s control.Submission, once *control.Once) (control.Change, bool, error) {
	c, created, entry, err := a.Gate.Propose(ctx, by, s, once)
	if err == nil && a.Told != nil {
		a.Told(ctx, entry)
	}
	return c, created, a.replayed(ctx, by, ActChangesSubmit, s.Machine, err)
}

// ApplyChange sends an approved change; see Gateway.ApplyChange.
func (a *Acts) ApplyChange(ctx context.Context, by Actor, id control.ChangeID, once *control.Once) (control.Applied, error) {
	out, err := a.Gate.ApplyChange(ctx, by, id, once)
	if err == nil && a.Told != nil {
		a.Told(ctx, out.Receipt)
	}
	return out, a.replayed(ctx, by, ActChangesApply, id.String(), err)
}

// Approve approves exactly the changes named, all or none.
func (a *Acts) Approve(ctx context.Context, by Actor, list []control.ApproveOne, once *control.Once) ([]control.Approval, error) {
	subject := fmt.Sprintf("%d changes", len(list))
	if len(list) == 1 {
		subject = list[0].ID.String()
	}
	act, answers, err := a.act(ctx, by, ActChangesApprove, subject, "")
	if err != nil {
		return nil, err
	}
	act.Once = once
	who := control.Approver{Person: act.By, Kind: string(by.Caller.Kind), Groups: by.Caller.Groups}
	out, err := a.Store.Approve(ctx, who, list, act)
	return out, a.replayed(ctx, by, ActChangesApprove, subject, a.denied(ctx, err, answers))
}

// Reject ends a change, with a reason, for good.
func (a *Acts) Reject(ctx context.Context, by Actor, id control.ChangeID, reason string, once *control.Once) (control.Change, error) {
	return a.end(ctx, by, ActChangesReject, id, reason, once, a.Store.Reject)
}

// Cancel ends a change that is not wanted any more. Whoever asked for it may, and approvers.
func (a *Acts) Cancel(ctx context.Context, by Actor, id control.ChangeID, reason string, once *control.Once) (control.Change, error) {
	ch, err := a.Store.GetChange(ctx, id)
	if err != nil {
		return control.Change{}, err
	}
	as := ActChangesCancel
	if ch.Requester == personOf(by.Caller) {
		as = ActChangesCancelOwn
	}
	return a.end(ctx, by, as, id, reason, once, a.Store.Cancel)
}

func (a *Acts) end(ctx context.Context, by Actor, as string, id control.ChangeID, reason string, once *control.Once,
	do func(context.Context, control.ChangeID, string, control.Act) (control.Change, error),
) (control.Change, error) {
	act, answers, err := a.act(ctx, by, as, id.String(), "")
	if err != nil {
		return control.Change{}, err
	}
	act.Once = once
	ch, err := do(ctx, id, reason, act)
	return ch, a.replayed(ctx, by, as, id.String(), a.denied(ctx, err, answers))
}

// RevokeApproval takes an approval back, for good.
func (a *Acts) RevokeApproval(ctx context.Context, by Actor, id control.ApprovalID, reason string, once *control.Once) (control.Approval, error) {
	act, answers, err := a.act(ctx, by, ActApprovalsRevoke, id.String(), "")
	if err != nil {
		return control.Approval{}, err
	}
	act.Once = once
	approval, err := a.Store.RevokeApproval(ctx, id, reason, act)
	err = a.replayed(ctx, by, ActApprovalsRevoke, id.String(), a.denied(ctx, err, answers))
	return approval, a.anchored(ctx, answers, err)
}

// RevokeIdentity takes a person's authority away for good: there is no act that undoes it.
func (a *Acts) RevokeIdentity(ctx context.Context, by Actor, who policy.Person, reason string, once *control.Once) (control.IdentityRevocation, error) {
	subject := printable(who.Issuer) + " " + printable(who.Subject)
	act, answers, err := a.act(ctx, by, ActIdentitiesRevoke, subject, "")
	if err != nil {
		return control.IdentityRevocation{}, err
	}
	act.Once = once
	revoked, err := a.Store.RevokeIdentity(ctx, who, reason, act)
	err = a.replayed(ctx, by, ActIdentitiesRevoke, subject, a.denied(ctx, err, answers))
	return revoked, a.anchored(ctx, answers, err)
}

// Read judges a reading and writes its entry; an error means that nothing is to be shown.
func (a *Acts) Read(ctx context.Context, by Actor, name, subject string) (audit.Receipt, error) {
	for range rounds {
		snap, err := a.current(ctx)
		if err != nil {
			return audit.Receipt{}, err
		}
		f, d := a.judged(ctx, by, name, subject, snap)
		e := actEntry(by, f, &d)
		receipt, err := a.write(ctx, e, snap)
		var stale *audit.StaleError
		if errors.As(err, &stale) {
			continue // authority moved: judged again
		}
		if err == nil && !d.Allow {
			err = &DeniedAct{Decision: d, Receipt: receipt}
		}
		return receipt, err
	}
	return audit.Receipt{}, fmt.Errorf("%w: %w", control.ErrUnavailable, errMoving)
}

// Record writes a refusal that left no entry of its own: a malformed request, a change that
// is not what the act needs.
func (a *Acts) Record(ctx context.Context, by Actor, name, subject, code, message string) (audit.Receipt, error) {
	d := policy.Deny(code, message, "")
	return a.recorded(ctx, by, name, subject, d, audit.Refused)
}

// replayed writes the entry of a repetition that was answered with what came of the first.
func (a *Acts) replayed(ctx context.Context, by Actor, name, subject string, err error) error {
	var before *control.ReplayedError
	if !errors.As(err, &before) {
		return err
	}
	receipt, writeErr := a.recorded(ctx, by, name, subject+" (repeated with its Idempotency-Key)", policy.Decision{}, audit.Allowed)
	if writeErr != nil {
		return writeErr
	}
	before.Receipt = receipt
	return before
}

func (a *Acts) recorded(ctx context.Context, by identity.Actor, name, subject string, d policy.Decision, v audit.Verdict) (audit.Receipt, error) {
	for range rounds {
		snap, err := a.Store.Refresh(ctx, 0)
		if err != nil {
			return audit.Receipt{}, err
		}
		e := actEntry(by, &policy.Act{Version: policy.FactsVersion, Act: name, Subject: subject}, &d)
		e.Verdict, e.Facts = v, nil
		receipt, err := a.write(ctx, e, snap)
		var stale *audit.StaleError
		if errors.As(err, &stale) {
			continue
		}
		return receipt, err
	}
	return audit.Receipt{}, fmt.Errorf("%w: %w", control.ErrUnavailable, errMoving)
}

// write puts an entry that has no effect beside it into the book.
func (a *Acts) write(ctx context.Context, e audit.Entry, snap *control.Snapshot) (audit.Receipt, error) {
	e.AuthorityVersion, e.Epoch, e.At, e.Instance = snap.AuthorityVersion, snap.Epoch, snap.Now(), a.Instance
	return a.Book.Write(ctx, e)
}

// Stranger writes the refusal of a caller nobody proved: one entry per address, class and
// second, with a count.
func (a *Acts) Stranger(ctx context.Context, address, code, class, message string) (audit.Receipt, error) {
	snap := a.Store.Snapshot()
	return a.Book.Refuse(ctx, address, class, audit.Entry{
		ID: newID(), Kind: audit.KindHTTP, Verdict: audit.Refused, Class: "act", ClientAddress: address,
		Reasons: policy.Deny(code, class+": "+message, "").Reasons, Codes: []string{code}, Detail: class, Count: 1,
		AuthorityVersion: snap.AuthorityVersion, Epoch: snap.Epoch, Instance: a.Instance, At: snap.Now(),
	})
}
