package gateway

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"bronzeward/fixtures/oracle"
)

// The watch ends with its context and leaves nothing running, also where a machine went away and came
// back meanwhile, and one was retired. No other test runs beside this one, so what runs is its own.
func TestTheWatchLeavesNothingRunning(t *testing.T) {
	_ = shared17.Server(t) // which all tests share, and which goes on
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) }) // when the house has ended too
	h := newHouse(t, func(s *setup) { s.workers = 2 })
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { h.gw.Watch(ctx) })
	state := func(what string) float64 { return testutil.ToFloat64(h.gw.metrics.watches.WithLabelValues(what)) }
	eventually(t, "both machines to be watched and looked at", func() bool {
		return state(watchStands) == 2 && h.machine(t, "w1").ActiveDigest != ""
	})
	if n := watchRuns(t); n == 0 {
		t.Error("nothing of the watch is seen to run, so nothing that it leaves could be seen")
	}

	h.nodes["w1"].RefuseDials(true)
	h.nodes["w1"].ResetConnections()
	eventually(t, "the machine to be away", func() bool { return state(watchAway) == 1 })
	h.nodes["w1"].RefuseDials(false)
	eventually(t, "the machine to be watched again", func() bool { return state(watchStands) == 2 })
	ok(t, h.nodes["w1"].SetConfig(labelled("patched")))
	eventually(t, "the drift to be found", func() bool { return h.count(t, "select count(*) from control.drifts where state = 'open'") == 1 })
	ok(t, h.nodes["w1"].SetConfig(oracle.Base()))
	eventually(t, "the drift to be over", func() bool { return h.count(t, "select count(*) from control.drifts where state = 'open'") == 0 })
	_ = must(h.acts().RetireMachine(t.Context(), h.actor(t, "rhea"), "w2", "its board burnt", nil))(t)
	eventually(t, "the retired machine not to be watched", func() bool { return state(watchStands) == 1 })

	// It ends while a machine is away too: the pause before the next try is not waited for.
	h.nodes["w1"].RefuseDials(true)
	h.nodes["w1"].ResetConnections()
	eventually(t, "the machine to be away", func() bool { return state(watchAway) == 1 })
	stop()
	running.Wait()
	if n := watchRuns(t); n != 0 {
		t.Errorf("%d goroutines of the watch run on", n)
	}
	if left := state(watchStands) + state(watchAway) + state(watchUnread); left != 0 {
		t.Errorf("%v machines are watched after the end", left)
	}
}

// watchRuns is how many goroutines have something of the watch on their stack.
func watchRuns(t *testing.T) (n int) {
	t.Helper()
	stacks := make([]byte, 64<<20)
	for one := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(one, "gateway.(*watched).") || strings.Contains(one, "upstream.(*Pool).Watch(") {
			n++
		}
	}
	return n
}
