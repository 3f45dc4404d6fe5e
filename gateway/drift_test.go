package gateway

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/oracle"
	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/control"
)

// look has the machine looked at once and expects what that comes to.
func (h *house) look(t testing.TB, want control.SightResult) {
	t.Helper()
	got, err := h.gw.sight(t.Context(), h.machine(t, "w1").ID)
	if err != nil || got != want {
		t.Fatalf("the sight came to %q, %v; want %q", got, err, want)
	}
}

// patched has a machine that somebody patched round the gateway, and its open drift.
func (h *house) patched(t testing.TB, text []byte) control.Drift {
	t.Helper()
	h.look(t, control.SightBaseline)
	ok(t, h.nodes["w1"].SetConfig(text))
	h.look(t, control.SightOpened)
	return h.openDrift(t)
}

func (h *house) openDrift(t testing.TB) control.Drift {
	t.Helper()
	list := must(h.store.OpenDrifts(t.Context()))(t)
	if len(list) != 1 {
		t.Fatalf("%d drifts are open", len(list))
	}
	return list[0]
}

func (h *house) driftIs(t testing.TB, id control.DriftID, want control.DriftState) control.Drift {
	t.Helper()
	d := must(h.store.GetDrift(context.Background(), id))(t)
	if d.State != want {
		t.Errorf("the drift is %s, want %s", d.State, want)
	}
	return d
}

// settle proposes what settles the drift, and has ada approve it.
func (h *house) settle(t testing.TB, d control.Drift, kind string) control.ChangeID {
	t.Helper()
	c, created, err := h.acts().SettleDrift(t.Context(), h.actor(t, "olga"), d.ID, kind, "seen in the change log", nil)
	ok(t, err)
	if !created || c.Kind != kind || c.Drift != d.ID || c.Why != "seen in the change log" || c.State != control.ChangeWaiting {
		t.Fatalf("created %t: %+v", created, c)
	}
	return c.ID
}

// What is found on a machine is shown with both digests and without a secret, and while it is
// open nothing is captured, approved before or sent.
func TestADriftHoldsItsMachine(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	h.look(t, control.SightBaseline)
	before := h.approved(t, labelled("before"))
	ok(t, h.nodes["w1"].SetConfig(labelled("patched")))
	h.look(t, control.SightOpened)
	d := h.openDrift(t)
	ring := must(digests())(t)
	if d.AppliedActive != ring.Digest(oracle.Base()) || d.FoundActive != ring.Digest(labelled("patched")) || d.FoundPersistent != d.FoundActive {
		t.Errorf("the digests are %s and %s", d.AppliedActive, d.FoundActive)
	}
	if !d.Known || len(d.Changes) != 1 || !strings.HasPrefix(d.Changes[0].Path, "machine.nodeLabels") {
		t.Errorf("what changed is %+v", d.Changes)
	}
	h.is(t, before, control.ChangeSuperseded)
	a := h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("another")))
	if a.code() != codes.PermissionDenied || !strings.Contains(a.text(), "BW-HOLDS-004") || !strings.Contains(a.text(), d.ID.String()) {
		t.Errorf("an ordinary apply: %v %q", a.code(), a.text())
	}
	h.sentNothing(t)
	// A manual undo closes it.
	ok(t, h.nodes["w1"].SetConfig(oracle.Base()))
	h.look(t, control.SightReturned)
	h.driftIs(t, d.ID, control.DriftReturned)
	waits(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("another"))))
}

