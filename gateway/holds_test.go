package gateway

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"

	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/control"
)

func (h *house) freeze(t testing.TB, person, name, reason string) {
	t.Helper()
	_ = must(h.acts().FreezeMachine(t.Context(), h.actor(t, person), name, reason, nil))(t)
}

// A frozen machine takes no change, whoever asks, and every refusal says who froze it, since when,
// why, and what would free it. What changes nothing on it goes on.
func TestAFrozenMachineTakesNoChangeAndIsRead(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	c := h.as(t, "olga")
	h.freeze(t, "otto", "w1", "the disk is being looked at")
	a := c.apply(t, "w1", noReboot(t, labelled("one")))
	refusedWith(t, a, codes.PermissionDenied, "BW-HOLDS-003")
	for _, part := range []string{"w1 is frozen by otto since 20", ": the disk is being looked at;", "an approver: bronzeward machines unfreeze w1 --reason TEXT"} {
		if !strings.Contains(a.text(), part) {
			t.Errorf("the refusal does not say %q: %s", part, a.text())
		}
	}
	if n := len(h.applies("w1")); n != 0 {
		t.Errorf("%d applies were sent", n)
	}
	succeeded(t, c.version(t, "w1"))
	succeeded(t, c.apply(t, "w1", applyRequest(t, labelled("one"), machine.ApplyConfigurationRequest_NO_REBOOT, true)))
	if _, err := h.acts().UnfreezeMachine(t.Context(), h.actor(t, "otto"), "w1", "it is fine", nil); err == nil {
		t.Error("an operator lifted a freeze")
	}
	_ = must(h.acts().UnfreezeMachine(t.Context(), h.actor(t, "ada"), "w1", "it is fine", nil))(t)
	succeeded(t, c.apply(t, "w1", noReboot(t, labelled("one"))))
}

// I18 in Go: a law that allows everything sends nothing to a frozen machine.
func TestALawThatAllowsEverythingThawsNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.law = openLaw })
	h.freeze(t, "otto", "w1", "stop")
	c := h.as(t, "olga")
	refusedWith(t, c.apply(t, "w1", noReboot(t, labelled("one"))), codes.PermissionDenied, "BW-INVARIANT-011")
	refusedWith(t, c.call(bounded(t), "/machine.MachineService/Reboot", to("w1"), nil), codes.PermissionDenied, "BW-INVARIANT-011")
	if a, b, n := len(h.applies("w1")), len(h.nodes["w1"].Log().Of("/machine.MachineService/Reboot")), len(h.attempts(t)); a+b+n != 0 {
		t.Errorf("%d applies and %d reboots were sent, %d attempts opened", a, b, n)
	}
}

// A machine that never comes back is told apart from one that is away, holds nobody up, and its
// address may be another's.
func TestARetiredMachineIsRefusedWithASentenceAndFreesItsCluster(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) {
		hurried(s)
		s.workers = 2
	})
	c := h.as(t, "olga")
	ok(t, h.nodes["w1"].Fault(talosd.Fault{Kind: talosd.ResetRequest}))
	refusedWith(t, c.apply(t, "w1", noReboot(t, labelled("one"))), codes.DeadlineExceeded, "BW-ATTEMPT-004")
	full := c.apply(t, "w2", noReboot(t, labelled("one")))
	refusedWith(t, full, codes.PermissionDenied, "BW-HOLDS-007")
	for _, part := range []string{"of olga since 20", ": on w1: ", "it is free when that ends, or when an approver raises the limit"} {
		if !strings.Contains(full.text(), part) {
			t.Errorf("the refusal does not say %q: %s", part, full.text())
		}
	}
	was := h.machine(t, "w1")
	if _, err := h.acts().RetireMachine(t.Context(), h.actor(t, "ada"), "w1", "its board burnt", nil); err == nil {
		t.Error("an approver retired a machine")
	}
	_ = must(h.acts().RetireMachine(t.Context(), h.actor(t, "rhea"), "w1", "its board burnt", nil))(t)
	eventually(t, "the replica to know", func() bool { return h.store.Snapshot().Machines[was.ID].Retired != nil })
	for what, a := range map[string]answer{
		"a read":  c.version(t, "w1"),
		"a write": c.apply(t, "w1", noReboot(t, labelled("one"))),
	} {
		refusedWith(t, a, codes.PermissionDenied, "BW-HOLDS-009")
		if !strings.Contains(a.text(), "w1 was retired by rhea at 20") || !strings.Contains(a.text(), ": its board burnt") {
			t.Errorf("%s: %s", what, a.text())
		}
	}
	succeeded(t, c.apply(t, "w2", noReboot(t, labelled("one"))))
	if got := h.texts(t, "select state from control.attempts order by opened_at limit 1"); got[0] != "unresolved" {
		t.Errorf("the lost attempt is %v: nobody can know", got)
	}
	_, err := h.acts().AddMachines(t.Context(), h.actor(t, "olga"), []control.NewMachine{{Name: "w3", Cluster: was.Cluster, Addresses: was.Addresses, Port: was.Port}}, nil)
	ok(t, err)
	_ = must(h.acts().Pin(t.Context(), h.actor(t, "olga"), "w3", false, nil))(t)
	eventually(t, "the replica to know", func() bool { return c.version(t, "w3").err == nil })
	ok(t, h.gw.settleOnce(t.Context()))
}

