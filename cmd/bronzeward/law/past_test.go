package law

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/book"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/policy"
)

// oldLaw allows applies without approvals, and looks at automation from the shadow.
func oldLaw(t testing.TB) *policy.Bundle {
	return laid(t, "quorum: {required: 0}\nladder: {BW-SITE-001: shadow}\n")
}

// laid is the shipped law with a rule of a site's and other data.
func laid(t testing.TB, data string) *policy.Bundle {
	t.Helper()
	shipped, err := policy.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	b, err := policy.OverlayFiles(shipped, policy.File{Path: "bronzeward/data.yaml", Body: []byte(data)}, policy.File{
		Path: "bronzeward/rules/site/site.rego", Body: []byte(`# METADATA
# description: What this site adds to the shipped law.
package bronzeward.rules.site

import data.bronzeward.lib.finding

# METADATA
# title: no applies by automation
# description: People look at production before it changes.
# custom:
#   code: BW-SITE-001
#   hint: ""
deny contains finding.because(rego.metadata.rule(), "production is changed by people only") if {
	input.call.class == "apply"
	input.caller.kind == "automation"
}
`),
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// draftDir writes a law into a folder.
func draftDir(t testing.TB, b *policy.Bundle) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "law")
	if err := writeFiles(dir, b.Files()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// call is an apply of one label.
func call(kind string, groups ...string) *policy.Facts {
	at := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	return &policy.Facts{
		Version: 1, Phase: "final",
		Call: policy.Call{
			Method: "/machine.MachineService/ApplyConfiguration", Class: policy.ClassApply, Mode: "no-reboot", ModeGiven: true, Size: 15 << 10, Targets: 1, Cluster: "lab",
		},
		Caller:   policy.Caller{Issuer: "https://idp.example", Subject: kind, Kind: kind, Groups: groups, Proof: "certificate", ProofEnds: at.Add(time.Hour)},
		Machine:  &policy.Machine{Name: "worker-1", Cluster: "lab", Role: "worker", Labels: map[string]string{}, Pinned: true},
		Evidence: &policy.Evidence{Version: "v1.13.6", Minor: "1.13", Stage: "running", Type: "worker", IdentityMatches: true},
		Config: &policy.Config{
			Digest: "sha256:k0:aa", Base: "sha256:k0:bb", Persistent: "sha256:k0:bb", Problems: []policy.Problem{}, Collections: []policy.Collection{},
			Documents: []policy.Document{{APIVersion: "v1alpha1", Kind: "v1alpha1"}},
			Changes:   []policy.ConfigChange{{Document: "v1alpha1", Path: "machine.nodeLabels.a", Field: "machine.nodeLabels", After: "fp:1111"}},
		},
		Holds: []policy.Hold{}, Now: at,
	}
}

// judged is the entry of a call, by a law.
func judged(t testing.TB, b *policy.Bundle, f *policy.Facts) audit.Entry {
	t.Helper()
	engine, err := ready(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	d := engine.Decide(context.Background(), f)
	raw, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	e := audit.Entry{
		Kind: audit.KindRPC, Verdict: audit.Denied, Method: f.Call.Method, Class: string(f.Call.Class), Mode: f.Call.Mode, ClientAddress: "10.0.0.7",
		Caller:      audit.Caller{Issuer: f.Caller.Issuer, Subject: f.Caller.Subject, Kind: f.Caller.Kind, Groups: f.Caller.Groups, Proof: f.Caller.Proof},
		MachineName: f.Machine.Name, Cluster: f.Machine.Cluster, PolicyRevision: d.Revision, OPAVersion: d.OPA, Reasons: d.Reasons, Codes: d.Codes(),
		ApprovalsNeeded: d.Approvals.Required, Facts: raw, Count: 1, Instance: "g1",
	}
	if d.Allow {
		e.Verdict = audit.Allowed
	}
	return e
}

var (
	anyTime     = regexp.MustCompile(`\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2} UTC`)
	anyRevision = regexp.MustCompile(`(revision|to) [0-9a-f]{12}`)
)

// steady replaces what differs at each run.
func steady(got ran, ids ...string) clitest.Ran {
	plain := func(text string) string {
		for i, id := range ids {
			text = strings.ReplaceAll(text, id, "00000000-0000-7000-8000-00000000000"+string(rune('a'+i)))
		}
		text = strings.ReplaceAll(anyTime.ReplaceAllString(text, "2026-03-02 10:00:00 UTC"), policy.OPAVersion(), "OPA")
		return anyRevision.ReplaceAllString(text, "$1 aaaaaaaaaaaa")
	}
	return clitest.Ran{Out: plain(got.out), ErrOut: plain(got.errOut)}
}

// filled is a book of an apply by somebody, two by automation, one of a later law, and one that no law made.
func filled(t *testing.T) (*world, *policy.Bundle, []string) {
	t.Helper()
	w, old := newWorld(t), oldLaw(t)
	w.save(t, old)
	stricter := laid(t, "quorum: {required: 1}\nladder: {BW-SITE-001: warn}\n")
	w.save(t, stricter)
	return w, old, []string{
		w.write(t, judged(t, old, call("human", "operators"))), w.write(t, judged(t, old, call("automation", "automation"))),
		w.write(t, judged(t, old, call("automation", "automation"))), w.write(t, judged(t, stricter, call("automation", "automation"))),
		w.write(t, audit.Entry{Kind: audit.KindRPC, Verdict: audit.Refused, Method: "/x", Class: "read", Count: 1}),
	}
}

func TestADraftIsHeldAgainstTheBook(t *testing.T) {
	w, _, ids := filled(t)
	draft := draftDir(t, laid(t, "quorum: {required: 0}\n"))
	got := w.run(t, "replay", "--bundle", draft, "--since", "1d")
	if !errors.Is(got.err, cli.ErrChanged) {
		t.Fatalf("%v\n%s%s", got.err, got.out, got.errOut)
	}
	clitest.Golden(t, "replay", steady(got, ids...))
	var report struct {
		Decisions   int64
		NowDenied   int64 `json:"now_denied"`
		Other       int64 `json:"other_reasons"`
		ByGateway   int64 `json:"by_gateway"`
		Changed     []struct{ ID, Kind string }
		NotListed   int64 `json:"changed_not_listed"`
		Same        int64
		NotRelevant int64 `json:"now_allowed"`
	}
	short := w.run(t, "replay", "-o", "json", "--bundle", draft, "--limit", "1")
	if err := json.Unmarshal([]byte(short.out), &report); err != nil {
		t.Fatal(err)
	}
	if report.Decisions != 5 || report.NowDenied != 2 || report.Other != 1 || report.Same != 1 || report.ByGateway != 1 || len(report.Changed) != 1 || report.Changed[0].ID != ids[1] || report.NotListed != 2 {
		t.Errorf("%s", short.out)
	}
	for name, args := range map[string][]string{
		"another machine": {"--machine", "worker-9"}, "before all": {"--until", "2020-01-01"}, "nobody's": {"--since", "2020-01-01", "--until", "2020-01-02"},
	} {
		if got := w.run(t, append([]string{"replay", "--bundle", draft}, args...)...); got.err != nil || !strings.Contains(got.out, "0 decisions") {
			t.Errorf("%s: %v\n%s", name, got.err, got.out)
		}
	}
	if got := w.run(t, "replay", "--bundle", draft, "--machine", "worker-1"); !strings.Contains(got.out, "4 decisions") {
		t.Errorf("one machine: %s", got.out)
	}
}

// By their own laws all come out the same. The control: one record that says something else is found.
func TestTheBookComesOutTheSameByItsOwnLaws(t *testing.T) {
	w, old, _ := filled(t)
	if got := w.run(t, "replay"); got.err != nil || !strings.Contains(got.out, "5 decisions, each judged by its own law") {
		t.Fatalf("%v\n%s", got.err, got.out)
	}
	lie := judged(t, old, call("human", "viewers"))
	lie.Verdict, lie.Reasons, lie.Codes = audit.Allowed, nil, nil
	id := w.write(t, lie)
	got := w.run(t, "replay")
	if !errors.Is(got.err, cli.ErrChanged) || !strings.Contains(got.out, id) || !strings.Contains(got.out, "now denied") {
		t.Errorf("%v\n%s", got.err, got.out)
	}
	lost := judged(t, laid(t, "quorum: {required: 3}\n"), call("human", "operators"))
	w.write(t, lost)
	if got := w.run(t, "replay"); !strings.Contains(got.out, "not judged: the law of revision "+lost.PolicyRevision[:12]+" is not kept") {
		t.Errorf("a law that is not kept: %s", got.out)
	}
}

func TestADecisionIsExplained(t *testing.T) {
	w, _, ids := filled(t)
	got := w.run(t, "explain", ids[3])
	if got.err != nil {
		t.Fatal(got.err)
	}
	out := steady(got, ids...)
	out.Out, _, _ = strings.Cut(out.Out, "\nsilent") // the shipped law's rules are not this page's
	clitest.Golden(t, "explain", out)
	other := w.run(t, "explain", ids[3], "--bundle", draftDir(t, laid(t, "quorum: {required: 0}\n")))
	if other.err != nil || !strings.Contains(other.out, "BW-APPROVAL-001 deny") || !strings.Contains(other.out, "(then, by data.bronzeward.rules.approvals)") || !strings.Contains(other.out, "DENY  (revision") {
		t.Errorf("by another law: %v\n%s", other.err, other.out)
	}
	var usage cli.UsageError
	if got := w.run(t, "explain", ids[4]); !errors.As(got.err, &usage) || !strings.Contains(got.err.Error(), "no law decided") {
		t.Errorf("what no law decided: %v", got.err)
	}
}

func TestWhomShadowsWouldRefuse(t *testing.T) {
	w, _, ids := filled(t)
	got := w.run(t, "shadow", "--since", "7d")
	if got.err != nil {
		t.Fatal(got.err)
	}
	clitest.Golden(t, "shadow", steady(got, ids...))
	if got := w.run(t, "shadow", "--code", "BW-SITE-002"); got.err != nil || !strings.Contains(got.errOut, "no rule on the steps") {
		t.Errorf("%v %s", got.err, got.errOut)
	}
}

func TestLawsAreComparedByAnyName(t *testing.T) {
	w, old, _ := filled(t)
	got := w.run(t, "diff", old.Revision()[:8], "live")
	if !errors.Is(got.err, cli.ErrChanged) {
		t.Fatalf("%v\n%s", got.err, got.out)
	}
	clitest.Golden(t, "diff", steady(got))
	dir := draftDir(t, old)
	if got := w.run(t, "diff", dir, old.Revision()); got.err != nil || !strings.Contains(got.out, "no difference") {
		t.Errorf("a directory and its revision: %v\n%s", got.err, got.out)
	}
	if err := os.WriteFile(filepath.Join(dir, "more.rego"), []byte("package more\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := w.run(t, "diff", "--brief", dir, old.Revision()); !errors.Is(got.err, cli.ErrChanged) || !strings.Contains(got.out, "removed   more.rego") || strings.Contains(got.out, "---") {
		t.Errorf("a file less: %v\n%s", got.err, got.out)
	}
	for _, name := range []string{"nowhere", strings.Repeat("0", 64), "0123"} {
		if got := w.run(t, "diff", name, "shipped"); got.err == nil || errors.Is(got.err, cli.ErrChanged) {
			t.Errorf("%s: %v", name, got.err)
		}
	}
	// The database cannot pass one law off as another.
	other := laid(t, "quorum: {required: 2}\n")
	if _, err := w.owner.Exec(t.Context(), `insert into control.bundles (revision, content, entry_id) values ($1, $2, gen_random_uuid())`, strings.Repeat("f", 64), other.Bytes()); err != nil {
		t.Fatal(err)
	}
	if got := w.run(t, "diff", strings.Repeat("f", 64), "shipped"); got.err == nil || !strings.Contains(got.err.Error(), "the database was changed") {
		t.Errorf("a law under another's name: %v", got.err)
	}
}

// The limit before an activation: what is refused more than it lets pass is refused. The control is the limit
// that lets just so many pass.
func TestALimitOnWhatIsNewlyDenied(t *testing.T) {
	w, _, _ := filled(t)
	draft := laid(t, "quorum: {required: 0}\n")
	pass := func(since string, most int64) (string, error) {
		g := &cli.Globals{Output: "table", Console: cli.Console{ErrOut: &strings.Builder{}}}
		f := GateFlags{ReplaySince: since, MaxNewlyDenied: most}
		r, asked, err := f.span()
		if err != nil || !asked {
			return "", err
		}
		_, said, err := f.pass(t.Context(), g, book.PastOf(w.owner), r, draft)
		return said, err
	}
	var changed cli.ChangedError
	if _, err := pass("7d", 1); !errors.As(err, &changed) || !strings.Contains(err.Error(), "2 past allows") || !strings.Contains(err.Error(), "BW-SITE-001") {
		t.Errorf("one may: %v", err)
	}
	if said, err := pass("7d", 2); err != nil || !strings.Contains(said, "since 7d, at most 2 newly denied: ") {
		t.Errorf("two may: %q, %v", said, err)
	}
	if _, err := pass("", 0); err != nil {
		t.Errorf("no limit: %v", err)
	}
	var usage cli.UsageError
	for since, most := range map[string]int64{"": 1, "7d": -1, "soon": 0} {
		if _, err := pass(since, most); !errors.As(err, &usage) {
			t.Errorf("%q %d: %v", since, most, err)
		}
	}
}
