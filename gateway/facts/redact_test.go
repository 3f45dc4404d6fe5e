package facts

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/siderolabs/talos/pkg/machinery/config/config"
	"github.com/siderolabs/talos/pkg/machinery/config/container"
	"github.com/siderolabs/talos/pkg/machinery/config/encoder"
	"github.com/siderolabs/talos/pkg/machinery/textdiff"
	"pgregory.net/rapid"

	"bronzeward/fixtures/oracle"
)

const dryRunHead = "Dry run summary:\nApplied configuration without a reboot (skipped in dry-run).\nConfig diff:\n\n"

// baseSecrets are the values of the recorded worker that must not be shown.
func baseSecrets() []string {
	return []string{
		"t3bwuq.wq2pgvthzcz26xoy", "w6uqgs.bk05tskjn0cew3l6",
		"j54nzaO5cr9Tc3W5CM5wrPjQr9pERM4Qol5TGx-pjD4=", "iYAVXoos4Dn2yspNX+dGmDlGGhy8ZK3wq0LOUOwIXGY=",
	}
}

// S8, S9, U29: the answers a real node gave, with the secrets it showed.
func TestRecordedAnswersLoseTheirSecretsAndKeepTheRest(t *testing.T) {
	secret := map[string]string{"doc-registryauth": "p-canary", "reboot-token": "abcdef.0123456789abcdef", "reboot-files": "hello", "reboot-env": "FOO: bar"}
	hadSecret := 0
	for _, c := range oracle.Cases() {
		if _, strict := stricter()[c.Name]; strict {
			continue // never sent
		}
		r := NewRedactor(testKeys(t), c.Text, oracle.Base())
		for _, said := range []string{c.DryRun.AnswerDetails, c.DryRun.Message, c.Real.Message, c.Real.AnswerDetails} {
			got := r.Text(said)
			for _, s := range append(baseSecrets(), secret[c.Name]) {
				if s == "" {
					continue
				}
				if strings.Contains(said, s) {
					hadSecret++
				}
				if strings.Contains(got, s) {
					t.Errorf("%s: %q is shown in %q", c.Name, s, got)
				}
			}
			if said == "" && got != "" {
				t.Errorf("%s: something is said of nothing", c.Name)
			}
			if r.Err() == nil && (strings.Contains(got, hiddenText) || strings.Contains(got, "not shown")) {
				t.Errorf("%s: the answer is hidden: %q", c.Name, got)
			}
			// Lines that hold no secret stay as the node wrote them.
			if strings.HasPrefix(said, dryRunHead) && !strings.HasPrefix(got, dryRunHead) {
				t.Errorf("%s: the words before the diff changed: %q", c.Name, got)
			}
			several := c.Name == "doc-trustedroots" // a value of several lines becomes one
			if strings.Count(said, "\n") != strings.Count(got, "\n") && strings.HasPrefix(said, dryRunHead) && !several {
				t.Errorf("%s: lines are missing:\n%s\n%s", c.Name, said, got)
			}
		}
	}
	if hadSecret < 5 {
		t.Fatalf("the recorded answers hold %d secrets: the test does not reach them", hadSecret)
	}
}

func nodeDiff(t testing.TB, asked, active []byte) string {
	t.Helper()
	r := NewRedactor(testKeys(t), asked, active)
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	if r.clear == "" {
		return dryRunHead + "No changes."
	}
	return dryRunHead + r.clear
}

