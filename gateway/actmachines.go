package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"bronzeward/audit"
	"bronzeward/gateway/control"
)

// AddMachines adds one or several machines, all or none.
func (a *Acts) AddMachines(ctx context.Context, by Actor, list []control.NewMachine, once *control.Once) (audit.Receipt, error) {
	subject := fmt.Sprintf("%d machines", len(list))
	if len(list) == 1 {
		subject = list[0].Name
	}
	act, said, err := a.act(ctx, by, ActMachinesAdd, subject, "")
	if err != nil {
		return audit.Receipt{}, err
	}
	act.Once = once
	var receipt audit.Receipt
	if len(list) == 1 {
		_, receipt, err = a.Store.AddMachine(ctx, list[0], act)
	} else {
		receipt, err = a.Store.ImportMachines(ctx, list, act)
	}
	return receipt, a.replayed(ctx, by, ActMachinesAdd, subject, a.denied(ctx, err, said))
}

// UpdateMachine replaces a machine's addresses, port and labels.
func (a *Acts) UpdateMachine(ctx context.Context, by Actor, name string, u control.MachineUpdate, once *control.Once) (audit.Receipt, error) {
	act, said, err := a.act(ctx, by, ActMachinesUpdate, name, "")
	if err != nil {
		return audit.Receipt{}, err
	}
	act.Once = once
	receipt, err := a.Store.UpdateMachine(ctx, name, u, act)
	return receipt, a.replayed(ctx, by, ActMachinesUpdate, name, a.denied(ctx, err, said))
}

// Observe reads a machine and records what was seen. Nothing on the machine changes.
func (a *Acts) Observe(ctx context.Context, by Actor, name string, once *control.Once) (control.Observation, error) {
	o, err := a.observe(ctx, by, ActMachinesObserve, name, "", once)
	return o, a.replayed(ctx, by, ActMachinesObserve, name, err)
}

// observe records what is seen as part of another act: whoever may do that act may look. What is seen is digested as like is,
// for who compares the two, where there is the key of that; else, and when like is empty, under the current key.
func (a *Acts) observe(ctx context.Context, by Actor, as, name, like string, once *control.Once) (control.Observation, error) {
	act, said, err := a.act(ctx, by, as, name, "")
	if err != nil {
		return control.Observation{}, err
	}
	act.Entry, act.Once = named(ActMachinesObserve, act.Entry), once
	machine, err := a.Store.GetMachine(ctx, name)
	if err != nil {
		return control.Observation{}, err
	}
	if err := machine.InService("observing"); err != nil {
		return control.Observation{}, err // it has no address any more, and nothing is dialled
	}
	began := time.Now()
	e, err := a.Upstream.Observe(ctx, upstreamTarget(&machine))
	if err != nil {
		code, message := unreadable(name, "read", err)
		refused := &refusedError{status: codes.Unavailable, code: code, message: message, hints: []string{"bronzeward machines show " + name}}
		return control.Observation{}, fmt.Errorf("%w: %w", refused, err) // the door's log says the cause
	}
	o := control.Observation{
		Began: began, NotedSerial: machine.Serial,
		Identity: identityOf(e),
		Version:  e.Version, Stage: e.Stage, Type: e.Type,
		Active: digestLike(a.Digester, e.Active.Text, like), Persistent: digestLike(a.Digester, e.Persistent.Text, like),
		ActiveVersion: versionPair(e.Active), PersistentVersion: versionPair(e.Persistent),
	}
	_, err = a.Store.RecordObservation(ctx, name, o, act)
	return o, a.denied(ctx, err, said)
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
func (a *Acts) Pin(ctx context.Context, by Actor, name string, replace bool, once *control.Once) (control.Identity, error) {
	as := ActMachinesPin
	if replace {
		as = ActMachinesRepin
	}
	seen, err := a.observe(ctx, by, as, name, "", nil)
	if err != nil {
		return control.Identity{}, err
	}
	act, said, err := a.act(ctx, by, as, name, "")
	if err != nil {
		return control.Identity{}, err
	}
	act.Once = once
	_, err = a.Store.PinObserved(ctx, name, seen, replace, act)
	return seen.Identity, a.replayed(ctx, by, as, name, a.denied(ctx, err, said))
}

// Account settles an unresolved attempt by a person's judgement, on a fresh observation.
func (a *Acts) Account(ctx context.Context, by Actor, id uuid.UUID, landed bool, reason string, once *control.Once) (audit.Receipt, error) {
	attempt, err := a.Store.GetAttempt(ctx, id)
	if err != nil {
		return audit.Receipt{}, err
	}
	if attempt.State != control.StateUnresolved {
		if once != nil {
			if err := a.Store.Replayed(ctx, once, by.Caller.Issuer, by.Caller.Subject); err != nil {
				return audit.Receipt{}, a.replayed(ctx, by, ActAttemptsAccount, id.String(), err)
			}
		}
		return audit.Receipt{}, control.NotUnresolved(&attempt)
	}
	// Under the key of the attempt's own digests: another may have become current since.
	seen, err := a.observe(ctx, by, ActAttemptsAccount, attempt.MachineName, attempt.Digest, nil)
	if err != nil {
		return audit.Receipt{}, err
	}
	act, said, err := a.act(ctx, by, ActAttemptsAccount, id.String(), "")
	if err != nil {
		return audit.Receipt{}, err
	}
	act.Once = once
	receipt, err := a.Store.Account(ctx, control.Accounting{
		AttemptID: id, Landed: landed, Reason: reason, Seen: seen.Active, Outcome: audit.Outcome{Caller: bookCaller(by.Caller)},
	}, act)
	return receipt, a.replayed(ctx, by, ActAttemptsAccount, id.String(), a.denied(ctx, err, said))
}
