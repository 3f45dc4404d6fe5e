package gateway

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
)

// Whoever makes a law live waits for replicas that are at it, for a while; for those that know nothing of it, a
// shorter while; and for none that is silent, has failed or is ready.
func TestWhoIsWaitedForBeforeALawIsLive(t *testing.T) {
	t.Parallel()
	const law = "new"
	limits := patience{aware: 2 * time.Second, done: 5 * time.Second}
	replica := func(silent time.Duration, loaded string, a control.Ahead) control.Replica {
		return control.Replica{Silent: silent, Loaded: loaded, Ahead: a}
	}
	prepared := replica(0, "old", control.Ahead{Prepared: []string{"old", law}})
	loaded := replica(0, law, control.Ahead{})
	failed := replica(0, "old", control.Ahead{Prepared: []string{"old"}, Unprepared: []string{law}})
	atIt := replica(0, "old", control.Ahead{Preparing: []string{"else", law}})
	unaware := replica(0, "old", control.Ahead{Prepared: []string{"old"}, Preparing: []string{"else"}})
	silent := replica(control.ReplicaSilence+1, "old", control.Ahead{Preparing: []string{law}})
	for _, row := range []struct {
		name         string
		all          []control.Replica
		waited       time.Duration
		there, ready int
		waiting      bool
	}{
		{"nobody", nil, 0, 0, 0, false},
		{"a silent one", []control.Replica{silent}, 0, 0, 0, false},
		{"all ready", []control.Replica{prepared, loaded}, 0, 2, 2, false},
		{"one at it", []control.Replica{prepared, atIt}, 0, 2, 1, true},
		{"one at it, for long", []control.Replica{prepared, atIt}, limits.aware, 2, 1, true},
		{"one at it, for too long", []control.Replica{prepared, atIt}, limits.done, 2, 1, false},
		{"one that failed", []control.Replica{prepared, failed}, 0, 2, 1, false},
		{"one that knows nothing", []control.Replica{unaware, prepared}, limits.aware - 1, 2, 1, true},
		{"one that knows nothing, for long", []control.Replica{unaware, prepared}, limits.aware, 2, 1, false},
	} {
		there, ready, waiting := countPrepared(row.all, law, row.waited, limits)
		if there != row.there || ready != row.ready || waiting != row.waiting {
			t.Errorf("%s: %d there, %d ready, waiting %v", row.name, there, ready, waiting)
		}
	}
}

// A replica that was killed a moment ago holds up no activation for longer than a while, and the entry says that
// it had not compiled the law; whoever goes away meanwhile leaves the law saved and not live.
func TestAReplicaThatDoesNotAnswerHoldsUpNoActivation(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.ownEngine = true })
	acts, sven, ctx := h.acts(), h.actor(t, "sven"), context.Background()
	ok(t, h.store.ReportReplica(ctx, control.ReplicaReport{Process: uuid.New(), Loaded: h.store.Snapshot().LiveRevision}))
	first, law := h.store.Snapshot().LiveRevision, ladderLaw(t, "BW-TEST-001")

	acts.patience = patience{aware: time.Hour, done: time.Hour}
	gone, leave := context.WithCancel(ctx)
	answer := make(chan error, 1)
	go func() {
		_, err := acts.Activate(gone, sven, tried(law), nil)
		answer <- err
	}()
	eventually(t, "the law to be asked for", func() bool {
		return h.count(t, "select count(*) from control.bundle_preparations where revision = $1", law.Revision()) == 1
	})
	leave()
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Errorf("whoever went away is told %v", err)
	}
	live := func(want string, activations int) {
		t.Helper()
		if got := h.texts(t, "select revision from control.live_bundle")[0]; got != want {
			t.Errorf("%.8s is live, want %.8s", got, want)
		}
		if n := h.count(t, "select count(*) from audit.entries where method = 'policy.activate'"); n != activations {
			t.Errorf("%d entries of activations, want %d", n, activations)
		}
	}
	live(first, 0)
	must(h.store.Bundle(ctx, law.Revision()))(t)

	acts.patience = patience{aware: time.Nanosecond, done: time.Hour}
	must(acts.Activate(ctx, sven, tried(law), nil))(t)
	live(law.Revision(), 1)
	if n := h.count(t, "select count(*) from audit.entries where method = 'policy.activate' and convert_from(record, 'UTF8') like '%compiled ahead by 0 of 1 replicas%'"); n != 1 {
		t.Error("the entry does not say who had not compiled it")
	}
	ok(t, h.as(t, "olga").version(t, "w1").err)
}

// Who may not make a law live has no replica compile it.
func TestWhoMayNotActivateAsksForNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.ownEngine = true })
	acts, ctx := h.acts(), context.Background()
	law := ladderLaw(t, "BW-TEST-001")
	asked := func() int { return h.count(t, "select count(*) from control.bundle_preparations") }
	_, err := acts.Activate(ctx, h.actor(t, "olga"), tried(law), nil)
	wantDenied(t, err, "BW-ACT-003")
	if n := asked(); n != 0 {
		t.Errorf("%d laws are asked for", n)
	}
	must(acts.Activate(ctx, h.actor(t, "sven"), tried(law), nil))(t)
	if n := asked(); n != 1 {
		t.Errorf("%d laws are asked for", n)
	}
	back := must(shippedLaw())(t).bundle // which was live, so that only the role is wanting
	if _, err = acts.Rollback(ctx, h.actor(t, "olga"), tried(back), nil); !errors.Is(err, ErrLockOut) {
		t.Errorf("got %v", err)
	}
	if n := asked(); n != 1 {
		t.Errorf("%d laws are asked for", n)
	}
}