func TestEqualSecretsStayRecognizable(t *testing.T) {
	asked := bytes.Replace(oracle.Base(), []byte("t3bwuq.wq2pgvthzcz26xoy"), []byte("abcdef.0123456789abcdef"), 1)
	d := testKeys(t)
	got := NewRedactor(d, asked, oracle.Base()).Text(nodeDiff(t, asked, oracle.Base()))
	for _, want := range []string{
		"-    token: " + d.Fingerprint([]byte("t3bwuq.wq2pgvthzcz26xoy")) + "\n", "+    token: " + d.Fingerprint([]byte("abcdef.0123456789abcdef")) + "\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
}

// A comment is no value of a configuration, but a node that quotes the text quotes it too.
func TestCommentsAreHiddenInANodesWords(t *testing.T) {
	base := oracle.Base()
	asked := []byte("# a note nobody should read\n" + string(with("    # PASSWORD: c0mment-canary\n    env:\n        A: b # \"in quotes\" and a tab\there\n")))
	r := NewRedactor(testKeys(t), asked, base)
	for _, said := range []string{string(asked), strconv.Quote(string(asked)), "error at c0mment-canary"} {
		got := r.Text("cannot read:\n" + said)
		for _, hidden := range []string{"nobody should read", "c0mment", "in quotes"} {
			if strings.Contains(got, hidden) {
				t.Errorf("%q is shown in %q", hidden, got)
			}
		}
		if !strings.Contains(got, "cannot read") && !strings.Contains(got, hiddenText) {
			t.Errorf("nothing is said: %q", got)
		}
	}
	// Control: the words of no comment stay.
	if got := r.Text("cannot read line 3"); got != "cannot read line 3" {
		t.Errorf("got %q", got)
	}
	many := []byte(strings.Repeat("# x\n", 10) + string(base))
	for i := range maxComments + 1 {
		many = fmt.Appendf(many, "# comment %d\n", i)
	}
	if got := NewRedactor(testKeys(t), many, base).Text("cannot read line 3"); !strings.Contains(got, hiddenText) {
		t.Errorf("with more comments than can be looked for: %q", got)
	}
}

func TestUncertainAnswersAreNotShown(t *testing.T) {
	base := oracle.Base()
	asked := with("    env:\n        A: s3cret-canary\n")
	tests := []struct {
		name, text string
	}{
		{"a diff against something else", dryRunHead + "--- a\n+++ b\n@@ -1 +1 @@\n+unseen-canary\n"},
		{"a diff of another form", "something\n@@ -1 +1 @@\n+unseen-canary\n"},
		{"a diff of one file header", "--- a\n+unseen-canary"},
		{"a diff behind the diff", nodeDiff(t, asked, base) + "\n+unseen-canary"},
		{"a refusal's diff", "this config change can't be applied in immediate mode\ndiff:\n--- a\n+++ b\n+unseen-canary\n"},
		{"no changes where there are some", dryRunHead + "No changes.\nunseen-canary"},
		{"a known secret broken over lines", "error: s3cr\n  et-can\n  ary"},
		{"a known secret broken over lines of a diff's marks", "error: s3cr\n+et-can\n+ary"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := NewRedactor(testKeys(t), asked, base).Text(test.text)
			if strings.Contains(got, "canary") || strings.Contains(pack(got, false), "canary") {
				t.Fatalf("shown: %q", got)
			}
			if got == "" {
				t.Fatal("nothing is said at all")
			}
		})
	}
	for _, pair := range [][2]string{{"not: [yaml", string(base)}, {string(base), ""}, {"", ""}} {
		got := NewRedactor(testKeys(t), []byte(pair[0]), []byte(pair[1])).Text("error: unseen-canary\n" + dryRunHead + "+unseen-canary")
		if strings.Contains(got, "canary") || !strings.Contains(got, hiddenText) {
			t.Errorf("with an unreadable configuration: %q", got)
		}
	}
}

