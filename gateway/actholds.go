package gateway

import (
	"context"

	"bronzeward/audit"
	"bronzeward/gateway/control"
)

// FreezeMachine closes a machine to changes until an approver opens it again.
func (a *Acts) FreezeMachine(ctx context.Context, by Actor, name, reason string, once *control.Once) (control.Freeze, error) {
	return closing(ctx, a, by, ActMachinesFreeze, name, reason, once, a.Store.FreezeMachine)
}

// UnfreezeMachine lifts the freeze of a machine.
func (a *Acts) UnfreezeMachine(ctx context.Context, by Actor, name, reason string, once *control.Once) (control.Freeze, error) {
	return closing(ctx, a, by, ActMachinesUnfreeze, name, reason, once, a.Store.UnfreezeMachine)
}

// RetireMachine says for good that a machine never comes back.
func (a *Acts) RetireMachine(ctx context.Context, by Actor, name, reason string, once *control.Once) (control.Machine, error) {
	return closing(ctx, a, by, ActMachinesRetire, name, reason, once, a.Store.RetireMachine)
}

// closing is an act on a machine that has a reason.
func closing[T any](ctx context.Context, a *Acts, by Actor, as, name, reason string, once *control.Once,
	do func(ctx context.Context, name, reason string, act control.Act) (T, audit.Receipt, error),
) (T, error) {
	var none T
	act, said, err := a.act(ctx, by, as, name, "")
	if err != nil {
		return none, err
	}
	act.Once = once
	done, _, err := do(ctx, name, reason, act)
	return done, a.replayed(ctx, by, as, name, a.denied(ctx, err, said))
}

// SetRolloutLimit says how many machines of a cluster may have an apply under way at the same time.
func (a *Acts) SetRolloutLimit(ctx context.Context, by Actor, cluster string, limit int) error {
	act, said, err := a.act(ctx, by, ActClustersLimit, cluster, "")
	if err != nil {
		return err
	}
	_, err = a.Store.SetRolloutLimit(ctx, cluster, limit, act)
	return a.denied(ctx, err, said)
}