// An adoption is approved like any other change, sends nothing, and takes what runs as applied.
func TestADriftIsAdopted(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	d := h.patched(t, labelled("patched"))
	id := h.settle(t, d, control.KindAdopt)
	again, created, err := h.acts().SettleDrift(t.Context(), h.actor(t, "otto"), d.ID, control.KindAdopt, "again", nil)
	ok(t, err)
	if created || again.ID != id {
		t.Errorf("proposed again it is %s, created %t", again.ID, created)
	}
	_, err = h.acts().AdoptChange(t.Context(), h.actor(t, "olga"), id, nil)
	actRefused(t, err, "BW-APPROVAL-001")
	h.driftIs(t, d.ID, control.DriftOpen)
	_, err = h.applyChange(t, "olga", id)
	actRefused(t, err, "BW-DRIFT-004")
	h.approve(t, id, "ada")
	// What is approved is what was seen: patched again, it is another configuration.
	c, err := h.acts().AdoptChange(t.Context(), h.actor(t, "olga"), id, nil)
	ok(t, err)
	if c.State != control.ChangeSpent || len(c.Approvals) != 1 {
		t.Errorf("the change is %+v", c)
	}
	if got := h.driftIs(t, d.ID, control.DriftAdopted); got.ChangeID != id {
		t.Errorf("it was adopted by %s", got.ChangeID)
	}
	if m := h.machine(t, "w1"); m.ActiveDigest != d.FoundActive || m.PersistentDigest != d.FoundActive {
		t.Errorf("applied is %s", m.ActiveDigest)
	}
	h.sentNothing(t)
	h.look(t, control.SightNothing)
	if n := h.count(t, "select count(*) from audit.entries where kind = 'system' and method in ('drift.opened', 'drift.closed') and machine_name = 'w1'"); n != 2 {
		t.Errorf("%d entries tell of the drift", n)
	}
	if n := h.count(t, "select count(*) from audit.entries where kind = 'http' and class = 'act' and method = 'changes.apply' and verdict = 'allow' and change_id = $1", id.String()); n != 1 {
		t.Errorf("%d entries tell of the adoption", n)
	}
}

// What an approver saw is what is adopted: once the machine has moved on, it is refused.
func TestAnAdoptionIsOfWhatWasShown(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	d := h.patched(t, labelled("patched"))
	id := h.settle(t, d, control.KindAdopt)
	h.approve(t, id, "ada")
	ok(t, h.nodes["w1"].SetConfig(labelled("twice")))
	_, err := h.acts().AdoptChange(t.Context(), h.actor(t, "olga"), id, nil)
	actRefused(t, err, "BW-CHANGE-002")
	h.driftIs(t, d.ID, control.DriftOpen)
	h.is(t, id, control.ChangeSuperseded)
	h.look(t, control.SightMoved)
	if m := h.machine(t, "w1"); m.ActiveDigest != d.AppliedActive {
		t.Errorf("applied is %s", m.ActiveDigest)
	}
}

// A revert sends the sealed copy of what was applied, and closes the drift by the read-back.
func TestADriftIsReverted(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	d := h.patched(t, labelled("patched"))
	id := h.settle(t, d, control.KindRevert)
	_, err := h.acts().AdoptChange(t.Context(), h.actor(t, "olga"), id, nil)
	actRefused(t, err, "BW-DRIFT-004")
	h.approve(t, id, "ada")
	out, err := h.applyChange(t, "olga", id)
	ok(t, err)
	if out.Attempt.State != control.StateCompleted {
		t.Fatalf("the attempt is %s: %s", out.Attempt.State, out.Message)
	}
	if now, _ := h.nodes["w1"].Active(); !bytes.Equal(now, oracle.Base()) {
		t.Error("the machine does not run what was applied, byte for byte")
	}
	if got := h.driftIs(t, d.ID, control.DriftReverted); got.ChangeID != id {
		t.Errorf("it was reverted by %s", got.ChangeID)
	}
	h.look(t, control.SightNoted)
	_, _, err = h.acts().SettleDrift(t.Context(), h.actor(t, "olga"), d.ID, control.KindAdopt, "late", nil)
	actRefused(t, err, "BW-DRIFT-002")
}

// Where no copy of what was applied is there, nothing can be brought back; it can be adopted,
// and its approver is told what is not known.
func TestWithoutACopyThereIsNoWayBack(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	d := h.patched(t, labelled("patched"))
	ok(t, h.db.Exec(t.Context(), "delete from control.applied_copies"))
	_, _, err := h.acts().SettleDrift(t.Context(), h.actor(t, "olga"), d.ID, control.KindRevert, "why", nil)
	actRefused(t, err, "BW-DRIFT-003")
	id := h.settle(t, d, control.KindAdopt)
	review := must(h.store.GetReview(t.Context(), id))(t)
	if len(review.Warnings) != 2 || review.Warnings[0].Code != "BW-CONFIG-014" || review.Warnings[1].Code != "BW-DRIFT-005" {
		t.Errorf("the warnings are %+v", review.Warnings)
	}
}

