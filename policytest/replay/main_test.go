package replay

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"bronzeward/audit"
	"bronzeward/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// law is the shipped one with its data laid over by a text, and a rule of the site's.
func law(tb testing.TB, data, rule string) *policy.Engine {
	tb.Helper()
	b, err := policy.Shipped()
	if err != nil {
		tb.Fatal(err)
	}
	files := []policy.File{}
	if data != "" {
		files = append(files, policy.File{Path: "bronzeward/data.yaml", Body: []byte(data)})
	}
	if rule != "" {
		files = append(files, policy.File{Path: "bronzeward/rules/site/site.rego", Body: []byte(rule)})
	}
	if len(files) > 0 {
		if b, err = policy.OverlayFiles(b, files...); err != nil {
			tb.Fatal(err)
		}
	}
	e := policy.New(policy.EngineConfig{Budget: time.Minute})
	if err := e.Use(context.Background(), b); err != nil {
		tb.Fatal(err)
	}
	return e
}

const noQuorum = "quorum: {required: 0}\n"

// noAutomation refuses applies by automation.
const noAutomation = `package bronzeward.rules.site

# METADATA
# title: no applies by automation
# description: d
# custom: {code: BW-SITE-001, hint: ""}
deny contains {"code": "BW-SITE-001", "message": "people apply", "hint": ""} if {
	input.call.class == "apply"
	input.caller.kind == "automation"
}
`

func caller(kind string, groups ...string) policy.Caller {
	return policy.Caller{
		Issuer: "https://idp.example", Subject: "olga", Kind: kind, Groups: append([]string{}, groups...), Proof: "certificate", ProofEnds: now.Add(time.Hour),
	}
}

// read is a call that reads.
func read() *policy.Facts {
	return &policy.Facts{
		Version: 1, Phase: "final",
		Call:   policy.Call{Method: "/machine.MachineService/Version", Class: policy.ClassRead, Targets: 1, Cluster: "lab"},
		Caller: caller("human", "operators"), Machine: &policy.Machine{Name: "worker-1", Cluster: "lab", Role: "worker", Labels: map[string]string{}, Pinned: true},
		Holds: []policy.Hold{}, Now: now,
	}
}

// apply is one of a worker's configuration of 15 KiB of which ten fields change.
func apply() *policy.Facts {
	f := read()
	f.Call = policy.Call{
		Method: "/machine.MachineService/ApplyConfiguration", Class: policy.ClassApply, Mode: "no-reboot", ModeGiven: true, Size: 15 << 10, Targets: 1, Cluster: "lab",
	}
	f.Evidence = &policy.Evidence{Version: "v1.13.6", Minor: "1.13", Stage: "running", Type: "worker", IdentityMatches: true}
	f.Config = &policy.Config{
		Digest: "sha256:k0:aa", Base: "sha256:k0:bb", Persistent: "sha256:k0:bb", Problems: []policy.Problem{}, Collections: []policy.Collection{},
		Documents: []policy.Document{{APIVersion: "v1alpha1", Kind: "v1alpha1"}, {APIVersion: "v1alpha1", Kind: "HostnameConfig"}, {APIVersion: "v1alpha1", Kind: "LinkConfig", Name: "eth0"}},
	}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		f.Config.Changes = append(f.Config.Changes, policy.ConfigChange{
			Document: "v1alpha1", Path: "machine.nodeLabels." + name, Field: "machine.nodeLabels", Before: "fp:1111", After: "fp:2222",
		})
	}
	return f
}

// act is an act on Bronzeward.
func act(name string, groups ...string) *policy.Act {
	return &policy.Act{Version: 1, Act: name, Caller: caller("human", groups...), Subject: "worker-1", Now: now}
}

// decided is the entry of a call that a law judged.
func decided(tb testing.TB, by *policy.Engine, f *policy.Facts) audit.Entry {
	tb.Helper()
	e := entry(tb, by.Decide(context.Background(), f), f)
	e.Kind, e.Method, e.Class = audit.KindRPC, f.Call.Method, string(f.Call.Class)
	return e
}

// acted is the entry of an act that a law judged.
func acted(tb testing.TB, by *policy.Engine, a *policy.Act) audit.Entry {
	tb.Helper()
	e := entry(tb, by.DecideAct(context.Background(), a), a)
	e.Kind, e.Method, e.Class, e.ApprovalsNeeded = audit.KindHTTP, a.Act, "act", 0
	return e
}

func entry(tb testing.TB, d policy.Decision, facts any) audit.Entry {
	tb.Helper()
	raw, err := json.Marshal(facts)
	if err != nil {
		tb.Fatal(err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		tb.Fatal(err)
	}
	e := audit.Entry{
		ID: id, Verdict: audit.Denied, Caller: audit.Caller{Issuer: "https://idp.example", Subject: "olga", Kind: "human"}, MachineName: "worker-1", Cluster: "lab",
		PolicyRevision: d.Revision, OPAVersion: d.OPA, Reasons: d.Reasons, Codes: d.Codes(), ApprovalsNeeded: d.Approvals.Required, Facts: raw, Count: 1,
	}
	if d.Allow {
		e.Verdict = audit.Allowed
	}
	return e
}

// pages gives entries, so many at once.
func pages(entries []audit.Entry, size int) Pages {
	rows := make([]Row, 0, len(entries))
	for _, e := range entries {
		rows = append(rows, Row{ID: e.ID, RecordedAt: now, Record: e.Record()})
	}
	return pagesOf(rows, size)
}

func pagesOf(rows []Row, size int) Pages {
	return func(context.Context) ([]Row, error) {
		page := rows[:min(size, len(rows))]
		rows = rows[len(page):]
		return page, nil
	}
}

// by judges everything by one law; own judges each decision by the law of its revision.
func by(e *policy.Engine) Config {
	return Config{Draft: e.Revision(), Laws: func(context.Context, string) (*policy.Engine, error) { return e, nil }}
}

func own(laws ...*policy.Engine) Config {
	return Config{Laws: func(_ context.Context, revision string) (*policy.Engine, error) {
		if i := slices.IndexFunc(laws, func(e *policy.Engine) bool { return e.Revision() == revision }); i >= 0 {
			return laws[i], nil
		}
		return nil, ErrNotKept
	}}
}

func run(tb testing.TB, c Config, entries ...audit.Entry) Report {
	tb.Helper()
	c.Pages = pages(entries, 3)
	r, err := Run(context.Background(), c)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// ourReason is a denial that a gateway adds.
func ourReason(code string) policy.Reason {
	return policy.Reason{Code: code, Message: "m", Rule: "bronzeward/invariants", Severity: policy.SeverityDeny}
}

// adding is an entry with a denial of the gateway's behind what the law said.
func adding(e audit.Entry, r policy.Reason) audit.Entry {
	e.Verdict, e.Reasons, e.Codes = audit.Denied, append(slices.Clone(e.Reasons), r), append(slices.Clone(e.Codes), r.Code)
	return e
}
