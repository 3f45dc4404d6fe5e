package replay

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/policy"
)

// What stands in a book comes out the same by its own law, whatever a gateway added to it.
func TestByItsOwnLawADecisionIsTheSame(t *testing.T) {
	open, shipped := law(t, noQuorum, ""), law(t, "", "")
	proposal := decided(t, shipped, apply())
	proposal.Verdict, proposal.Reasons, proposal.Codes, proposal.Kind, proposal.Method, proposal.Class = audit.Allowed, nil, nil, audit.KindHTTP, "changes.submit", "act"
	if proposal.ApprovalsNeeded == 0 {
		t.Fatal("the proposal waits for nothing")
	}
	plain := acted(t, shipped, act("changes.approve", "viewers"))
	all := len(plain.Reasons)
	plain.Reasons = slices.DeleteFunc(slices.Clone(plain.Reasons), func(r policy.Reason) bool { return !policy.RefusesAnyAct(r.Code) })
	if plain.Codes = codesOf(plain.Reasons); len(plain.Reasons) == 0 || len(plain.Reasons) == all {
		t.Fatalf("the refusal before the change is looked up says %v of %d", plain.Codes, all)
	}
	nobody := read()
	nobody.Caller.Groups = nil
	for name, e := range map[string]audit.Entry{
		"an allowed apply": decided(t, open, apply()), "one that waits": decided(t, shipped, apply()), "a read": decided(t, shipped, read()),
		"somebody in no role": decided(t, shipped, nobody), "a proposal": proposal, "an act": acted(t, shipped, act("machines.add", "operators")),
		"a refused act": acted(t, shipped, act("machines.add", "viewers")), "an act refused by its caller alone": plain,
		"an invariant": adding(decided(t, open, apply()), ourReason("BW-INVARIANT-007")), "a call in flight": adding(decided(t, shipped, apply()), ourReason("BW-ATTEMPT-001")),
	} {
		r := run(t, own(open, shipped), e)
		if r.Same != 1 || r.Decisions != 1 || r.AnyChanged() {
			t.Errorf("%s: %s %+v", name, r.String(), r.Changed)
		}
	}
}

func codesOf(reasons []policy.Reason) []string {
	out := []string{}
	for _, r := range reasons {
		out = append(out, r.Code)
	}
	return out
}

// The control of the claim above: whatever is recorded otherwise than it was judged is found.
func TestByItsOwnLawWhatWasAlteredIsFound(t *testing.T) {
	open, shipped := law(t, noQuorum, ""), law(t, "", "")
	alter := func(e audit.Entry, change func(*audit.Entry)) audit.Entry {
		e.Reasons = slices.Clone(e.Reasons)
		change(&e)
		return e
	}
	waits := decided(t, shipped, apply())
	for name, c := range map[string]struct {
		e    audit.Entry
		want Kind
	}{
		"an allow that was none":      {alter(waits, func(e *audit.Entry) { e.Verdict, e.Reasons, e.Codes = audit.Allowed, nil, nil }), NowDenied},
		"a denial that was none":      {alter(decided(t, open, apply()), func(e *audit.Entry) { e.Verdict, e.Reasons = audit.Denied, waits.Reasons }), NowAllowed},
		"other facts":                 {alter(decided(t, open, apply()), func(e *audit.Entry) { e.Facts = bytes.Replace(e.Facts, []byte(`"no-reboot"`), []byte(`"staged"`), 1) }), NowDenied},
		"another word":                {alter(waits, func(e *audit.Entry) { e.Reasons[0].Message = "something else" }), OtherReasons},
		"another number of approvals": {alter(waits, func(e *audit.Entry) { e.ApprovalsNeeded++ }), OtherReasons},
		"another law":                 {alter(waits, func(e *audit.Entry) { e.PolicyRevision = open.Revision() }), NowAllowed},
		"a proposal of something refused": {alter(decided(t, open, staged()), func(e *audit.Entry) {
			e.Verdict, e.Reasons, e.Codes, e.Kind, e.Method, e.Class = audit.Allowed, nil, nil, audit.KindHTTP, "changes.submit", "act"
		}), NowDenied},
	} {
		r := run(t, own(open, shipped), c.e)
		if len(r.Changed) != 1 || r.Changed[0].Kind != c.want {
			t.Errorf("%s: %s %+v", name, r.String(), r.Changed)
		}
	}
}

func staged() *policy.Facts {
	f := apply()
	f.Call.Mode = "staged"
	return f
}

