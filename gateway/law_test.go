package gateway

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/talosd"
	"bronzeward/policy"
)

// I10: what has no row in the table is denied with an entry, whoever asks, and touches no node.
func TestUnknownMethodsAreDeniedWithAnEntry(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.law = openLaw })
	c := h.as(t, "olga")
	for _, method := range []string{
		"/machine.MachineService/Explode", "/machine.MachineService/version", "/machine.MachineService/Version/",
		"/machine.MachineServiceX/Version", "/no.such.Service/Method", "/os.OSService/Dmesg",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
		"/grpc.health.v1.Health/Check", "/securityapi.SecurityService/Certificate", "/machine.LVMService/VolumeGroupRemove",
		"/cosi.resource.State/Teardown", "/a/b/c", "//", "/x/" + strings.Repeat("y", 3000),
	} {
		t.Run(method[:min(len(method), 60)], func(t *testing.T) {
			a := c.call(bounded(t), method, to("w1"), nil)
			refusedWith(t, a, codes.PermissionDenied, "DENIED BW-METHODS-001")
			if n := h.count(t, "select count(*) from audit.entries where id::text = any ($1) and verdict = 'deny' and caller_subject = 'olga'", a.decisions()); n != 1 {
				t.Errorf("%d entries", n)
			}
		})
	}
	h.untouched(t, "w1")
}

// Client-streaming methods are denied before anything of the stream is read.
func TestUploadsAreDeniedUnread(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.law = openLaw })
	c := h.as(t, "olga")
	for _, method := range []string{"/machine.ImageService/Import", "/machine.MachineService/EtcdRecover", "/machine.DebugService/ContainerRun"} {
		s := must(c.open(bounded(t), method, to("w1")))(t)
		refusedWith(t, finishCall(s), codes.PermissionDenied, "DENIED BW-METHODS-002")
	}
	h.untouched(t, "w1")
}

// I11: without a live law, with one that cannot be opened, with one stored under another's
// name, and with one that takes longer than it may, everything is denied with an entry.
func TestWithoutAValidLawEverythingIsDenied(t *testing.T) {
	t.Parallel()
	shipped, open := must(shippedLaw())(t), must(openLaw())(t)
	insert := func(t *testing.T, h *house, revision string, content []byte) {
		t.Helper()
		ok(t, h.db.Exec(t.Context(), "insert into control.bundles (revision, content, entry_id) values ($1, $2, gen_random_uuid())", revision, content))
		ok(t, h.db.Exec(t.Context(), "update control.live_bundle set revision = $1, counter = counter + 1", revision))
		ok(t, h.db.Exec(t.Context(), "update control.authority set version = version + 1"))
	}
	for _, row := range []struct {
		name   string
		setup  func(*setup)
		spoil  func(t *testing.T, h *house)
		reason string
	}{
		{"none is live", func(s *setup) { s.empty, s.ownEngine = true, true }, nil, "BW-POLICY-001"},
		{"none is live, and the engine has an old one", func(s *setup) { s.empty, s.law = true, openLaw }, nil, "BW-POLICY-001"},
		{"a row of garbage", func(s *setup) { s.ownEngine = true }, func(t *testing.T, h *house) {
			insert(t, h, strings.Repeat("a", 64), []byte("not an archive"))
		}, "BW-POLICY-001"},
		{"a good archive under another's name", func(s *setup) { s.ownEngine = true }, func(t *testing.T, h *house) {
			insert(t, h, strings.Repeat("b", 64), open.bundle.Bytes())
		}, "BW-POLICY-001"},
		{"one byte changed", func(s *setup) { s.ownEngine = true }, func(t *testing.T, h *house) {
			content := open.bundle.Bytes()
			content[len(content)/2] ^= 1
			insert(t, h, open.bundle.Revision(), content)
		}, "BW-POLICY-001"},
		{"over its budget", func(s *setup) {
			s.gateway = func(c *Config) {
				hurried := policy.New(policy.EngineConfig{Budget: time.Nanosecond})
				if err := hurried.Use(context.Background(), shipped.bundle); err == nil {
					c.Judge = hurried
				}
			}
		}, nil, "BW-POLICY-00"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, row.setup)
			if row.spoil != nil {
				row.spoil(t, h)
			}
			c := h.as(t, "olga")
			for what, a := range map[string]answer{
				"read": c.version(t, "w1"), "apply": c.apply(t, "w1", noReboot(t, labelled("one"))),
				"mutate": c.call(bounded(t), "/machine.MachineService/Reboot", to("w1"), nil),
			} {
				if a.code() != codes.PermissionDenied || !strings.Contains(a.text(), "DENIED "+row.reason) {
					t.Errorf("%s got %v", what, a.err)
				}
				if n := h.count(t, "select count(*) from audit.entries where id::text = any ($1) and verdict = 'deny'", a.decisions()); n != 1 {
					t.Errorf("%s has %d entries", what, n)
				}
			}
			h.untouched(t, "w1")
		})
	}
}