// forms are the encodings a node's words may have a value in.
func forms(value string) map[string]string {
	jsonText, _ := json.Marshal(value)
	wrapped := regexp.MustCompile(`.{7}`).ReplaceAllString(base64.StdEncoding.EncodeToString([]byte(value)), "$0\n    ")
	return map[string]string{
		"plain": value, "quoted": strconv.Quote(value), "json": string(jsonText),
		"base64": base64.StdEncoding.EncodeToString([]byte(value)), "base64url": base64.URLEncoding.EncodeToString([]byte(value)),
		"raw base64":       base64.RawStdEncoding.EncodeToString([]byte(value)),
		"base64 within 1":  base64.StdEncoding.EncodeToString([]byte("x" + value + "tail")),
		"base64 within 2":  base64.StdEncoding.EncodeToString([]byte("xy" + value + "tail")),
		"base64 within 3":  base64.StdEncoding.EncodeToString([]byte("xyz" + value + "tail")),
		"base64 wrapped":   wrapped,
		"hex":              hex.EncodeToString([]byte(value)),
		"HEX":              strings.ToUpper(hex.EncodeToString([]byte(value))),
		"query":            url.QueryEscape(value),
		"path":             url.PathEscape(value),
		"yaml single":      "'" + strings.ReplaceAll(value, "'", "''") + "'",
		"wrapped by lines": value[:len(value)/2] + "\n    " + value[len(value)/2:],
	}
}

func TestAKnownSecretIsFoundInEveryEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[A-Za-z0-9+/=_&%?!' "-]{3}[A-Za-z0-9]{9}[A-Za-z0-9+/=&%?!'"-]{0,12}[A-Za-z0-9]{2}`).Draw(t, "secret")
		s := &secrets{}
		s.add(secret)
		if err := s.finish(); err != nil {
			t.Fatal(err)
		}
		r := &Redactor{secrets: s}
		r.once.Do(func() {})
		for name, form := range forms(secret) {
			got := r.Text("error writing <" + form + "> to disk")
			core := form
			if strings.HasPrefix(name, "base64 within") {
				core = form[4 : len(form)-8] // the neighbours' own characters may stay
			}
			if strings.Contains(got, core) || strings.Contains(pack(got, false), pack(core, false)) {
				t.Fatalf("%s form %q of %q is in %q", name, form, secret, got)
			}
		}
	})
}

// U30: every text field of every kind of document gets a canary; none may be in the
// redacted configuration, in a redacted diff or in Facts, unless its field is on the
// list of what is shown, where only key material is caught.
func TestNoCanaryOfAnyDocumentKindIsShown(t *testing.T) {
	d := testKeys(t)
	const canary = "q83vASNFZ4mrze8BI0VniavN7wEjRWeJC4n"
	for _, kind := range DocumentKinds() {
		t.Run(kind, func(t *testing.T) {
			document := emptyDocument(t, kind)
			filled := fill(reflect.ValueOf(document), canary, 0)
			if filled == 0 && !noText(kind) {
				t.Fatal("no field was filled")
			}
			before := &parsed{documents: []config.Document{emptyDocument(t, kind)}}
			after := &parsed{documents: []config.Document{document}}

			changes, err := changesOf(t.Context(), viewer{digester: d}, before, after)
			if err != nil {
				t.Fatal(err)
			}
			if said := mustJSON(t, changes); strings.Contains(said, canary) {
				t.Errorf("Facts show a canary: %s", around(said, canary))
			}

			clear := encode1(t, document)
			if !strings.Contains(clear, canary) && !strings.Contains(clear, base64.StdEncoding.EncodeToString([]byte(canary))[:20]) && filled > 0 {
				t.Fatal("the canaries are not in the document's own text: the test proves nothing")
			}
			s := &secrets{}
			hidden, err := encodeHidden(viewer{digester: d}, after, s)
			if err != nil {
				t.Fatalf("masking: %v", err)
			}
			if err := s.finish(); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"masked": hidden, "diff": must(textdiff.Diff(clear[:0], hidden))} {
				for _, form := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))[:40], hex.EncodeToString([]byte(canary))} {
					if strings.Contains(text, form) {
						t.Errorf("the %s text shows a canary: %s", name, around(text, form))
					}
				}
			}
			if got := s.scrub("said: " + clear); strings.Contains(got, canary) {
				t.Errorf("the canary stays in words of the node: %s", around(got, canary))
			}
		})
	}
}

