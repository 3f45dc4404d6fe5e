package law

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/fixtures/oracle"
)

// configs are what a machine runs, and the same with a label more and with another time server.
func configs(t *testing.T) (current, label, servers string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	base := string(oracle.Base())
	return write("worker.yaml", base),
		write("label.yaml", strings.Replace(base, "machine:\n", "machine:\n    nodeLabels:\n        rack: a7\n", 1)),
		write("time.yaml", strings.Replace(base, "        disabled: true\n", "        servers:\n            - ntp.example\n", 1))
}

var (
	anyDigest      = regexp.MustCompile(`hmac-sha256:k1:[0-9a-f]+`)
	anyFingerprint = regexp.MustCompile(`fp:[0-9a-f]+`)
	anyChange      = regexp.MustCompile(`chg_[0-9a-z]{26}`)
)

// supposed is steady with what differs at each supposition replaced.
func supposed(got ran) clitest.Ran {
	out := steady(got)
	out.Out = anyDigest.ReplaceAllString(anyFingerprint.ReplaceAllString(anyChange.ReplaceAllString(out.Out, "chg_00000000000000000000000000"), "fp:00000000000000000000"), "hmac-sha256:k1:00")
	return out
}

// ends fails the test unless a run ended as wanted.
func ends(t *testing.T, got ran, as error) {
	t.Helper()
	var denied cli.DeniedError
	var early cli.NotYetError
	good := got.err == nil
	switch as.(type) {
	case cli.DeniedError:
		good = errors.As(got.err, &denied)
	case cli.NotYetError:
		good = errors.As(got.err, &early)
	}
	if !good {
		t.Fatalf("%v, want %T\n%s%s", got.err, as, got.out, got.errOut)
	}
}

func TestASupposedApplyIsEvaluated(t *testing.T) {
	w := &world{}
	current, label, servers := configs(t)
	law := draftDir(t, oldLaw(t)) // the site's rule, and no approvals
	as := []string{"eval", "--current", current, "--as", "olga", "--group", "operators", "--at", "2026-03-02T10:00:00Z"}
	with := func(more ...string) ran { return w.run(t, append(as[:len(as):len(as)], more...)...) }

	denied := with("--proposed", servers, "--machine", "worker-7", "--cluster", "lab", "--label", "env=production")
	ends(t, denied, cli.DeniedError{})
	if !strings.Contains(denied.err.Error(), "denied: BW-CONFIG-018, BW-APPROVAL-001") {
		t.Error(denied.err)
	}
	out := supposed(denied)
	head, silent, _ := strings.Cut(out.Out, "\nsilent")
	silent, assumed, _ := strings.Cut(silent, "\nassumed")
	_, mode, _ := strings.Cut(silent, "  BW-MODE-001")
	mode, _, _ = strings.Cut(mode, "  BW-TARGET") // the other areas' rules are not this page's
	clitest.Golden(t, "eval-denied", clitest.Ran{Out: head + "\nsilent …\n  BW-MODE-001" + mode + "…\nassumed" + assumed})
	waits := with("--proposed", label)
	ends(t, waits, cli.NotYetError{})
	allowed := with("--proposed", label, "--approved-by", "bob:approvers")
	ends(t, allowed, nil)
	fired, _, _ := strings.Cut(supposed(waits).Out, "\nsilent")
	_, assumed, _ = strings.Cut(allowed.out, "\nassumed")
	verdict, _, _ := strings.Cut(allowed.out, "  (revision")
	clitest.Golden(t, "eval-approved", clitest.Ran{Out: fired + "\n--- approved\n" + verdict + "\nassumed" + assumed})

	for name, row := range map[string]struct {
		args []string
		end  error
		want string
	}{
		"automation, seen from the shadow": {[]string{"-b", law, "--proposed", label, "--kind", "automation"}, nil, "BW-SITE-001 shadow"},
		"nobody's group":                   {[]string{"-b", law, "--proposed", label, "--group", "strangers"}, nil, "ALLOW"},
		"another mode":                     {[]string{"-b", law, "--proposed", label, "--mode", "staged"}, cli.DeniedError{}, "BW-MODE-004"},
		"a reboot is an absent mode":       {[]string{"-b", law, "--proposed", label, "--mode", "reboot"}, cli.DeniedError{}, "BW-MODE-001"},
		"a control plane":                  {[]string{"-b", law, "--proposed", label, "--role", "controlplane"}, cli.DeniedError{}, "BW-TARGET-004"},
		"a minor nobody knows":             {[]string{"-b", law, "--proposed", label, "--talos", "v1.12.0"}, cli.DeniedError{}, "BW-TARGET-011"},
		"something staged":                 {[]string{"-b", law, "--proposed", label, "--persistent", servers}, cli.DeniedError{}, "BW-MODE-008"},
		"a machine that boots":             {[]string{"-b", law, "--proposed", label, "--stage", "maintenance"}, cli.DeniedError{}, "BW-TARGET-010"},
		"no change":                        {[]string{"-b", law, "--proposed", current}, nil, "ALLOW"},
		"one's own approval":               {[]string{"--proposed", label, "--approved-by", "olga:approvers"}, cli.NotYetError{}, "yours does not count"},
		"an approver of no group asked":    {[]string{"--proposed", label, "--approved-by", "bob:viewers"}, cli.NotYetError{}, "BW-APPROVAL-001"},
		"a dry run":                        {[]string{"--proposed", label, "--dry-run"}, nil, "ALLOW"},
	} {
		got := with(row.args...)
		t.Run(name, func(t *testing.T) {
			ends(t, got, row.end)
			if fired, _, _ := strings.Cut(got.out, "\nsilent"); !strings.Contains(fired, row.want) {
				t.Errorf("no %q in\n%s", row.want, fired)
			}
		})
	}
}

