package gateway

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/talosd"
)

// paused makes the node hold the next so many applies until Resume.
func (h *house) paused(t testing.TB, node string, times int) {
	t.Helper()
	ok(t, h.nodes[node].Fault(talosd.Fault{Kind: talosd.Pause, Times: times}))
}

// held waits until the node holds an apply.
func (h *house) held(t testing.TB, node string) {
	t.Helper()
	ok(t, h.nodes[node].Log().Wait(bounded(t), heldNow))
}

// I5: while one apply is on its way to a machine, another is refused, and told who holds
// it; the same goes for the cluster's rollout limit of one.
func TestOneApplyAtATime(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, second, reason string }{
		{"to one machine", "w1", "BW-HOLDS"},
		{"in one cluster", "w2", "BW-HOLDS"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, func(s *setup) { s.workers = 2 })
			h.paused(t, "w1", 1)
			first := h.as(t, "olga").goApply(bounded(t), "w1", noReboot(t, labelled("one")))
			h.held(t, "w1")
			holder := h.texts(t, "select id::text from control.attempts")[0]
			a := h.as(t, "otto").apply(t, row.second, noReboot(t, labelled("two")))
			refusedWith(t, a, codes.PermissionDenied, row.reason)
			if !strings.Contains(a.text(), "olga") && !strings.Contains(a.text(), holder) {
				t.Errorf("nobody is named as holder: %s", a.text())
			}
			h.nodes["w1"].Resume()
			succeeded(t, <-first)
			if n := len(h.applies("w1")) + len(h.applies("w2")); n != 1 {
				t.Errorf("%d applies were sent", n)
			}
			succeeded(t, h.as(t, "otto").apply(t, row.second, noReboot(t, labelled("two"))))
		})
	}
}

// I5 in a race: of many applies that begin at once, one is on its way at any time.
func TestOfManyAppliesAtOnceOneGoes(t *testing.T) {
	t.Parallel()
	const people = 6
	h := newHouse(t, func(s *setup) { s.workers = 2 })
	h.paused(t, "w1", -1)
	h.paused(t, "w2", -1)
	var answers []<-chan answer
	for i := range people {
		who := []string{"olga", "otto", "boris"}[i%3]
		machine := "w" + itoa(1+i%2)
		answers = append(answers, h.as(t, who).goApply(bounded(t), machine, noReboot(t, labelled("v"+itoa(i)))))
	}
	refused, winner := 0, answer{}
	merged := make(chan answer, people)
	for _, one := range answers {
		go func() { merged <- <-one }()
	}
	for range people - 1 {
		a := <-merged
		if a.code() != codes.PermissionDenied || !strings.Contains(a.text(), "BW-") {
			t.Errorf("a loser got %v", a.err)
		}
		refused++
	}
	if n := len(h.applies("w1")) + len(h.applies("w2")); n != 1 || h.count(t, "select count(*) from control.attempts") != 1 {
		t.Errorf("%d applies were sent while one held the cluster", n)
	}
	for _, n := range h.nodes {
		n.ClearFaults()
		n.Resume()
	}
	winner = <-merged
	succeeded(t, winner)
	if refused != people-1 {
		t.Errorf("%d were refused", refused)
	}
}

// I7: evidence whose serial is no longer current judges nothing: it is read again.
func TestEvidenceOfAnOlderSerialIsReadAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	release := must(h.db.HoldAuthority(t.Context()))(t)
	answers := h.as(t, "olga").goApply(bounded(t), "w1", noReboot(t, labelled("one")))
	h.waiting(t, 1)
	rounds := h.readings("w1")
	ok(t, h.db.Exec(t.Context(), "update control.machines set serial = serial + 1"))
	ok(t, release())
	succeeded(t, <-answers)
	// One reading before, one of the second round, one read-back.
	if n := h.readings("w1"); rounds != 1 || n != 3 {
		t.Errorf("the machine was read %d times before and %d in all, want 1 and 3", rounds, n)
	}
	if n := len(h.applies("w1")); n != 1 {
		t.Errorf("%d applies were sent", n)
	}
}

// readings counts how often a node's evidence was read.
func (h *house) readings(node string) int { return len(h.nodes[node].Log().Of(methodVersion)) }

// I7: after three rounds in which the machine moved, the caller is asked to try again, and
// nothing was sent.
func TestAMachineThatKeepsMovingIsNotAppliedTo(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	release := must(h.db.HoldAuthority(t.Context()))(t)
	answers := h.as(t, "olga").goApply(bounded(t), "w1", noReboot(t, labelled("one")))
	for range rounds {
		h.waiting(t, 1)
		ok(t, h.db.Exec(t.Context(), "update control.machines set serial = serial + 1"))
		// The next hold queues behind the round that waits now, and before its next one.
		next := make(chan func() error, 1)
		go func() {
			r, err := h.db.HoldAuthority(context.Background())
			if err != nil {
				t.Error(err)
			}
			next <- r
		}()
		h.waiting(t, 2)
		ok(t, release())
		release = <-next
	}
	ok(t, release())
	refusedWith(t, <-answers, codes.Unavailable, "BW-AUTHORITY-002")
	if n := len(h.applies("w1")); n != 0 || len(h.attempts(t)) != 0 {
		t.Errorf("%d applies were sent", n)
	}
}

// I7: evidence that was read while an apply was on its way is not judged once that has
// landed: its serial has moved.
func TestEvidenceReadDuringAnApplyJudgesNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	h.paused(t, "w1", 1)
	first := h.as(t, "olga").goApply(bounded(t), "w1", noReboot(t, labelled("one")))
	h.held(t, "w1")
	release := must(h.db.HoldAuthority(t.Context()))(t)
	second := h.as(t, "otto").goApply(bounded(t), "w1", noReboot(t, labelled("two")))
	h.waiting(t, 1)
	h.nodes["w1"].Resume()
	// The first one closes without the authority lock.
	succeeded(t, <-first)
	ok(t, release())
	succeeded(t, <-second)
	bases := h.texts(t, "select base_digest from audit.entries where attempt_id is not null order by recorded_at")
	want := must(digests())(t).Digest(labelled("one"))
	if len(bases) != 2 || bases[1] != want {
		t.Errorf("the second apply was judged on base %v, the machine held %s", bases, want)
	}
}

// The base of the entry is what the machine held, and the digest what was sent.
func TestTheEntryNamesBaseAndDigest(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	active, _ := h.nodes["w1"].Active()
	a := succeeded(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))))
	d := must(digests())(t)
	if n := h.count(t, `select count(*) from audit.entries e join control.attempts a on a.entry_id = e.id
		where e.id::text = $1 and e.base_digest = $2 and e.persistent_digest = $2 and e.digest = $3 and a.digest = $3 and a.base_active = $2`,
		a.decisions()[0], d.Digest(active), d.Digest(labelled("one"))); n != 1 {
		t.Error("entry and attempt do not name the base and the digest")
	}
}
