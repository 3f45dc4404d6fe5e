package control

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"bronzeward/audit"
)

// onceGiving is a request with a key whose answer is a text.
func onceGiving(key string) *Once {
	o := &Once{Key: key, Route: "POST /things", Body: "b", SameBody: func(kept string) bool { return kept == "b" }}
	o.Answer = func() (int, []byte, error) {
		text, is := o.Result.(string)
		if !is {
			return 0, nil, errors.New("no text to keep")
		}
		return 201, []byte(text), nil
	}
	return o
}

func TestAnAttestedActIsItsEntryAndItsKeptAnswer(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 0)
	attest := func(once *Once, verdict audit.Verdict, done func(uuid.UUID) (any, error)) (audit.Receipt, error) {
		act := by(admin, "things.do")
		inner := act.Entry
		act.Entry = func(st Stamp) audit.Entry { e := inner(st); e.Verdict = verdict; return e }
		act.Once = once
		return s.Attest(t.Context(), act, done)
	}
	give := func(uuid.UUID) (any, error) { return "done", nil }
	entries := func() int { return w.count(t, "select count(*) from audit.entries where method = 'things.do'") }

	var named uuid.UUID
	receipt, err := attest(onceGiving("one"), audit.Allowed, func(entry uuid.UUID) (any, error) { named = entry; return "done", nil })
	if err != nil || named != receipt.ID || entries() != 1 {
		t.Fatalf("entry %s, told %s, %v", receipt.ID, named, err)
	}
	var before *ReplayedError
	if _, err := attest(onceGiving("one"), audit.Allowed, give); !errors.As(err, &before) || string(before.Body) != "done" || entries() != 1 {
		t.Errorf("again: %v", err)
	}

	// What the law refuses is not done, and may be asked again.
	asked := false
	_, err = attest(onceGiving("two"), audit.Denied, func(uuid.UUID) (any, error) { asked = true; return "done", nil })
	var refused *RefusedError
	if !errors.As(err, &refused) || asked || entries() != 2 {
		t.Errorf("refused: %v, asked %t", err, asked)
	}
	if _, err := attest(onceGiving("two"), audit.Allowed, give); err != nil {
		t.Errorf("asked again: %v", err)
	}

	// What cannot be done leaves nothing.
	if _, err := attest(onceGiving("three"), audit.Allowed, func(uuid.UUID) (any, error) { return nil, errors.New("no") }); err == nil || entries() != 3 {
		t.Errorf("not done: %v, %d entries", err, entries())
	}
	if err := s.Replayed(t.Context(), onceGiving("three"), admin.Issuer, admin.Subject); err != nil {
		t.Errorf("its key: %v", err)
	}
}

// An act whose effect follows its entry has no answer before that: a repetition is told neither one nor done again.
func TestAnAnswerThatFollowsIsKeptOrTheKeyIsLeftFree(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 0)
	take := func(key string) error {
		act := by(admin, "things.do")
		act.Once = onceGiving(key)
		act.Once.Answer = nil
		_, err := s.Attest(t.Context(), act, func(uuid.UUID) (any, error) { return nil, nil })
		return err
	}
	kept := func(key string) *ReplayedError {
		var before *ReplayedError
		if err := s.Replayed(t.Context(), onceGiving(key), admin.Issuer, admin.Subject); err != nil && !errors.As(err, &before) {
			t.Fatal(err)
		}
		return before
	}
	for _, key := range []string{"kept", "free"} {
		if err := take(key); err != nil {
			t.Fatal(err)
		}
		if got := kept(key); got == nil || got.Status != 0 || len(got.Body) != 0 || got.Ref != uuid.Nil {
			t.Errorf("before its answer: %+v", got)
		}
	}
	if err := s.KeepAnswer(t.Context(), admin, onceGiving("kept"), "done"); err != nil {
		t.Fatal(err)
	}
	if got := kept("kept"); got == nil || got.Status != 201 || string(got.Body) != "done" {
		t.Errorf("kept: %+v", got)
	}
	if err := s.LeaveFree(t.Context(), admin, onceGiving("free")); err != nil {
		t.Fatal(err)
	}
	if got := kept("free"); got != nil {
		t.Errorf("left free: %+v", got)
	}
	if err := errors.Join(s.KeepAnswer(t.Context(), admin, nil, "x"), s.LeaveFree(t.Context(), admin, nil)); err != nil {
		t.Errorf("without a key: %v", err)
	}
}