// A draft changes what it changes, and the report says what, of whom and why.
func TestADraftIsHeldAgainstThePast(t *testing.T) {
	old, draft := law(t, noQuorum, ""), law(t, "quorum: {required: 0}\nladder: {BW-MODE-004: warn}\n", noAutomation)
	robot := apply()
	robot.Caller = caller("automation", "automation")
	reads := decided(t, old, read())
	machines := []audit.Entry{
		decided(t, old, apply()), decided(t, old, robot), decided(t, old, staged()), reads,
		adding(decided(t, old, robot), ourReason("BW-INVARIANT-007")),
		{ID: uuid.New(), Kind: audit.KindRPC, Verdict: audit.Refused, Count: 1},
	}
	r := run(t, by(draft), machines...)
	if r.Decisions != 6 || r.Same != 2 || r.NowDenied != 1 || r.NowAllowed != 1 || r.OtherReasons != 1 || r.ByGateway != 1 {
		t.Fatalf("%s\n%+v", r.String(), r.Changed)
	}
	robots := r.Changed[0]
	want := Change{
		ID: machines[1].ID.String(), Kind: NowDenied, Time: now, Issuer: "https://idp.example", Subject: "olga", Machine: "worker-1", Cluster: "lab",
		Method: robot.Call.Method, Revision: old.Revision(), OPA: policy.OPAVersion(), New: []string{"BW-SITE-001"}, Gone: []string{}, Message: "people apply", Lacks: []string{},
	}
	if diff := cmp.Diff(want, robots); diff != "" {
		t.Error(diff)
	}
	if c := r.Changed[1]; c.Kind != NowAllowed || c.ID != machines[2].ID.String() || !slices.Equal(c.New, []string{"BW-MODE-004 (warn)"}) || !slices.Equal(c.Gone, []string{"BW-MODE-004"}) {
		t.Errorf("%+v", c)
	}
	if c := r.Changed[2]; c.Kind != OtherReasons || c.ID != machines[4].ID.String() {
		t.Errorf("what a gateway refused is refused still: %+v", c)
	}
	if r.Codes["BW-SITE-001"] != (CodeCount{New: 2}) {
		t.Errorf("%+v", r.Codes)
	}
}

// What cannot be judged is counted by its cause, and facts that a record lacks are named.
func TestWhatCannotBeJudgedIsCounted(t *testing.T) {
	old := law(t, noQuorum, "")
	lost := decided(t, law(t, "", ""), read())
	late := decided(t, old, read())
	d := policy.Deny(policy.CodeBudget, "the policy took longer than its budget", "")
	late.Verdict, late.Reasons, late.Codes = audit.Denied, d.Reasons, d.Codes()
	later := decided(t, old, read())
	later.Facts = bytes.Replace(later.Facts, []byte(`"version":1`), []byte(`"version":2`), 1)
	lacks := decided(t, old, read())
	lacks.Facts = bytes.Replace(lacks.Facts, []byte(`"service":"",`), nil, 1)
	r := run(t, own(old), lost, late, later, lacks)
	if r.CountUnjudged() != 3 || len(r.Unjudged) != 3 || r.Same != 1 || r.Lacking["call.service"] != 1 || r.AnyChanged() {
		t.Errorf("%s: %v, lacking %v", r.String(), r.Unjudged, r.Lacking)
	}
	torn := decided(t, old, read())
	c := own(old)
	c.Pages = pagesOf([]Row{{ID: torn.ID, Record: torn.Record()[1:]}}, 1)
	if r, err := Run(context.Background(), c); err != nil || r.CountUnjudged() != 1 || r.Decisions != 1 {
		t.Errorf("a record that is none: %s, %v", r.String(), err)
	}
	// Refused by its caller alone, and the draft asks for the change that nobody looked up.
	plain := acted(t, old, act("changes.approve", "viewers"))
	plain.Reasons = slices.DeleteFunc(slices.Clone(plain.Reasons), func(r policy.Reason) bool { return !policy.RefusesAnyAct(r.Code) })
	viewersApprove := law(t, "role_bindings: {viewers: [approver]}\nquorum: {required: 0}\n", "")
	if r := run(t, by(viewersApprove), plain); r.CountUnjudged() != 1 || r.AnyChanged() {
		t.Errorf("a change that was not looked up: %s", r.String())
	}
}

// What is known of a page is known of equal facts and one law alone.
func TestEqualFactsOfTwoLawsAreTwoDecisions(t *testing.T) {
	open, closed := law(t, noQuorum, ""), law(t, "role_bindings: {operators: []}\nquorum: {required: 0}\n", "")
	lie := decided(t, open, read())
	lie.PolicyRevision = closed.Revision()
	c := own(open, closed)
	c.Workers = 1
	r := run(t, c, decided(t, open, read()), lie, decided(t, open, read()), decided(t, closed, read()))
	if r.Same != 3 || r.NowDenied != 1 || r.Changed[0].ID != lie.ID.String() {
		t.Errorf("%s %+v", r.String(), r.Changed)
	}
}