// A read that began before the apply opens nothing: the sight is judged under the serial from
// before it, and waits while the apply is under way (I7).
func TestAReadFromBeforeTheApplyOpensNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.look(t, control.SightBaseline)
	ok(t, h.nodes["w1"].Fault(talosd.Fault{Kind: talosd.Pause}))
	done := make(chan answer, 1)
	go func() { done <- h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))) }()
	eventually(t, "it comes to that", func() bool { return len(h.applies("w1")) == 1 })
	if _, err := h.gw.sight(t.Context(), h.machine(t, "w1").ID); !errors.Is(err, control.ErrMoved) {
		t.Errorf("during the apply: %v", err)
	}
	h.nodes["w1"].Resume()
	succeeded(t, <-done)
	h.look(t, control.SightNoted)
	if n := h.count(t, "select count(*) from control.drifts"); n != 0 {
		t.Errorf("%d drifts", n)
	}
}

// The watch finds what was done round the gateway by itself, whether it stood then or not, and
// ends without leaving anything behind.
func TestTheWatchFindsIt(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, func(s *setup) {
		s.gateway = func(c *Config) { c.Drift.PollEvery = time.Hour } // what is found is found by the watch
	})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { h.gw.Watch(ctx) })
	eventually(t, "it comes to that", func() bool { return h.machine(t, "w1").ActiveDigest != "" })
	ok(t, h.nodes["w1"].SetConfig(labelled("patched")))
	open := func() int { return h.count(t, "select count(*) from control.drifts where state = 'open'") }
	eventually(t, "it comes to that", func() bool { return open() == 1 })
	if got := testutil.ToFloat64(h.gw.metrics.watches.WithLabelValues(watchStands)); got != 1 {
		t.Errorf("%v machines are watched", got)
	}
	ok(t, h.nodes["w1"].SetConfig(oracle.Base()))
	eventually(t, "it comes to that", func() bool { return open() == 0 })
	// It is found again after a reboot, which ends the watch.
	ok(t, h.nodes["w1"].Stage(labelled("staged")))
	eventually(t, "it comes to that", func() bool { return open() == 1 })
	ok(t, h.nodes["w1"].Reboot())
	eventually(t, "it comes to that", func() bool {
		list := must(h.store.OpenDrifts(t.Context()))(t)
		return len(list) == 1 && !list[0].Staged()
	})
	stop()
	running.Wait()
	if got := testutil.ToFloat64(h.gw.metrics.watches.WithLabelValues(watchStands)); got != 0 {
		t.Errorf("%v machines are watched after the end", got)
	}
}

// Something staged is a drift too, and what the next reboot brings is kept with the machine;
// while it is there, dry runs are refused.
func TestWhatIsStagedIsShown(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	h.look(t, control.SightBaseline)
	ok(t, h.nodes["w1"].Stage(labelled("staged")))
	h.look(t, control.SightOpened)
	d := h.openDrift(t)
	if !d.Staged() || d.FoundActive != d.AppliedActive || len(d.Changes) != 1 {
		t.Errorf("the drift is %+v", d)
	}
	w := must(h.store.Watch(t.Context(), h.machine(t, "w1").ID))(t)
	if w.Seen == nil || len(w.Seen.Staged) != 1 {
		t.Fatalf("what is staged is %+v", w.Seen)
	}
	// The revert names both digests and says what it discards.
	id := h.settle(t, d, control.KindRevert)
	review := must(h.store.GetReview(t.Context(), id))(t)
	if c := h.change(t, id); c.Base != d.FoundActive || c.Persistent != d.FoundPersistent || len(review.Discards) != 1 {
		t.Errorf("the change is of %s and %s and discards %+v", c.Base, c.Persistent, review.Discards)
	}
	h.approve(t, id, "ada")
	out, err := h.applyChange(t, "olga", id)
	ok(t, err)
	if out.Attempt.State != control.StateCompleted {
		t.Fatalf("the attempt is %s", out.Attempt.State)
	}
	h.driftIs(t, d.ID, control.DriftReverted)
	h.look(t, control.SightNoted)
	if w := must(h.store.Watch(t.Context(), h.machine(t, "w1").ID))(t); w.Seen.Staged != nil {
		t.Errorf("staged is still %+v", w.Seen.Staged)
	}
}