// A law that becomes live drops no call: whoever calls meanwhile is judged by one or the other.
func TestActivationUnderLoadDropsNoCall(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) {
		s.ownEngine, s.following = true, true
		s.gateway = func(c *Config) { c.Limits = Limits{CallsPerSecond: 1e6, CallsPerSecondPerAddress: 1e6} }
	})
	laws := make([]*policy.Bundle, 3)
	for i := range laws {
		laws[i] = must(policy.OverlayFiles(must(shippedLaw())(t).bundle, policy.File{
			Path: "bronzeward/data.yaml", Body: []byte("ladder: {BW-TEST-00" + itoa(i) + ": warn}\n"),
		}))(t)
	}
	stop := make(chan struct{})
	var calls atomic.Int64
	var callers sync.WaitGroup
	for _, person := range []string{"olga", "otto", "vera", "ada"} {
		c := h.as(t, person)
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if a := c.version(t, "w1"); a.err != nil {
					t.Errorf("a call during an activation got %v", a.err)
				}
				calls.Add(1)
			}
		})
	}
	for _, b := range laws {
		before := calls.Load()
		eventually(t, "calls", func() bool { return calls.Load() > before+8 })
		h.activate(t, b)
		eventually(t, "the law to be loaded", func() bool { return h.gw.judge.Revision() == b.Revision() })
	}
	close(stop)
	callers.Wait()
	seen := h.texts(t, "select distinct policy_revision from audit.entries where kind = 'rpc'")
	if len(seen) < 3 {
		t.Errorf("calls were judged by %d revisions only", len(seen))
	}
	if n := h.count(t, "select count(*) from audit.entries where kind = 'rpc' and verdict <> 'allow'"); n != 0 {
		t.Errorf("%d calls were refused", n)
	}
}

// Other mutations that a law lets through have an entry and an outcome, are sent once, and
// are refused while an apply is on its way.
func TestOtherMutationsAreRecordedAndHeldOff(t *testing.T) {
	t.Parallel()
	const restart = "/machine.MachineService/ServiceRestart"
	h := newHouse(t, func(s *setup) { s.law = openLaw })
	c := h.as(t, "olga")
	request := dataField([]byte("cri"))
	a := succeeded(t, c.call(bounded(t), restart, to("w1"), request))
	if n := len(h.nodes["w1"].Log().Of(restart)); n != 1 {
		t.Fatalf("the node was sent %d calls", n)
	}
	eventually(t, "the outcome", func() bool {
		return h.count(t, "select count(*) from audit.outcomes where entry_id::text = $1 and code = 'OK'", a.decisions()[0]) == 1
	})
	h.paused(t, "w1", 1)
	apply := c.goApply(bounded(t), "w1", noReboot(t, labelled("one")))
	h.held(t, "w1")
	refusedWith(t, h.as(t, "otto").call(bounded(t), restart, to("w1"), request), codes.PermissionDenied, "BW-INVARIANT-011")
	if n := len(h.nodes["w1"].Log().Of(restart)); n != 1 {
		t.Errorf("the node was sent %d calls", n)
	}
	h.nodes["w1"].Resume()
	succeeded(t, <-apply)
}

// A mutation whose answer is lost is unknown, and says so.
func TestAMutationWithoutAnAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	const restart = "/machine.MachineService/ServiceRestart"
	h := newHouse(t, func(s *setup) { s.law = openLaw })
	ok(t, h.nodes["w1"].Fault(talosd.Fault{Kind: talosd.ResetAfter, Method: restart, Times: -1}))
	a := h.as(t, "olga").call(bounded(t), restart, to("w1"), dataField([]byte("cri")))
	if a.code() != codes.Unavailable {
		t.Errorf("got %v", a.err)
	}
	if n := len(h.nodes["w1"].Log().Of(restart)); n != 1 {
		t.Errorf("the node was sent %d calls", n)
	}
	eventually(t, "the outcome", func() bool {
		return h.count(t, "select count(*) from audit.outcomes where entry_id::text = any ($1) and kind = 'unanswered' and state = 'unknown'", a.decisions()) == 1
	})
}
