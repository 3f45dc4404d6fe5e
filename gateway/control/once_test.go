package control

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/policy"
)

// once is a request of that body under the key, whose answer says how often it was made.
func once(key, body string) *Once {
	o := &Once{Key: key, Route: "POST /changes/x/approvals", Body: "k1:" + body}
	o.SameBody = func(kept string) bool { return kept == o.Body }
	o.Answer = func() (int, []byte, error) { return 201, []byte("answer to " + body), nil }
	return o
}

// keyed is by, with a key.
func keyed(p policy.Person, o *Once) Act {
	act := by(p, "acts.any")
	act.Once = o
	return act
}

// deniedBy is keyed, refused by its own entry.
func deniedBy(p policy.Person, o *Once) Act {
	act := keyed(p, o)
	allowed := act.Entry
	act.Entry = func(st Stamp) audit.Entry {
		e := allowed(st)
		e.Verdict = audit.Denied
		return e
	}
	return act
}

func wantReplay(t testing.TB, err error, body string) {
	t.Helper()
	var r *ReplayedError
	if !errors.As(err, &r) || r.Status != 201 || string(r.Body) != body || r.Ref != uuid.Nil {
		t.Fatalf("got %v (%+v), want the answer that was kept", err, r)
	}
}

// The same key and body is done once and answered alike; another body or route is refused; a
// key is its caller's.
func TestAnIdempotencyKeyIsDoneOnce(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 2)
	c := propose(t, s, anna, proposal(get(t, s, "w1")))
	do := func(p policy.Person, o *Once) error {
		_, err := s.Approve(t.Context(), approver(p), []ApproveOne{{ID: c.ID, Digest: c.Digest}}, keyed(p, o))
		return err
	}
	first := once("key", "a")
	if err := do(bea, first); err != nil {
		t.Fatal(err)
	}
	if list, is := first.Result.([]Approval); !is || len(list) != 1 || list[0].Approver != bea {
		t.Errorf("the answer was made of %v", first.Result)
	}
	wantReplay(t, do(bea, once("key", "a")), "answer to a")
	wantErr(t, do(bea, once("key", "b")), ErrKeyReused)
	elsewhere := once("key", "a")
	elsewhere.Route = "POST /machines"
	wantErr(t, do(bea, elsewhere), ErrKeyReused)
	wantErr(t, s.Replayed(t.Context(), once("key", "b"), bea.Issuer, bea.Subject), ErrKeyReused)
	wantReplay(t, s.Replayed(t.Context(), once("key", "a"), bea.Issuer, bea.Subject), "answer to a")
	if err := s.Replayed(t.Context(), once("other", "a"), bea.Issuer, bea.Subject); err != nil {
		t.Errorf("a key nobody has used: %v", err)
	}
	// The same text is another key with another caller, whatever the issuer.
	if err := do(cleo, once("key", "a")); err != nil {
		t.Errorf("cleo's own key: %v", err)
	}
	namesake := policy.Person{Issuer: "https://other.test", Subject: bea.Subject}
	if err := do(namesake, once("key", "a")); err != nil {
		t.Errorf("the namesake's own key: %v", err)
	}
	if n := w.count(t, "select count(*) from control.approvals"); n != 3 {
		t.Errorf("%d approvals, want one for each caller", n)
	}
	// Control: without a key it is an act of its own, and refused as a second approval.
	wantCode(t, do(bea, nil), "BW-CHANGE-007")
}

// What was refused may be asked again under the same key, with whatever body.
func TestARefusedActLeavesItsKeyFree(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 2)
	c := propose(t, s, anna, proposal(get(t, s, "w1")))
	cancel := func(act Act) error {
		_, err := s.Cancel(t.Context(), c.ID, "not wanted", act)
		return err
	}
	var refused *RefusedError
	if err := cancel(deniedBy(anna, once("key", "a"))); !errors.As(err, &refused) {
		t.Fatalf("got %v, want a refusal that is recorded", err)
	}
	other := ChangeID(newID(t))
	_, err := s.Cancel(t.Context(), other, "not wanted", keyed(anna, once("key", "b")))
	wantCode(t, err, "BW-CHANGE-001")
	// A decision that refuses leaves it free too.
	r := apply(get(t, s, "w2"), anna)
	r.Once = once("key", "c")
	r.Once.Answer = nil
	if _, err := s.Admit(t.Context(), r, func(l Locked) Judgement {
		j := allowOnly(l)
		j.Entry.Verdict = audit.Denied
		return j
	}); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "select count(*) from control.idempotency_keys"); n != 0 {
		t.Errorf("%d keys are taken by what was refused", n)
	}
	if err := cancel(keyed(anna, once("key", "d"))); err != nil {
		t.Errorf("allowed at last: %v", err)
	}
}

