package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bronzeward/audit"
	"bronzeward/fixtures/idp"
)

// alone runs the product's command as somebody does who has a credential and the gateway's address, and no
// configuration file: it gives what was printed, and the exit code.
func (s *street) alone(t *testing.T, credential []string, args ...string) (string, int) {
	t.Helper()
	env := append([]string{"BRONZEWARD_SERVER=" + s.API(), "BRONZEWARD_SERVER_CA=" + s.Path("pki", "server-ca.crt")}, credential...)
	out, err := s.Alone(context.Background(), t.TempDir(), env, args...)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		return out, exit.ExitCode()
	}
	return out, 0
}

func (s *street) certificate(person string) []string {
	return []string{"BRONZEWARD_CERTIFICATE=" + s.Path("pki", person+".crt"), "BRONZEWARD_KEY=" + s.Path("pki", person+".key")}
}

// editLaw replaces a text in a file of a law.
func editLaw(t *testing.T, dir, name, old, fresh string) {
	t.Helper()
	at := filepath.Join(dir, filepath.FromSlash(name))
	text := string(must(os.ReadFile(at))(t))
	if !strings.Contains(text, old) {
		t.Fatalf("%s has no %q", name, old)
	}
	ok(t, os.WriteFile(at, []byte(strings.Replace(text, old, fresh, 1)), 0o600))
}

const (
	dataYAML = "bronzeward/data.yaml"
	apiYAML  = "bronzeward/api/data.yaml"
)

// addSiteRule lets a rule of the site's look at otto's applies from the shadow.
func addSiteRule(t *testing.T, dir string) {
	t.Helper()
	at := filepath.Join(dir, "bronzeward", "rules", "site", "site.rego")
	ok(t, os.MkdirAll(filepath.Dir(at), 0o700))
	ok(t, os.WriteFile(at, []byte(`# METADATA
# description: What this site adds to the shipped law.
package bronzeward.rules.site

import data.bronzeward.lib.finding

# METADATA
# title: no applies by otto
# description: He is on leave.
# custom:
#   code: BW-SITE-001
#   hint: ""
deny contains finding.because(rego.metadata.rule(), "otto is on leave") if {
	input.call.class == "apply"
	input.caller.subject == "otto"
}
`), 0o600))
	editLaw(t, dir, dataYAML, "\nladder:\n", "\nladder:\n  BW-SITE-001: shadow\n")
}

// lawDir is a copy of the live law's folder.
func (s *street) lawDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "law")
	ok(t, os.CopyFS(dir, os.DirFS(s.PolicyDir())))
	return dir
}

// untimed takes out what differs between two looks at the replicas.
var untimed = regexp.MustCompile(`"(silent_seconds|heard_at)": [^\n]*`)