// noText are the kinds without a field a text fits in.
func noText(kind string) bool {
	switch kind {
	case "BlackholeRouteConfig", "DHCPv4Config", "DHCPv6Config", "DummyLinkConfig", "EthernetConfig", "KubeSpanEndpointsConfig",
		"LinkConfig", "NetworkDefaultActionConfig", "NetworkRuleConfig", "ZswapConfig", "OOMConfig", "ExistingVolumeConfig", "LinkAliasConfig", "HostnameConfig":
		return true
	}
	return false
}

func encode1(t *testing.T, document config.Document) string {
	t.Helper()
	whole, err := container.New(document)
	if err != nil {
		t.Fatal(err)
	}
	text, err := whole.EncodeString(encoder.WithComments(encoder.CommentsDisabled))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func around(text, word string) string {
	at := strings.Index(text, word)
	return text[max(0, at-80):min(len(text), at+len(word)+20)]
}

func TestRedactConfig(t *testing.T) {
	text := string(with("    files:\n        - content: |\n              password=hunter2-canary\n              other\n          permissions: 0o600\n          path: /var/x\n          op: create\n    env:\n        PROXY: http://u:pw-canary@h/\n"))
	got, err := RedactConfig([]byte(text), testKeys(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append(baseSecrets(), "hunter2", "canary") {
		if strings.Contains(got, s) {
			t.Errorf("%q is shown", s)
		}
	}
	for _, want := range []string{"type: worker", "image: ghcr.io/siderolabs/kubelet:v1.36.2", "path: /var/x", "endpoint: https://10.5.0.2:6443", "kind: HostnameConfig"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is hidden in\n%s", want, got)
		}
	}
	if _, err := RedactConfig([]byte("token: c4nary ["), testKeys(t)); err == nil || strings.Contains(err.Error(), "c4nary") {
		t.Fatalf("got %v", err)
	}
}

// Control: machinery's own redactor alone leaves what it does not know of (U31).
func TestMachinerysRedactorAloneIsNotEnough(t *testing.T) {
	text := with("    files:\n        - content: hunter2-canary\n          permissions: 0o600\n          path: /var/x\n          op: create\n")
	p, problems := (&Reader{digester: testKeys(t)}).load(t.Context(), text)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	provider := must(container.New(p.documents...)).RedactSecrets("x")
	if got := must(provider.EncodeString()); !strings.Contains(got, "hunter2-canary") {
		t.Fatal("machinery hides file contents now: this control needs another field")
	}
}

func TestMaskingDoesNotTouchWhatACacheKeeps(t *testing.T) {
	base := oracle.Base()
	reader := must(NewReader(ReaderConfig{Digester: testKeys(t), Cache: 2}))
	before := mustJSON(t, reader.Read(t.Context(), with("    env:\n        A: b\n"), base, base))
	if err := NewRedactor(testKeys(t), with("    env:\n        A: b\n"), base).Err(); err != nil {
		t.Fatal(err)
	}
	if after := mustJSON(t, reader.Read(t.Context(), with("    env:\n        A: b\n"), base, base)); after != before {
		t.Fatal("redacting changed a cached configuration")
	}
}

func FuzzRedactDiff(f *testing.F) {
	f.Add("s3cret-canary", dryRunHead+"+ s3cret-canary")
	f.Add("pa\"ss'wo\\rd", "error: pa\"ss'wo\\rd")
	f.Add("YWJjOnB3LWNhbmFyeQ==", "abc:pw-canary")
	f.Fuzz(func(t *testing.T, secret, text string) {
		asked := with("    env:\n        A: " + strconv.Quote(secret) + "\n")
		r := NewRedactor(testKeys(t), asked, oracle.Base())
		got := r.Text(text + " <" + secret + "> " + text)
		if len(strings.TrimSpace(secret)) < longSecret || vocabulary[strings.TrimSpace(secret)] || r.Err() != nil {
			return
		}
		if strings.Contains(got, secret) && !strings.Contains(hiddenText+fmt.Sprint(r.changes), secret) {
			t.Fatalf("%q is in %q", secret, got)
		}
	})
}
