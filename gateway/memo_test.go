package gateway

import (
	"context"
	"testing"
	"time"

	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// countingJudge allows everything and counts how often it was asked.
type countingJudge struct {
	revision string
	reasons  []policy.Reason
	asked    int
}

func (j *countingJudge) Decide(context.Context, *policy.Facts) policy.Decision {
	j.asked++
	return policy.Decision{Allow: true, Revision: j.revision, Reasons: j.reasons, UpstreamRoles: []string{"os:reader"}}
}
func (j *countingJudge) Use(context.Context, *policy.Bundle) error     { return nil }
func (j *countingJudge) Prepare(context.Context, *policy.Bundle) error { return nil }
func (j *countingJudge) UsePrepared(string) bool                       { return false }
func (j *countingJudge) Prepared() []string                            { return nil }
func (j *countingJudge) Revision() string                              { return j.revision }
func (j *countingJudge) DecideAct(context.Context, *policy.Act) policy.Decision {
	return policy.Decision{}
}
func (j *countingJudge) Quorum(context.Context) policy.Quorum { return policy.Quorum{} }

func TestAReadIsJudgedOncePerSecondRevisionAndFacts(t *testing.T) {
	m, err := newMemo()
	if err != nil {
		t.Fatal(err)
	}
	judge := &countingJudge{revision: "one"}
	g := &Gateway{judge: judge}
	now := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	ask := func(at time.Time, subject string) {
		t.Helper()
		d, raw := m.judge(t.Context(), g, &control.Snapshot{LiveRevision: judge.revision}, &policy.Facts{
			Version: policy.FactsVersion, Caller: policy.Caller{Subject: subject}, Now: at,
		})
		if !d.Allow || len(raw) == 0 {
			t.Fatalf("got %+v, %d bytes of facts", d, len(raw))
		}
	}
	for _, step := range []struct {
		what    string
		at      time.Time
		subject string
		asked   int
	}{
		{"the first", now, "olga", 1},
		{"the same in the same second", now.Add(999 * time.Millisecond), "olga", 1},
		{"another person", now, "vera", 2},
		{"the next second", now.Add(time.Second), "olga", 3},
	} {
		ask(step.at, step.subject)
		if judge.asked != step.asked {
			t.Errorf("%s: the law was asked %d times, want %d", step.what, judge.asked, step.asked)
		}
	}
	judge.revision = "two"
	ask(now, "olga")
	if judge.asked != 4 {
		t.Error("a decision of another revision was used")
	}
}

// What the engine says when it fails is no decision of the law, and is asked for again.
func TestAFailureOfTheEngineIsNotRemembered(t *testing.T) {
	m, err := newMemo()
	if err != nil {
		t.Fatal(err)
	}
	judge := &countingJudge{revision: "one", reasons: []policy.Reason{{Code: "BW-POLICY-005", Severity: policy.SeverityDeny}}}
	for range 2 {
		m.judge(t.Context(), &Gateway{judge: judge}, &control.Snapshot{LiveRevision: "one"}, &policy.Facts{Version: policy.FactsVersion})
	}
	if judge.asked != 2 {
		t.Errorf("the law was asked %d times, want 2", judge.asked)
	}
}

// A reason that is added to one call's decision must not show up in the next one's.
func TestWhatIsRememberedIsNotWrittenTo(t *testing.T) {
	m, err := newMemo()
	if err != nil {
		t.Fatal(err)
	}
	spare := make([]policy.Reason, 1, 8)
	spare[0] = policy.Reason{Code: "BW-CONFIG-036", Severity: policy.SeverityShadow}
	g := &Gateway{judge: &countingJudge{revision: "one", reasons: spare}}
	ask := func() policy.Decision {
		d, _ := m.judge(t.Context(), g, &control.Snapshot{LiveRevision: "one"}, &policy.Facts{Version: policy.FactsVersion})
		return d
	}
	first := ask()
	first.Reasons = append(first.Reasons, policy.Deny("BW-INVARIANT-007", "of this call alone", "").Reasons...)
	second := ask()
	second.Reasons = append(second.Reasons, policy.Deny("BW-INVARIANT-006", "of the other", "").Reasons...)
	if first.Reasons[1].Code != "BW-INVARIANT-007" || len(ask().Reasons) != 1 {
		t.Errorf("reasons of one call are in another's: %+v, %+v", first.Reasons, ask().Reasons)
	}
}
