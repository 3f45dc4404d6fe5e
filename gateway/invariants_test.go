package gateway

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/oracle"
	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

// I18: with a law that allows everything, each of these is refused all the same, and nothing
// lands. Control, in each row: the law alone would have let it through.
func TestNoLawCanWaiveTheInvariants(t *testing.T) {
	t.Parallel()
	apply := func(mode machine.ApplyConfigurationRequest_Mode, dry bool) func(*testing.T, *house, *client) answer {
		return func(t *testing.T, _ *house, c *client) answer {
			return c.apply(t, "w1", applyRequest(t, labelled("one"), mode, dry))
		}
	}
	plain := apply(machine.ApplyConfigurationRequest_NO_REBOOT, false)
	node := func(do func(*talosd.Node) error) func(*testing.T, *house) {
		return func(t *testing.T, h *house) { ok(t, do(h.nodes["w1"])) }
	}
	for _, row := range []struct {
		name    string
		setup   func(*setup)
		before  func(*testing.T, *house)
		call    func(*testing.T, *house, *client) answer
		reason  string
		notFact bool // refused before any law is asked
	}{
		{"mode reboot", nil, nil, apply(machine.ApplyConfigurationRequest_REBOOT, false), "BW-INVARIANT-014", false},
		{"mode auto", nil, nil, apply(machine.ApplyConfigurationRequest_AUTO, false), "BW-INVARIANT-014", false},
		{"mode staged", nil, nil, apply(machine.ApplyConfigurationRequest_STAGED, false), "BW-INVARIANT-014", false},
		{"mode try", nil, nil, apply(machine.ApplyConfigurationRequest_TRY, false), "BW-INVARIANT-014", false},
		{"a dry run of mode reboot", nil, nil, apply(machine.ApplyConfigurationRequest_REBOOT, true), "BW-INVARIANT-013", false},
		{"a dry run of mode try", nil, nil, apply(machine.ApplyConfigurationRequest_TRY, true), "BW-INVARIANT-013", false},
		{"a live control plane in a worker's row", func(s *setup) {
			s.node = func(_ string, c *talosd.Config) {
				c.MachineConfig = []byte(strings.Replace(string(oracle.Base()), "type: worker", "type: controlplane", 1))
			}
		}, nil, plain, "BW-INVARIANT-006", false},
		{"another node id", nil, node(func(n *talosd.Node) error { return n.SwapIdentity(talosd.Identity{NodeID: "node-z"}) }), plain, "BW-INVARIANT-007", false},
		{"another Talos cluster", nil, node(func(n *talosd.Node) error { return n.SwapIdentity(talosd.Identity{ClusterID: "cluster-z"}) }), plain, "BW-INVARIANT-007", false},
		{"another SMBIOS UUID", nil, node(func(n *talosd.Node) error {
			return n.SwapIdentity(talosd.Identity{UUID: "4c4c4544-0000-4000-8000-0000000000ff"})
		}), plain, "BW-INVARIANT-007", false},
		{"stage maintenance", nil, node(func(n *talosd.Node) error { return n.SetStage("maintenance") }), plain, "BW-INVARIANT-008", false},
		{"another Talos minor", nil, node(func(n *talosd.Node) error { return n.SetVersion("v1.14.0") }), plain, "BW-INVARIANT-009", false},
		{"an older Talos minor", nil, node(func(n *talosd.Node) error { return n.SetVersion("v1.12.9") }), plain, "BW-INVARIANT-009", false},
		{"something staged", nil, node(func(n *talosd.Node) error { return n.Stage(labelled("staged")) }), plain, "BW-INVARIANT-015", false},
		{"something on trial", nil, node(func(n *talosd.Node) error { return n.Try(labelled("trial"), time.Hour) }), plain, "BW-INVARIANT-015", false},
		{"a dry run while something is staged", nil, node(func(n *talosd.Node) error { return n.Stage(labelled("staged")) }), apply(machine.ApplyConfigurationRequest_NO_REBOOT, true), "BW-INVARIANT-012", false},
		{"a configuration that cannot be read", nil, nil, func(t *testing.T, _ *house, c *client) answer {
			return c.apply(t, "w1", noReboot(t, []byte("machine: [\x01")))
		}, "BW-INVARIANT-010", false},
		{"a machine that is not pinned", nil, func(t *testing.T, h *house) {
			ok(t, h.db.Exec(t.Context(), "update control.machines set pinned_at = null, node_id = '', talos_cluster_id = '', smbios = ''"))
		}, plain, "BW-INVARIANT-003", false},
		{"a row of a control plane", nil, func(t *testing.T, h *house) {
			ok(t, h.db.Exec(t.Context(), "update control.machines set role = 'controlplane'"))
		}, plain, "BW-INVARIANT-004", false},
		{"approvals that nobody gave", func(s *setup) { s.law = quorumLaw }, nil, plain, "BW-APPROVAL-001", false},
		{"a revoked caller", nil, func(t *testing.T, h *house) { h.revoke(t, "olga") }, plain, "BW-INVARIANT-001", false},
		{"two machines", func(s *setup) { s.workers = 2 }, nil, func(t *testing.T, _ *house, c *client) answer {
			return c.call(bounded(t), talosd.MethodApply, toAll("w1", "w2"), noReboot(t, labelled("one")))
		}, "BW-TARGET-001", true},
		{"no machine", nil, nil, func(t *testing.T, _ *house, c *client) answer {
			return c.call(bounded(t), talosd.MethodApply, nil, noReboot(t, labelled("one")))
		}, "BW-TARGET-001", true},
		{"a caller on the deny list", func(s *setup) {
			s.identity = func(c *identity.Config) { c.DenyList = []identity.DenyRule{{Issuer: issuer, Subject: "olga"}} }
		}, nil, plain, "BW-CREDENTIAL-003", true},
		{"an attempt that is not resolved", hurried, func(t *testing.T, h *house) {
			ok(t, h.nodes["w1"].Fault(talosd.Fault{Kind: talosd.ResetRequest}))
			if a := h.as(t, "otto").apply(t, "w1", noReboot(t, labelled("two"))); a.err == nil {
				t.Fatal("the attempt is not unresolved")
			}
		}, plain, "BW-INVARIANT-011", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, func(s *setup) {
				s.law = openLaw
				if row.setup != nil {
					row.setup(s)
				}
			})
			if row.before != nil {
				row.before(t, h)
			}
			before := len(h.nodes["w1"].Log().Of(talosd.MethodApply))
			a := row.call(t, h, h.as(t, "olga"))
			refusedWith(t, a, codes.PermissionDenied, row.reason)
			for name, n := range h.nodes {
				if calls := n.Log().Of(talosd.MethodApply); name == "w1" && len(calls) != before || name != "w1" && len(calls) != 0 {
					t.Errorf("%s was sent an apply (landed %t)", name, calls[0].Landed)
				}
			}
			if n := h.count(t, "select count(*) from control.attempts where issuer = $1 and subject = 'olga'", issuer); n != 0 {
				t.Errorf("%d attempts", n)
			}
			if row.notFact {
				return
			}
			h.lawWouldHaveAllowed(t, a)
		})
	}
}