// Whoever has a certificate and the gateway's address alone works on the law as whoever opens the database: what is
// printed is the same, to the byte, and so are the exit codes. The controls are people without the roles.
func TestTheLawIsWorkedOnFromAfar(t *testing.T) {
	ctx := context.Background()
	s := newStreet(t, 1, 0)
	gate := s.serve(t, "gateway-1").Gateway
	addSiteRule(t, s.PolicyDir()) // and who brings laws reads the book, too
	editLaw(t, s.PolicyDir(), dataYAML, idp.GroupPolicyAdmins+": [policy-admin]", idp.GroupPolicyAdmins+": [policy-admin, auditor]")
	must(s.Bronzeward(ctx, "sven", "policy", "activate", "--direct", s.PolicyDir()))(t)
	for _, person := range []string{"otto", "vera"} {
		s.Apply(ctx, gate, person, "worker-1", s.Labelled("worker-1", "from-"+person))
	}
	draft := s.lawDir(t)
	editLaw(t, draft, dataYAML, "  BW-SITE-001: shadow\n", "")
	until := must(s.db.Texts(ctx, `select to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`))(t)[0]
	same := func(person string, code int, holds string, args ...string) string {
		t.Helper()
		far, got := s.alone(t, s.certificate(person), append([]string{"policy"}, args...)...)
		direct, err := s.Bronzeward(ctx, person, append([]string{"policy", args[0], "--direct"}, args[1:]...)...)
		var exit *exec.ExitError
		wanted := 0
		if errors.As(err, &exit) {
			wanted = exit.ExitCode()
		}
		if got != code || wanted != code || !strings.Contains(far, holds) {
			t.Fatalf("%v: code %d from afar and %d directly, want %d and %q:\n%s\n%s", args, got, wanted, code, holds, far, direct)
		}
		if diff := cmp.Diff(untimed.ReplaceAllString(direct, ""), untimed.ReplaceAllString(far, "")); diff != "" {
			t.Errorf("%v (-direct +from afar):\n%s", args, diff)
		}
		return far
	}
	report := same("audrey", 3, `"now_denied": 1`, "replay", "--bundle", draft, "--until", until, "-o", "json")
	same("audrey", 0, `each judged by its own law`, "replay", "--until", until)
	same("audrey", 0, "BW-SITE-001", "shadow", "--until", until)
	var changed struct{ Changed []struct{ ID string } }
	ok(t, json.Unmarshal([]byte(report), &changed))
	id := changed.Changed[0].ID
	same("audrey", 0, "BW-SITE-001 shadow", "explain", id)
	same("audrey", 0, "BW-SITE-001 deny", "explain", "--bundle", draft, id)
	same("sven", 3, `bronzeward.ladder.BW-SITE-001`, "diff", "live", draft)
	first := must(s.db.Texts(ctx, "select revision from control.bundles order by saved_at limit 1"))(t)[0]
	same("sven", 3, first[:12], "diff", first[:8], "live")
	same("sven", 0, `"state": "current"`, "status", "-o", "json")
	same("sven", 0, "replicas_agree: ", "status", "-o", "yaml")

	for name, row := range map[string]struct {
		person, says string
		args         []string
	}{
		"a replay without the book":      {"olga", "BW-ACT-003", []string{"replay", "--bundle", draft}},
		"a shadow without the book":      {"olga", "BW-ACT-003", []string{"shadow"}},
		"a law without a role for laws":  {"olga", "BW-ACT-003", []string{"diff", "live", draft}},
		"the state without one":          {"olga", "BW-ACT-003", []string{"status"}},
		"a limit on a replay without it": {"olga", "BW-ACT-003", []string{"activate", draft, "--replay-since", "1d"}},
	} {
		if out, code := s.alone(t, s.certificate(row.person), append([]string{"policy"}, row.args...)...); code != 4 || !strings.Contains(out, row.says) {
			t.Errorf("%s: code %d\n%s", name, code, out)
		}
	}
	s.limitedFromAfar(t, draft)
}

// limitedFromAfar makes a law live within a limit on a replay, which stands in the entry as what its caller says.
func (s *street) limitedFromAfar(t *testing.T, draft string) {
	t.Helper()
	ctx := context.Background()
	runs := func(code int, says string, args ...string) {
		t.Helper()
		if out, got := s.alone(t, s.certificate("sven"), append([]string{"policy"}, args...)...); got != code || !strings.Contains(out, says) {
			t.Fatalf("policy %v: code %d, want %d and %q\n%s", args, got, code, says, out)
		}
	}
	live := func() string { return must(s.db.Texts(ctx, "select revision from control.live_bundle"))(t)[0] }
	entry := func(act string) audit.Entry {
		t.Helper()
		record := must(s.db.Texts(ctx, "select convert_from(record, 'UTF8') from audit.entries where method = '"+act+"' and verdict = 'allow' order by recorded_at desc limit 1"))(t)[0]
		return must(audit.ParseEntry([]byte(record)))(t)
	}
	before := live()
	runs(3, "1 past allows would be denied now, more than the 0", "activate", draft, "--replay-since", "1d")
	if live() != before {
		t.Fatal("it is live beyond its limit")
	}
	runs(0, "is live", "activate", draft, "--replay-since", "1d", "--max-newly-denied", "1")
	if e := entry("policy.activate"); live() == before || !strings.Contains(e.Detail, "replay: as the caller says, since ") || !strings.Contains(e.Detail, "at most 1 newly denied: ") || !strings.Contains(e.Detail, ", 1 now denied, ") {
		t.Errorf("the entry says %q", e.Detail)
	}
	// The same law again, as a pipeline does that runs twice.
	runs(0, "is saved", "save", draft)
	runs(0, "is live", "activate", live()[:8])
	runs(0, "is live", "rollback", "previous", "--replay-since", "1d")
	if e := entry("policy.rollback"); live() != before || !strings.Contains(e.Detail, "as the caller says") {
		t.Errorf("%s is live, and the entry says %q", live(), e.Detail)
	}
	runs(1, "no law is saved under ffffffff", "activate", "ffffffff")
}

