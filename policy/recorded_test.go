package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recordedFacts are facts with all that JSON could lose.
func recordedFacts() *Facts {
	f := worker15K()
	f.Call.Resource = &Resource{Namespace: "config", Type: "T", ID: "<&>\u2028"}
	f.Caller.Groups = nil
	f.Holds = []Hold{{Kind: "freeze", ID: "h", Since: sampleNow, Scope: "machine", Reason: "be careful"}}
	f.Change = sampleChange()
	f.Config.Changes = append(f.Config.Changes,
		ConfigChange{Path: "a", Before: true, After: 3.5}, ConfigChange{Path: "b", Before: int64(9007199254740993), After: uint64(18446744073709551615)},
		ConfigChange{Path: "c", Before: []any{"x", 1.0}, After: map[string]any{"k": nil}}, ConfigChange{Path: "d", Before: 1e21, After: false})
	return f
}

func TestRecordedFactsAreWhatWasJudged(t *testing.T) {
	for name, f := range map[string]*Facts{
		"with everything": recordedFacts(), "an apply": sampleApply(), "a read": sampleCall("/machine.MachineService/Version", ClassRead), "nothing": {Version: 1},
	} {
		raw, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		r, err := ReadRecorded(raw)
		if err != nil || r.Call == nil || r.Act != nil || len(r.Lacking) > 0 || r.input != nil {
			t.Fatalf("%s: %+v, %v", name, r, err)
		}
		then, err := factsValue(f)
		if err != nil {
			t.Fatal(err)
		}
		now, err := factsValue(r.Call)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(then.String(), now.String()); diff != "" {
			t.Errorf("%s: judged (-) and recorded (+) differ:\n%s", name, diff)
		}
		law := lawOf(t, nil)
		if diff := cmp.Diff(law.Decide(context.Background(), f), law.DecideRecorded(context.Background(), r)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestARecordedActIsToldFromACall(t *testing.T) {
	a := &Act{Version: 1, Act: "machines.add", Caller: sampleCaller("viewers"), Subject: "w", Now: sampleNow}
	for _, act := range []*Act{a, {Version: 1, Act: "changes.apply", Caller: sampleCaller("operators"), Subject: "phase", Change: sampleChange(), Now: sampleNow}} {
		raw, err := json.Marshal(act)
		if err != nil {
			t.Fatal(err)
		}
		r, err := ReadRecorded(raw)
		if err != nil || r.Act == nil || r.Call != nil {
			t.Fatalf("%+v, %v", r, err)
		}
		law := lawOf(t, nil)
		want := law.DecideAct(context.Background(), act)
		if diff := cmp.Diff(want, law.DecideRecorded(context.Background(), r)); diff != "" || len(want.OPA) == 0 {
			t.Error(diff)
		}
	}
}

// A fact that the record lacks is undefined to the law and named to people; the control is the zero
// value, which the law would have taken for a fact.
func TestALackingFactIsNamedAndNotGuessed(t *testing.T) {
	law := lawOf(t, map[string]string{
		"bronzeward/data.yaml": "quorum: {required: 0}\n",
		"bronzeward/rules/site/site.rego": `package bronzeward.rules.site

# METADATA
# title: t
# description: d
# custom: {code: BW-SITE-001, hint: ""}
deny contains {"code": "BW-SITE-001", "message": "no service is known", "hint": ""} if not has_service

has_service if is_string(input.call.service)
`,
	})
	f := sampleApply()
	if d := law.Decide(context.Background(), f); !d.Allow {
		t.Fatalf("control: with the empty service it is allowed, and was not: %v", d.Codes())
	}
	raw, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []string{`"service":"",`, `,"reboot":false`} {
		if !bytes.Contains(raw, []byte(cut)) {
			t.Fatalf("no %s in %s", cut, raw)
		}
		raw = bytes.ReplaceAll(raw, []byte(cut), nil)
	}
	r, err := ReadRecorded(raw)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"call.service", "config.changes[].reboot"}; !slices.Equal(r.Lacking, want) {
		t.Errorf("lacking: %v, want %v", r.Lacking, want)
	}
	if d := law.DecideRecorded(context.Background(), r); d.Allow || !slices.Contains(d.Codes(), "BW-SITE-001") {
		t.Errorf("judged on a guess: %v %v", d.Allow, d.Codes())
	}
	x, err := law.ExplainRecorded(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(x.Rules, func(r RuleExplanation) bool { return r.Code == "BW-SITE-001" })
	if !x.Rules[i].Fired || !slices.Contains(x.Rules[i].Facts, FactRead{"call.service", "undefined"}) {
		t.Errorf("%+v", x.Rules[i])
	}
}

func TestAFactOfALaterVersionIsSeenByTheLaw(t *testing.T) {
	raw, err := json.Marshal(sampleApply())
	if err != nil {
		t.Fatal(err)
	}
	raw = bytes.Replace(raw, []byte(`"service":"",`), []byte(`"service":"","weekday":"monday",`), 1)
	r, err := ReadRecorded(raw)
	if err != nil || len(r.Lacking) > 0 || r.input == nil || !strings.Contains(r.input.String(), "monday") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestFactsThatCannotBeJudgedAreAnError(t *testing.T) {
	for name, raw := range map[string]string{
		"another version": `{"version":2,"phase":"final"}`, "no version": `{"phase":"final"}`, "a text": `"odd"`, "nothing": ``, "cut": `{"version":1,`,
		"another shape": `{"version":1,"call":[]}`,
	} {
		if r, err := ReadRecorded([]byte(raw)); !errors.Is(err, ErrFacts) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestAnExplanationOfAnActIsAboutActs(t *testing.T) {
	raw, err := json.Marshal(&Act{Version: 1, Act: "machines.add", Caller: sampleCaller("viewers"), Subject: "w", Now: sampleNow})
	if err != nil {
		t.Fatal(err)
	}
	r, err := ReadRecorded(raw)
	if err != nil {
		t.Fatal(err)
	}
	x, err := lawOf(t, nil).ExplainRecorded(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	fired := map[string][]FactRead{}
	for _, rule := range x.Rules {
		if !strings.HasPrefix(rule.Rule, "data.bronzeward.api") {
			t.Errorf("%s is no rule about acts", rule.Code)
		}
		if rule.Fired {
			fired[rule.Code] = rule.Facts
		}
	}
	role := fired["BW-ACT-003"]
	if len(fired) != 1 || !slices.Contains(role, FactRead{"act", `"machines.add"`}) || !slices.Contains(role, FactRead{"caller.groups", `["viewers"]`}) {
		t.Errorf("fired: %+v", fired)
	}
}
