package gateway

import (
	"errors"
	"reflect"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/facts"
	"bronzeward/policy"
)

// mutate is the way of every change that is no apply: one machine, judged under its
// lock, entry and outcome only. It is refused while an attempt is open on the machine,
// is sent once over the pooled connection, and may end unknown.
func (c *call) mutate() error {
	t := &c.targets[0]
	var (
		d         policy.Decision
		e         audit.Entry
		admission control.Admission
	)
	for round := 1; ; round++ {
		// What is refused whatever holds the machine takes no lock and touches no node.
		if refused, err := c.refusedEarly(t); refused || err != nil {
			return err
		}
		if refused, err := c.refusedBySight(t); refused || err != nil {
			return err
		}
		var err error
		if admission, d, e, err = c.admitMutation(t); err == nil {
			break
		}
		if !errors.Is(err, control.ErrMoved) {
			return c.notAdmitted(t, err)
		}
		if round == rounds {
			return c.notWritten(uuid.Nil, errMoving)
		}
		// What moved may be the law, or where the machine is reached, and this replica not be told of it yet.
		snap, err := c.g.store.Refresh(c.ctx, 0)
		if err != nil {
			return c.notWritten(uuid.Nil, err)
		}
		t.renew(snap)
	}
	c.g.countDecision(e)
	c.decided = append(c.decided, admission.Receipt)
	if !d.Allow {
		return denial(admission.Receipt, d)
	}
	// A crash between here and the outcome leaves an entry without one: what became of
	// the call is unknown, and is shown as such.
	v := verdict{target: t, decision: d, receipt: admission.Receipt}
	var sent int64
	began := time.Now()
	err := c.forward(c.ctx, v, func(answer *nodeAnswer) error { return c.pass(t, answer, &sent) })
	o := audit.Outcome{
		ID: newID(), EntryID: v.receipt.ID, Kind: audit.OutcomeAnswered, Code: status.Code(err).String(),
		BytesOut: sent, Duration: time.Since(began), Instance: c.g.instance,
	}
	if code := status.Code(err); code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled {
		o.Kind, o.State = audit.OutcomeUnanswered, "unknown"
	}
	c.keepOutcome(o)
	return err
}

// detonates says whether a method makes the node boot, and so sets off a configuration
// that is staged on its disk.
func detonates(method string) bool {
	switch method {
	case "/machine.MachineService/Reboot", "/machine.MachineService/Shutdown", "/machine.MachineService/Reset",
		"/machine.MachineService/Upgrade", "/machine.MachineService/Rollback", "/machine.LifecycleService/Upgrade":
		return true
	}
	return false
}

// refusedBySight looks at the machine before it is changed: no policy can waive that it is
// the pinned one, and that a boot brings nothing nobody approved.
func (c *call) refusedBySight(t *target) (bool, error) {
	if !t.machine.Pinned() {
		return true, c.denyAbout(t, policy.Deny("BW-INVARIANT-003", "the machine is not pinned to an identity", "bronzeward machines pin "+t.machine.Name))
	}
	look := c.g.upstream.Identify
	if detonates(c.name) {
		look = c.g.upstream.Observe
	}
	seen, err := look(c.ctx, upstreamTarget(t.machine))
	switch {
	case err != nil:
		return true, c.unreachable(t, err)
	case !identityMatches(seen, t.machine):
		return true, c.denyAbout(t, policy.Deny("BW-INVARIANT-007", "the machine behind the address is not the one that was pinned", ""))
	case detonates(c.name) && !facts.SameText(seen.Active.Text, seen.Persistent.Text):
		return true, c.denyAbout(t, policy.Deny("BW-INVARIANT-019", "a configuration is staged or on trial, and this call would set it off", ""))
	}
	return false, nil
}

// admitMutation judges for good under the machine's lock, and commits the entry.
func (c *call) admitMutation(t *target) (_ control.Admission, d policy.Decision, e audit.Entry, _ error) {
	snap := c.g.laws.current(c.ctx, c.g)
	request := control.Request{MachineID: t.machine.ID, Caller: c.person()}
	admission, err := c.g.store.Admit(c.ctx, request, func(locked control.Locked) control.Judgement {
		now := &target{spelled: t.spelled, machine: &locked.Machine}
		f := c.facts(now, snap, "final")
		f.Now, f.Caller.Revoked, f.Holds = locked.Now, locked.CallerRevoked, holdsOf(locked)
		var moved bool
		if d, moved = c.g.judgeLocked(c.ctx, locked, f); moved || !reflect.DeepEqual(upstreamTarget(&locked.Machine), upstreamTarget(t.machine)) {
			return control.Judgement{Retry: true} // the law, or where the machine is reached, is another than was looked at
		}
		d = inRecovery(locked.Standing, everyCall(f, d))
		if d.Allow && len(f.Holds) > 0 {
			d.Allow = false
			d.Reasons = append(d.Reasons, policy.Deny("BW-INVARIANT-011", "the machine's scope is held", "bronzeward attempts list").Reasons...)
		}
		var err error
		if e, err = withFacts(c.entry(now, d), f); err != nil {
			d = policy.Deny("BW-BOOK-002", "the facts of this call cannot be written down", "")
			e = c.entry(now, d)
		}
		return control.Judgement{Entry: e}
	})
	return admission, d, e, err
}