// lawWouldHaveAllowed judges the facts of a refused call's entry again, by the law alone.
func (h *house) lawWouldHaveAllowed(t testing.TB, a answer) {
	t.Helper()
	records := h.texts(t, "select convert_from(record, 'UTF8')::jsonb ->> 'facts' from audit.entries where id::text = any ($1)", a.decisions())
	if len(records) != 1 {
		t.Fatalf("%d entries", len(records))
	}
	var f policy.Facts
	ok(t, json.Unmarshal([]byte(records[0]), &f))
	l := must(h.law())(t)
	if d := l.engine.Decide(context.Background(), &f); !d.Allow {
		t.Errorf("the law alone refuses too: this row proves nothing: %+v", d.Reasons)
	}
}

// Every invariant refuses alone: of a good apply one thing is broken, and exactly the one
// reason comes. Control: the good apply is let through.
func TestEveryInvariantRefusesAlone(t *testing.T) {
	t.Parallel()
	now := time.Now()
	good := func() *policy.Facts {
		return &policy.Facts{
			Call:     policy.Call{Targets: 1, Mode: "no-reboot", ModeGiven: true, Size: 1000},
			Caller:   policy.Caller{ProofEnds: now.Add(time.Minute)},
			Machine:  &policy.Machine{Role: "worker", Pinned: true},
			Evidence: &policy.Evidence{Type: "worker", Stage: "running", Minor: "1.13", IdentityMatches: true},
			Config:   &policy.Config{}, Now: now,
		}
	}
	if d := invariants(good(), policy.Decision{Allow: true}, 0); !d.Allow || len(d.Reasons) != 0 {
		t.Fatalf("a good apply is refused: %+v", d.Reasons)
	}
	for _, row := range []struct {
		code  string
		spoil func(*policy.Facts)
	}{
		{"BW-INVARIANT-001", func(f *policy.Facts) { f.Caller.Revoked = true }},
		{"BW-INVARIANT-002", func(f *policy.Facts) { f.Call.Targets = 2 }},
		{"BW-INVARIANT-002", func(f *policy.Facts) { f.Call.Targets = 0 }},
		{"BW-INVARIANT-003", func(f *policy.Facts) { f.Machine.Pinned = false }},
		{"BW-INVARIANT-004", func(f *policy.Facts) { f.Machine.Role = "controlplane" }},
		{"BW-INVARIANT-004", func(f *policy.Facts) { f.Machine.Role = "" }},
		{"BW-INVARIANT-005", func(f *policy.Facts) { f.Evidence = nil }},
		{"BW-INVARIANT-005", func(f *policy.Facts) { f.Config = nil }},
		{"BW-INVARIANT-006", func(f *policy.Facts) { f.Evidence.Type = "init" }},
		{"BW-INVARIANT-006", func(f *policy.Facts) { f.Evidence.Type = "" }},
		{"BW-INVARIANT-007", func(f *policy.Facts) { f.Evidence.IdentityMatches = false }},
		{"BW-INVARIANT-008", func(f *policy.Facts) { f.Evidence.Stage = "" }},
		{"BW-INVARIANT-008", func(f *policy.Facts) { f.Evidence.Stage = "unknown" }},
		{"BW-INVARIANT-008", func(f *policy.Facts) { f.Evidence.Stage = "maintenance" }},
		{"BW-INVARIANT-009", func(f *policy.Facts) { f.Evidence.Minor = "1.130" }},
		{"BW-INVARIANT-009", func(f *policy.Facts) { f.Evidence.Minor = "" }},
		{"BW-INVARIANT-010", func(f *policy.Facts) { f.Config.Problems = []policy.Problem{{}} }},
		{"BW-INVARIANT-011", func(f *policy.Facts) { f.Holds = []policy.Hold{{}} }},
		{"BW-INVARIANT-012", func(f *policy.Facts) { f.Call.DryRun, f.Evidence.Staged = true, true }},
		{"BW-INVARIANT-013", func(f *policy.Facts) { f.Call.DryRun, f.Call.Mode = true, "staged" }},
		{"BW-INVARIANT-014", func(f *policy.Facts) { f.Call.Mode = "auto" }},
		{"BW-INVARIANT-014", func(f *policy.Facts) { f.Call.ModeGiven = false }},
		{"BW-INVARIANT-015", func(f *policy.Facts) { f.Evidence.Staged = true }},
		{"BW-INVARIANT-017", func(f *policy.Facts) { f.Caller.ProofEnds = now }},
		{"BW-INVARIANT-018", func(f *policy.Facts) { f.Call.Size = maxReadable + 1 }},
	} {
		f := good()
		row.spoil(f)
		d := invariants(f, policy.Decision{Allow: true}, 0)
		if got := strings.Join(d.Codes(), " "); d.Allow || got != row.code {
			t.Errorf("%s: allow %t, codes %q", row.code, d.Allow, got)
		}
	}
	f := good()
	f.Machine = nil
	if d := invariants(f, policy.Decision{Allow: true}, 0); d.Allow {
		t.Error("an apply to no machine is let through")
	}
	if d := invariants(good(), policy.Decision{Allow: true, Approvals: policy.Quorum{Required: 1}}, 0); d.Allow || d.Codes()[0] != "BW-APPROVAL-001" {
		t.Errorf("an apply without its approval: %+v", d)
	}
	if d := invariants(good(), policy.Decision{}, 0); d.Allow {
		t.Error("what the law refused is let through")
	}
}

// A proof that ends while its apply waits to be decided decides nothing.
func TestAProofThatEndsBeforeTheDecisionSendsNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.law = openLaw })
	release := must(h.db.HoldAuthority(t.Context()))(t)
	conf := h.shortLived(t, "olga", 2*time.Second)
	answers := h.with(t, conf).goApply(bounded(t), "w1", noReboot(t, labelled("one")))
	h.waiting(t, 1)
	a := <-answers // ends by its proof, while the lock is still held
	refusedWith(t, a, codes.Unauthenticated, "BW-CREDENTIAL-004")
	ok(t, release())
	if n := len(h.nodes["w1"].Log().Of(talosd.MethodApply)); n != 0 || len(h.attempts(t)) != 0 {
		t.Errorf("%d applies were sent", n)
	}
}
