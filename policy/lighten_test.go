package policy

import (
	"context"
	"reflect"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// opaAlone is an engine whose law is as OPA alone compiles it.
func opaAlone(t *testing.T, e *Engine) *Engine {
	t.Helper()
	b := e.live.Load().bundle
	c, store, err := b.parsed.compile(false)
	if err != nil {
		t.Fatal(err)
	}
	l := &law{revision: b.revision, compiler: c, bundle: b}
	if err := l.query(context.Background(), store); err != nil {
		t.Fatal(err)
	}
	out := New(EngineConfig{})
	out.live.Store(l)
	return out
}

func TestALightenedLawJudgesAsOPAAloneDoes(t *testing.T) {
	for name, overlay := range map[string]map[string]string{
		"as shipped":       nil,
		"without a quorum": noQuorum,
		"with a calendar":  {"bronzeward/data.yaml": "windows: [{name: nights, clusters: [lab], days: [Sunday], from: \"22:00\", to: \"04:00\", zone: UTC}]\n"},
		"data that fail":   {"bronzeward/config/data.yaml": "labels: {domains: 7}\nallowed: 3\napprovals: [1]\nlimits: {new_total: x}\n"},
		"constants of its own": {"bronzeward/rules/site/site.rego": `package bronzeward.rules.site

# METADATA
# title: t
# description: d
# custom:
#   code: BW-SITE-001
#   hint: ""
deny contains {"code": "BW-SITE-001", "message": concat(" ", [first, second, third]), "hint": ""} if {
	not off
	fails
}

first := data.bronzeward.quorum.groups[0]

default second := "second"

second := "other" if data.bronzeward.quorum.required > 100

third := "one" if {
	data.bronzeward.quorum.required > 100
} else := "two"

off if data.bronzeward.nothing

fails if input.call.class == asked

asked := input.call.class
`},
		"a constant that fails": {"bronzeward/rules/site/site.rego": `package bronzeward.rules.site

grant contains "os:reader" if broken > 1

broken := to_number(data.bronzeward.quorum.groups[0])
`},
		"data replaced for a moment": {"bronzeward/rules/site/site.rego": `package bronzeward.rules.site

grant contains "os:operator" if {
	least == 7 with data.bronzeward.quorum.required as 7
}

least := data.bronzeward.quorum.required
`},
	} {
		t.Run(name, func(t *testing.T) {
			light := lawOf(t, overlay)
			heavy := opaAlone(t, light)
			for _, s := range samples() {
				got, want := light.Decide(context.Background(), s.facts), heavy.Decide(context.Background(), s.facts)
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s:\n got %+v\nwant %+v", s.name, got, want)
				}
			}
			for _, act := range []string{"changes.approve", "policy.activate", "certificates.issue", "nothing"} {
				a := &Act{Version: FactsVersion, Act: act, Caller: sampleCaller("approvers"), Change: sampleChange(), Now: sampleNow}
				if got, want := light.DecideAct(context.Background(), a), heavy.DecideAct(context.Background(), a); !reflect.DeepEqual(got, want) {
					t.Errorf("%s:\n got %+v\nwant %+v", act, got, want)
				}
			}
		})
	}
}

func TestOnlyWhatReadsNothingOfTheInputIsFolded(t *testing.T) {
	l := lawOf(t, map[string]string{"bronzeward/rules/site/site.rego": `package bronzeward.rules.site

constant := {g | some g in data.bronzeward.quorum.groups}

asks := input.call.class

passed_on := asks

whole := count(input)

function(x) := x

partial contains "a"

undefined := data.bronzeward.nothing
`}).live.Load()
	for rule, want := range map[string]bool{"constant": true, "asks": false, "passed_on": false, "whole": false, "undefined": false} {
		rules := l.compiler.GetRulesExact(ast.MustParseRef("data.bronzeward.rules.site." + rule))
		if len(rules) != 1 {
			t.Fatalf("%s has %d rules", rule, len(rules))
		}
		body := rules[0].Body
		folded := len(body) == 1 && body[0].String() == "true" && rules[0].Head.Value.IsGround()
		if _, isSet := rules[0].Head.Value.Value.(ast.Set); folded != want || folded != isSet {
			t.Errorf("%s: %v, folded %v", rule, rules[0], folded)
		}
	}
}

// What never ends ends the decision, as it did before, and not the activation of the law.
func TestAConstantThatNeverEndsIsLeftToTheDecision(t *testing.T) {
	e := lawOf(t, map[string]string{"bronzeward/rules/site/site.rego": `package bronzeward.rules.site

grant contains "os:reader" if endless

endless if {
	some i in numbers.range(1, 40000)
	some j in numbers.range(1, 40000)
	i * j < 0
}
`})
	if d := e.Decide(context.Background(), sampleApply()); d.Allow || d.Codes()[0] != CodeBudget {
		t.Errorf("%+v", d)
	}
}

// steps counts what an evaluation does.
type steps struct{ expressions int }

func (*steps) Enabled() bool               { return true }
func (*steps) Config() topdown.TraceConfig { return topdown.TraceConfig{} }
func (s *steps) TraceEvent(e topdown.Event) {
	if e.Op == topdown.EvalOp {
		s.expressions++
	}
}

// The work of a decision, in expressions evaluated: it says the same on every computer. Who adds
// a rule that every apply has to look at may raise a bound by what the rule costs.
func TestTheShippedLawDoesNoMoreThanItHasTo(t *testing.T) {
	e := lawOf(t, nil)
	approved, early := worker15K(), sampleApply()
	approved.Change = sampleChange()
	early.Phase, early.Evidence, early.Config = "early", nil, nil
	for name, c := range map[string]struct {
		facts *Facts
		most  int
	}{
		"a read":                          {sampleCall("/machine.MachineService/Version", ClassRead), 95},
		"an early judgement":              {early, 240},
		"an approved apply of ten fields": {approved, 460},
		"an apply of five hundred labels, no change": {manyLabels(500), 3440},
	} {
		in, err := factsValue(c.facts)
		if err != nil {
			t.Fatal(err)
		}
		work := func(e *Engine) int {
			s := &steps{}
			if _, err := e.live.Load().admission.Eval(context.Background(), rego.EvalParsedInput(in), rego.EvalQueryTracer(s)); err != nil {
				t.Fatal(err)
			}
			return s.expressions
		}
		light, heavy := work(e), work(opaAlone(t, e))
		if light > c.most {
			t.Errorf("%s evaluates %d expressions, more than %d", name, light, c.most)
		}
		if heavy <= c.most { // the control
			t.Errorf("%s evaluates %d expressions where nothing is taken out of the law: the bound of %d holds nothing", name, heavy, c.most)
		}
		t.Logf("%s: %d expressions, %d by OPA alone", name, light, heavy)
	}
}