// A control plane's configuration is refused by the law, be it what the machine runs or what it gets.
func TestAControlPlanesConfigurationIsRefused(t *testing.T) {
	current, _, _ := configs(t)
	plane := filepath.Join(t.TempDir(), "controlplane.yaml")
	if err := os.WriteFile(plane, []byte(strings.Replace(string(oracle.Base()), "type: worker", "type: controlplane", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct{ current, proposed, want string }{
		"it runs one":  {plane, plane, "BW-TARGET-009"},
		"it gets one":  {current, plane, "BW-CONFIG-002"},
		"it loses one": {plane, current, "BW-TARGET-009"},
	} {
		got := (&world{}).run(t, "eval", "--current", row.current, "--proposed", row.proposed, "--as", "olga", "--group", "operators")
		ends(t, got, cli.DeniedError{})
		if !strings.Contains(got.err.Error(), row.want) {
			t.Errorf("%s: %v", name, got.err)
		}
	}
}

// Facts and cases that are printed are judged alike, by eval and by policy test.
func TestFactsAndCasesOfASuppositionArePrinted(t *testing.T) {
	w := &world{}
	current, _, servers := configs(t)
	as := []string{"eval", "--current", current, "--proposed", servers, "--as", "olga", "--group", "operators"}
	judged := w.run(t, as...)
	ends(t, judged, cli.DeniedError{})
	dir := initiated(t)
	for name, args := range map[string][]string{
		"facts": {"--print-facts"}, "facts.json": {"--print-facts", "-o", "json"}, "case": {"--print-case", "time servers are refused"},
	} {
		printed := w.run(t, append(as[:len(as):len(as)], args...)...)
		ends(t, printed, nil)
		file := filepath.Join(t.TempDir(), "call.yaml")
		if name == "case" {
			file = filepath.Join(dir, "cases", "site.yaml")
		}
		if err := os.WriteFile(file, []byte(printed.out), 0o600); err != nil {
			t.Fatal(err)
		}
		again := w.run(t, "eval", file)
		ends(t, again, cli.DeniedError{})
		if again.err.Error() != judged.err.Error() {
			t.Errorf("%s: %v, and supposed: %v", name, again.err, judged.err)
		}
	}
	if got := w.run(t, "test", dir, "--run", "time servers are refused"); got.err != nil || !strings.Contains(got.out, "1 cases hold, 0 do not") {
		t.Errorf("the case: %v\n%s", got.err, got.out)
	}
	var x evaluated
	if err := json.Unmarshal([]byte(w.run(t, append(as, "-o", "json")...).out), &x); err != nil || x.Decision.Allow || len(x.Assumed) == 0 || len(x.Rules) < 50 {
		t.Errorf("%v %+v", err, x.Decision)
	}
}

// No output of a supposition holds a secret of its configurations, changed or not. The control: the
// fingerprints of the change are in it.
func TestNoOutputOfASuppositionHoldsASecret(t *testing.T) {
	current, _, _ := configs(t)
	const token = "abcdef.fedcba9876543210"
	text := regexp.MustCompile(`(?m)^    token: .*$`).ReplaceAllString(string(oracle.Base()), "    token: "+token)
	if !strings.Contains(text, token) {
		t.Fatal("the base has no token to replace")
	}
	secret := filepath.Join(t.TempDir(), "secret.yaml")
	if err := os.WriteFile(secret, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte(text+"\n  : ["+token), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, files := range [][2]string{{current, secret}, {secret, current}, {secret, broken}, {broken, secret}, {broken, broken}} {
		for _, more := range [][]string{{}, {"-o", "json"}, {"-o", "yaml"}, {"--print-facts"}, {"--print-case", "x"}} {
			got := (&world{}).run(t, append([]string{"eval", "--current", files[0], "--proposed", files[1], "--as", "olga"}, more...)...)
			all := got.out + got.errOut
			if got.err != nil {
				all += got.err.Error()
			}
			if strings.Contains(all, token) || strings.Contains(all, token[7:]) {
				t.Errorf("%v %v show a token:\n%s", files, more, all)
			}
			if files[0] == current && !strings.Contains(all, "fp:") && len(more) > 0 {
				t.Errorf("%v: the change of the token is not in the output:\n%s", more, all)
			}
		}
	}
}