// What lands after a person has accounted for it is recognised; the judgement stands, and what is
// known of the machine follows. Nothing is sent.
func TestALandingAfterAnAccountingIsRecognised(t *testing.T) {
	t.Parallel()
	for _, landed := range []bool{false, true} {
		clock := talosd.NewManualClock(time.Now())
		h := newHouse(t, func(s *setup) {
			hurried(s)
			s.node = func(_ string, c *talosd.Config) { c.Clock = clock }
		})
		ok(t, h.nodes["w1"].Fault(talosd.Fault{Kind: talosd.LandLate, Delay: 27 * time.Second}))
		refusedWith(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))), codes.DeadlineExceeded, "BW-ATTEMPT-004")
		id := must(uuid.Parse(h.texts(t, "select id::text from control.attempts")[0]))(t)
		ok(t, h.db.Exec(t.Context(), `update control.attempts set opened_at = opened_at - interval '1 hour', send_by = send_by - interval '1 hour',
			lease_until = lease_until - interval '1 hour', transport_deadline = transport_deadline - interval '1 hour'`))
		_ = must(h.acts().Account(t.Context(), h.actor(t, "rhea"), id, landed, "looked at the console", nil))(t)
		was := must(h.store.GetAttempt(t.Context(), id))(t)
		ok(t, h.gw.settleLate(t.Context()))
		if got := must(h.store.GetAttempt(t.Context(), id))(t); got.LateAt != nil {
			t.Error("it landed late before it landed")
		}
		clock.Advance(27 * time.Second)
		eventually(t, "the landing", func() bool { return h.applies("w1")[0].Landed })
		ok(t, h.gw.settleLate(t.Context()))
		ok(t, h.gw.settleLate(t.Context()))
		if got := must(h.store.GetAttempt(t.Context(), id))(t); got.State != was.State || got.LateAt == nil {
			t.Errorf("the attempt is %s, seen at %v; it was %s", got.State, got.LateAt, was.State)
		}
		if m := h.machine(t, "w1"); m.ActiveDigest != was.Digest || m.PersistentDigest != was.Digest {
			t.Errorf("the machine is known to hold %q and %q", m.ActiveDigest, m.PersistentDigest)
		}
		if n := h.count(t, "select count(*) from audit.outcomes where attempt_id = $1 and kind = 'late-landing' and state = $2", id, string(was.State)); n != 1 {
			t.Errorf("%d outcomes tell of a late landing", n)
		}
		if n := len(h.applies("w1")); n != 1 {
			t.Errorf("%d applies were sent", n)
		}
	}
}

// A machine that rebooted, or another one at its address, has refused nothing: what became of the
// attempt is not known, and the sentence says why.
func TestARebootOrAnotherMachineIsNoRefusal(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		do    func(t *testing.T, n *talosd.Node) error
		words string
	}{
		"a reboot": {func(_ *testing.T, n *talosd.Node) error { return n.Reboot() }, "and the machine rebooted meanwhile and does not hold the configuration"},
		"another machine": {func(_ *testing.T, n *talosd.Node) error {
			return n.SwapIdentity(talosd.Identity{NodeID: "stranger", UUID: "4c4c4544-0000-4000-8000-00000000aaaa"})
		}, "and another machine answers at its address by now"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := talosd.NewManualClock(time.Now()) // it stands still: the apply never lands
			h := newHouse(t, func(s *setup) {
				s.gateway = func(c *Config) { c.TransportDeadline, c.VerifyDeadline = 10*time.Second, 5*time.Second }
				s.node = func(_ string, c *talosd.Config) { c.Clock = clock }
			})
			n := h.nodes["w1"]
			ok(t, n.Fault(talosd.Fault{Kind: talosd.LandLate, Delay: time.Hour}))
			answers := h.as(t, "olga").goApply(bounded(t), "w1", noReboot(t, labelled("one")))
			h.held(t, "w1")
			ok(t, row.do(t, n))
			a := <-answers
			if a.err == nil || !strings.Contains(a.text(), "BW-ATTEMPT-004") || !strings.Contains(a.text(), row.words) {
				t.Errorf("got %v", a.err)
			}
			if got := h.attempts(t); len(got) != 1 || got[0] != "unresolved" || !strings.Contains(h.reason(t), row.words) {
				t.Errorf("attempts are %v: %s", got, h.reason(t))
			}
		})
	}
}
