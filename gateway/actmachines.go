package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// AddMachines adds one or several machines, all or none.
func (a *Acts) AddMachines(ctx context.Context, by Actor, list []control.NewMachine) (audit.Receipt, error) {
	subject := fmt.Sprintf("%d machines", len(list))
	if len(list) == 1 {
		subject = list[0].Name
	}
	act, said, err := a.act(ctx, by, ActMachinesAdd, subject, "")
	if err != nil {
		return audit.Receipt{}, err
	}
	if len(list) == 1 {
		_, receipt, err := a.Store.AddMachine(ctx, list[0], act)
		return receipt, denied(err, said)
	}
	receipt, err := a.Store.ImportMachines(ctx, list, act)
	return receipt, denied(err, said)
}

// UpdateMachine replaces a machine's addresses, port and labels.
func (a *Acts) UpdateMachine(ctx context.Context, by Actor, name string, u control.MachineUpdate) (audit.Receipt, error) {
	act, said, err := a.act(ctx, by, ActMachinesUpdate, name, "")
	if err != nil {
		return audit.Receipt{}, err
	}
	receipt, err := a.Store.UpdateMachine(ctx, name, u, act)
	return receipt, denied(err, said)
}

// Observe reads a machine and records what was seen. Nothing on the machine changes.
func (a *Acts) Observe(ctx context.Context, by Actor, name string) (control.Observation, error) {
	return a.observe(ctx, by, ActMachinesObserve, name)
}

// observe records what is seen as part of another act: whoever may do that act may look.
func (a *Acts) observe(ctx context.Context, by Actor, as, name string) (control.Observation, error) {
	act, said, err := a.act(ctx, by, as, name, "")
	if err != nil {
		return control.Observation{}, err
	}
	act.Entry = named(ActMachinesObserve, act.Entry)
	machine, err := a.Store.GetMachine(ctx, name)
	if err != nil {
		return control.Observation{}, err
	}
	began := time.Now()
	e, err := a.Upstream.Observe(ctx, upstreamTarget(&machine))
	if err != nil {
		return control.Observation{}, fmt.Errorf("observing %s: %w", name, err)
	}
	o := control.Observation{
		Began:    began,
		Identity: control.Identity{NodeID: e.NodeID, ClusterID: e.ClusterID, SMBIOS: e.SMBIOS},
		Version:  e.Version, Stage: e.Stage, Type: e.Type,
		Active: a.Digester.Digest(e.Active.Text), Persistent: a.Digester.Digest(e.Persistent.Text),
		ActiveVersion: versionPair(e.Active), PersistentVersion: versionPair(e.Persistent),
	}
	_, err = a.Store.RecordObservation(ctx, name, o, act)
	return o, denied(err, said)
}

// named records an act that is part of another one under its own name; which act it was
// judged as stands in its facts.
func named(name string, entry func(control.Stamp) audit.Entry) func(control.Stamp) audit.Entry {
	return func(st control.Stamp) audit.Entry {
		e := entry(st)
		e.Method = name
		return e
	}
}

// Pin fixes a machine's row to the identity it shows now; replace is needed when it is
// pinned to another one.
func (a *Acts) Pin(ctx context.Context, by Actor, name string, replace bool) (control.Identity, error) {
	as := ActMachinesPin
	if replace {
		as = ActMachinesRepin
	}
	seen, err := a.observe(ctx, by, as, name)
	if err != nil {
		return control.Identity{}, err
	}
	act, said, err := a.act(ctx, by, as, name, "")
	if err != nil {
		return control.Identity{}, err
	}
	_, err = a.Store.PinMachine(ctx, name, seen.Identity, replace, act)
	return seen.Identity, denied(err, said)
}

// Account settles an unresolved attempt by a person's judgement, on a fresh observation.
func (a *Acts) Account(ctx context.Context, by Actor, id uuid.UUID, landed bool, reason string) (audit.Receipt, error) {
	attempt, err := a.Store.GetAttempt(ctx, id)
	if err != nil {
		return audit.Receipt{}, err
	}
	if attempt.State != control.StateUnresolved {
		return audit.Receipt{}, fmt.Errorf("attempt %s is %s; only an unresolved one can be accounted for", id, attempt.State)
	}
	if _, err := a.observe(ctx, by, ActAttemptsAccount, attempt.MachineName); err != nil {
		return audit.Receipt{}, err
	}
	act, said, err := a.act(ctx, by, ActAttemptsAccount, id.String(), "")
	if err != nil {
		return audit.Receipt{}, err
	}
	receipt, err := a.Store.Account(ctx, control.Accounting{
		AttemptID: id, Landed: landed, Reason: reason, Outcome: audit.Outcome{Caller: bookCaller(by.Caller)},
	}, act)
	return receipt, denied(err, said)
}

// Revoke takes a person's authority away for good.
func (a *Acts) Revoke(ctx context.Context, by Actor, who policy.Person, reason string) (audit.Receipt, error) {
	act, said, err := a.act(ctx, by, ActIdentitiesRevoke, who.Issuer+" "+who.Subject, "")
	if err != nil {
		return audit.Receipt{}, err
	}
	receipt, err := a.Store.RevokeIdentity(ctx, who, reason, act)
	return receipt, denied(err, said)
}