// A repository's CI with a token of its own checks, tests, saves and replays where the data say that it may, and neither agrees
// to a law nor makes one live, until they say that too. The control before: as shipped only people bring laws.
func TestCIBringsALawWithItsOwnToken(t *testing.T) {
	ctx := context.Background()
	s := newStreet(t, 1, 0)
	s.serve(t, "gateway-1")
	robot := []string{"BRONZEWARD_TOKEN=" + must(s.IDP.Token("bot-ci"))(t)}
	runs := func(code int, says string, args ...string) {
		t.Helper()
		if out, got := s.alone(t, robot, append([]string{"policy"}, args...)...); got != code || !strings.Contains(out, says) {
			t.Fatalf("policy %v: code %d, want %d and %q\n%s", args, got, code, says, out)
		}
	}
	live := func() string { return must(s.db.Texts(ctx, "select revision from control.live_bundle"))(t)[0] }
	robots := "  " + idp.GroupAutomation + ": [operator"
	editLaw(t, s.PolicyDir(), dataYAML, robots+"]", robots+", policy-admin, auditor]")
	must(s.Bronzeward(ctx, "sven", "policy", "activate", s.PolicyDir()))(t)
	draft := s.lawDir(t)
	addSiteRule(t, draft)
	runs(4, "BW-ACT-", "save", draft) // whatever role it has: people bring laws

	editLaw(t, s.PolicyDir(), apiYAML, "policy.save: {roles: [policy-admin], human: true}", "policy.save: {roles: [policy-admin], human: false}")
	must(s.Bronzeward(ctx, "sven", "policy", "activate", s.PolicyDir()))(t)
	editLaw(t, draft, apiYAML, "policy.save: {roles: [policy-admin], human: true}", "policy.save: {roles: [policy-admin], human: false}")
	before := live()
	runs(0, "", "check", draft)
	runs(0, "", "test", draft)
	runs(3, "BW-ACT-004   0     1", "replay", "--bundle", draft, "--since", "7d") // its own attempt above would be allowed now
	runs(3, "bronzeward.ladder.BW-SITE-001", "diff", "live", draft)
	runs(0, "is saved and not live", "save", draft)
	saved := must(s.db.Texts(ctx, "select revision from control.bundles order by saved_at desc limit 1"))(t)[0]
	runs(0, before, "status")
	runs(4, "BW-ACT-", "approve", saved[:8])
	runs(4, "BW-ACT-", "activate", saved[:8])
	runs(4, "BW-ACT-", "rollback", "previous")
	if live() != before {
		t.Fatal("CI made a law live")
	}
	editLaw(t, s.PolicyDir(), apiYAML, "policy.activate: {roles: [policy-admin], human: true}", "policy.activate: {roles: [policy-admin], human: false}")
	must(s.Bronzeward(ctx, "sven", "policy", "activate", s.PolicyDir()))(t)
	runs(0, "is live", "activate", saved[:8])
	if live() != saved {
		t.Error("CI did not make the law live, which the data let it")
	}
}