// The report is bounded, whatever the book holds, and in the order of the book.
func TestAReportIsBounded(t *testing.T) {
	old, draft := law(t, noQuorum, ""), law(t, "role_bindings: {operators: []}\nquorum: {required: 0}\n", "")
	e := decided(t, old, read())
	const n = MaxChanged + 250
	c, told := by(draft), int64(0)
	var rows []Row
	for range n {
		e.ID = uuid.Must(uuid.NewV7())
		rows = append(rows, Row{ID: e.ID, RecordedAt: now, Record: e.Record()})
	}
	c.Pages, c.Workers = pagesOf(rows, 7), 4
	c.Tell = func(done int64) {
		if done < told {
			t.Errorf("told %d after %d", done, told)
		}
		told = done
	}
	r, err := Run(context.Background(), c)
	if err != nil || r.NowDenied != n || len(r.Changed) != MaxChanged || r.NotKept != n-MaxChanged || told != n {
		t.Fatalf("%s, %d kept and %d not, told %d, %v", r.String(), len(r.Changed), r.NotKept, told, err)
	}
	for i := range r.Changed {
		if r.Changed[i].ID != rows[i].ID.String() {
			t.Fatalf("changed decision %d is out of order", i)
		}
	}
}

func TestAReplayEndsWithWhatFails(t *testing.T) {
	old := law(t, noQuorum, "")
	e := decided(t, old, read())
	away := errors.New("away")
	c := by(old)
	n := 0
	c.Pages = func(context.Context) ([]Row, error) {
		if n++; n > 3 {
			return nil, away
		}
		return []Row{{ID: e.ID, Record: e.Record()}}, nil
	}
	if _, err := Run(context.Background(), c); !errors.Is(err, away) {
		t.Errorf("reading fails: %v", err)
	}
	endless := func(context.Context) ([]Row, error) { return []Row{{ID: e.ID, Record: e.Record()}}, nil }
	c.Pages = endless
	c.Laws = func(context.Context, string) (*policy.Engine, error) { return nil, away }
	if _, err := Run(context.Background(), c); !errors.Is(err, away) {
		t.Errorf("no law: %v", err)
	}
	c = by(old)
	c.Pages = endless
	ctx, stop := context.WithCancelCause(context.Background())
	c.Tell = func(int64) { stop(away) }
	if r, err := Run(ctx, c); !errors.Is(err, away) || r.AnyChanged() || r.CountUnjudged() > 0 {
		t.Errorf("interrupted: %s, %v", r.String(), err)
	}
}

func TestWhomRulesOnTheirWayWouldRefuse(t *testing.T) {
	old := law(t, "quorum: {required: 0}\nladder: {BW-SITE-001: shadow, BW-MODE-004: warn}\n", noAutomation)
	robot := apply()
	robot.Caller = caller("automation", "automation")
	refused := apply()
	refused.Caller, refused.Caller.Revoked = caller("automation", "automation"), true
	warned := decided(t, old, staged())
	entries := []audit.Entry{decided(t, old, refused), decided(t, old, robot), decided(t, old, apply()), decided(t, old, robot), decided(t, old, refused), warned}
	elsewhere := decided(t, old, robot)
	elsewhere.MachineName = "worker-2"
	r, err := Shadows(context.Background(), pages(append(entries, elsewhere), 2), "", nil)
	if err != nil || r.Decisions != 7 {
		t.Fatalf("%+v, %v", r, err)
	}
	var lines []string
	for _, s := range r.Rows {
		lines = append(lines, strings.Join([]string{s.Code, string(s.Step), s.Subject, s.Machine, s.Sample[:0], string(rune('0' + s.WouldRefuse)), string(rune('0' + s.RefusedAnyway))}, " "))
	}
	want := []string{"BW-MODE-004 warn olga worker-1  1 0", "BW-SITE-001 shadow olga worker-1  2 2", "BW-SITE-001 shadow olga worker-2  1 0"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s := r.Rows[1]; s.Sample != entries[3].ID.String() || s.Message != "people apply" {
		t.Errorf("the sample is %+v", s)
	}
	one, err := Shadows(context.Background(), pages(entries, 2), "BW-MODE-004", nil)
	if err != nil || len(one.Rows) != 1 || one.Rows[0].Sample != warned.ID.String() {
		t.Errorf("one rule: %+v, %v", one, err)
	}
}