// A revoked caller is refused before anything is replayed, and what was kept stays.
func TestARevokedCallerIsNotReplayed(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	c := propose(t, s, anna, proposal(get(t, s, "w1")))
	do := func(act Act) error {
		_, err := s.Approve(t.Context(), approver(bea), []ApproveOne{{ID: c.ID, Digest: c.Digest}}, act)
		return err
	}
	if err := do(keyed(bea, once("key", "a"))); err != nil {
		t.Fatal(err)
	}
	kept := "select count(*) from control.idempotency_keys where key = 'key' and status = 201 and convert_from(answer, 'utf8') = 'answer to a'"
	revoked(t)(s.RevokeIdentity(t.Context(), bea, "left", by(admin, "identities.revoke")))

	wantGuard(t, do(keyed(bea, once("key", "a"))), "caller_not_revoked")
	wantGuard(t, do(keyed(bea, once("key", "b"))), "caller_not_revoked")
	var refused *RefusedError
	if err := do(deniedBy(bea, once("key", "a"))); !errors.As(err, &refused) {
		t.Errorf("an entry that refuses: %v", err)
	}
	r := apply(get(t, s, "w1"), bea)
	r.Once = once("key", "a")
	if adm, err := s.Admit(t.Context(), r, func(l Locked) Judgement {
		if !l.CallerRevoked {
			t.Error("the judge is not told")
		}
		j := allowOnly(l)
		j.Entry.Verdict = audit.Denied
		return j
	}); err != nil || adm.Receipt.ID == uuid.Nil {
		t.Errorf("a decision that refuses is not recorded: %v", err)
	}
	_, err := s.Admit(t.Context(), r, allow)
	wantGuard(t, err, "caller_not_revoked")
	if n := w.count(t, kept); n != 1 {
		t.Error("what was kept is gone, or another answer")
	}
}

// Two at once with one key: one does it, the other waits and is given its answer. The answer
// of an application is its attempt, whose present state is read by whoever asks.
func TestTwoAtOnceWithOneKey(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 2)
	other := w.store(t, "gw-2", nil)
	c := propose(t, s, anna, proposal(get(t, s, "w1")))
	inside, release := make(chan struct{}), make(chan struct{})
	slow := once("key", "a")
	slow.Answer = func() (int, []byte, error) {
		close(inside)
		<-release
		return 201, []byte("answer to a"), nil
	}
	do := func(s *Store, o *Once) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := s.Approve(t.Context(), approver(bea), []ApproveOne{{ID: c.ID, Digest: c.Digest}}, keyed(bea, o))
			done <- err
		}()
		return done
	}
	one := do(s, slow)
	<-inside
	two := do(other, once("key", "a"))
	w.waiting(t, 1)
	close(release)
	if err := <-one; err != nil {
		t.Fatal(err)
	}
	wantReplay(t, <-two, "answer to a")

	r := apply(get(t, s, "w1"), anna)
	r.Once = once("apply", "a")
	r.Once.Answer = nil
	first := paused(t, s, r, spending(c.ID, asksFor(1)))
	again := make(chan error, 1)
	go func() {
		_, err := other.Admit(t.Context(), r, spending(c.ID, asksFor(1)))
		again <- err
	}()
	w.waiting(t, 1)
	adm, err := first()
	if err != nil {
		t.Fatal(err)
	}
	var replayed *ReplayedError
	if err := <-again; !errors.As(err, &replayed) || replayed.Ref != adm.Attempt.ID {
		t.Errorf("got %v, want the attempt of the first", err)
	}
	if n := w.count(t, "select count(*) from control.approvals") + w.count(t, "select count(*) from control.attempts"); n != 2 {
		t.Errorf("%d approvals and attempts, want one of each", n)
	}
}
