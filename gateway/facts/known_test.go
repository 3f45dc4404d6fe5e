package facts

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"bronzeward/fixtures/oracle"
	"bronzeward/policy"
)

const (
	tokenOfBase = "w6uqgs.bk05tskjn0cew3l6"
	halfOfToken = "bk05tskjn0cew3l6"
)

// I13: a token, or half of one, written where texts are shown. halves are the places.
func halves(text string) map[string][]byte {
	q := strconv.Quote(text)
	return map[string][]byte{
		"a label value":            with("    nodeLabels:\n        example.com/a: " + q + "\n"),
		"a label name":             with("    nodeLabels:\n        example.com/" + text + ": x\n"),
		"a label without a prefix": with("    nodeLabels:\n        " + text + ": x\n"),
		"a label prefix":           with("    nodeLabels:\n        " + text + ".example.com/a: x\n"),
		"an annotation's name":     with("    nodeAnnotations:\n        example.com/" + text + ": x\n"),
		"a taint":                  with("    nodeTaints:\n        example.com/a: " + text + ":NoSchedule\n"),
		"a hostname":               hostname(q),
		"a part of a hostname":     hostname("host." + text + ".example.com"),
		"an image":                 with("    seccompProfiles:\n        - name: " + q + "\n          value: {a: b}\n"),
		"a document's name":        []byte(string(oracle.Base()) + "---\napiVersion: v1alpha1\nkind: KmsgLogConfig\nname: " + q + "\nurl: tcp://10.0.0.9:5000/\n"),
		"a log's host":             []byte(string(oracle.Base()) + "---\napiVersion: v1alpha1\nkind: KmsgLogConfig\nname: out\nurl: tcp://" + text + ":5000/\n"),
		"the zone of an address":   []byte(string(oracle.Base()) + "---\napiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\nroutes:\n    - gateway: fe80::1%" + text + "\n"),
	}
}

func hostname(name string) []byte {
	return []byte(strings.Replace(string(oracle.Base()), "    network:\n", "    network:\n        hostname: "+name+"\n", 1))
}

func TestAPartOfASecretIsShownNowhere(t *testing.T) {
	for name, asked := range halves(halfOfToken) {
		t.Run(name, func(t *testing.T) {
			got := read(t, asked)
			if said := mustJSON(t, got); strings.Contains(said, halfOfToken) {
				t.Errorf("Facts show it: %s", around(said, halfOfToken))
			}
			if len(got.Problems) == 0 && len(got.Changes) == 0 {
				t.Error("the case changes nothing")
			}
			r := NewRedactor(testKeys(t), asked, oracle.Base())
			if got := r.Text(dryRunHead + r.clear); strings.Contains(got, halfOfToken) {
				t.Errorf("the diff shows it: %s", around(got, halfOfToken))
			}
			if out, err := RedactConfig(asked, testKeys(t)); err == nil && strings.Contains(out, halfOfToken) {
				t.Errorf("the redacted configuration shows it: %s", around(out, halfOfToken))
			}
		})
	}
}

// A secret may also stand in the other configuration only.
func TestWhatTheActiveConfigurationHidesIsHiddenInTheOneAskedFor(t *testing.T) {
	active := with("    env:\n        PROXY: http://u:first-hunter2canary/x@h/\n")
	asked := with("    nodeLabels:\n        a: hunter2canary\n")
	got := ReadConfig(t.Context(), asked, active, active, testKeys(t))
	if said := mustJSON(t, got); strings.Contains(said, "hunter2canary") {
		t.Fatal(around(said, "hunter2canary"))
	}
}

// Control: with nothing known every one of the places shows it, or the test above would
// pass for another reason.
func TestWithoutWhatIsKnownAPartOfASecretIsShown(t *testing.T) {
	asked := halves(halfOfToken)
	reader := &Reader{digester: testKeys(t)}
	shown := 0
	for name, text := range asked {
		next, problems := reader.load(t.Context(), text)
		current, _ := reader.load(t.Context(), oracle.Base())
		if len(problems) > 0 {
			t.Logf("%s: %+v", name, problems)
			continue
		}
		changes, err := changesOf(t.Context(), viewer{digester: testKeys(t)}, current, next)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(mustJSON(t, changes), halfOfToken) {
			shown++
		}
	}
	if shown < 8 {
		t.Fatalf("only %d of %d places would show it", shown, len(asked))
	}
}

func TestPlainTextsAreStillShown(t *testing.T) {
	got := read(t, with("    env:\n        PROXY: http://registry.example.com/path/registry\n        N: \"4096\"\n    sysctls:\n        vm.swappiness: \"4096\"\n    nodeLabels:\n        example.com/registry: registry\n        example.com/rack: rack-0001\n"))
	said := mustJSON(t, got.Changes)
	for _, want := range []string{`example.com/rack`, `"rack-0001"`, `"4096"`} {
		if !strings.Contains(said, want) && !strings.Contains(said, strings.ReplaceAll(want, `"`, `\"`)) {
			t.Errorf("%s is hidden in %s", want, said)
		}
	}
}

func TestMoreThanCanBeRememberedHidesEveryText(t *testing.T) {
	k := &known{values: make(map[string]struct{})}
	for i := range maxKnown + 1 {
		k.add(fmt.Sprintf("value%d", i))
	}
	if !k.hides("anything") {
		t.Fatal("a text is shown although not all that is masked is known")
	}
	if len(k.values) > maxKnown {
		t.Fatalf("%d values are kept", len(k.values))
	}
}

// A rule reads whose a label is from what stands before the slash; a name with the look of
// a secret must not hide it.
func TestThePrefixOfAKeyStaysWhereItsNameIsMasked(t *testing.T) {
	d := testKeys(t)
	fp := func(s string) string { return d.Fingerprint([]byte(s)) }
	const dense = "aB3dE5fG7hI9jK1lM2nO"
	k := &known{values: map[string]struct{}{"pa55word": {}, "example.com/known": {}}}
	for key, want := range map[string]string{
		"node-restriction.kubernetes.io/" + dense:        "node-restriction.kubernetes.io/" + fp(dense),
		"example.com/zone":                               "example.com/zone",
		dense:                                            fp(dense),
		dense + "/a":                                     fp(dense) + "/a",
		dense + ".example.com/a":                         fp(dense+".example.com") + "/a",
		"q83vASNFZ4mrze8BI0V/iavN7wEjRWeJC4n":            fp("q83vASNFZ4mrze8BI0V") + "/" + fp("iavN7wEjRWeJC4n"),
		"x.q83vASNFZ4mrze8BI0V/iavN7wEjRWeJC4n":          fp("x.q83vASNFZ4mrze8BI0V") + "/" + fp("iavN7wEjRWeJC4n"),
		"example.com/pa55word":                           "example.com/" + fp("pa55word"),
		"pa55word.example.com/a":                         fp("pa55word.example.com") + "/a",
		"example.com/known":                              fp("example.com") + "/" + fp("known"),
		"kubernetes.io/a b":                              "kubernetes.io/" + fp("a b"),
		"kubernetes.io/x\u202e":                          "kubernetes.io/" + fp("x\u202e"),
		"kubernetes.io\u200b/x":                          fp("kubernetes.io\u200b") + "/x",
		"kubernetes.io/" + strings.Repeat("x", maxKey+1): "kubernetes.io/" + fp(strings.Repeat("x", maxKey+1)),
		"":  "",
		"/": "/",
	} {
		if got := (viewer{digester: d, known: k}).key(key); got != want {
			t.Errorf("%q is shown as %q, want %q", key, got, want)
		}
	}
}

func TestSettingsAreShownWhenTheyAreNumbersOrFixedWords(t *testing.T) {
	for value, want := range map[string]bool{
		"0": true, "-1": true, "4096 87380\t6291456": true, "9223372036854775807": true, "madvise": true, "true": true,
		"99999999999999999999": false, "1 2 3 4 5": false, "0x1f": false, "1e6": false, "+1": false, "": false, " ": false,
		"deadbeef-0": false, "static": false, "1;2": false, "12345678901234567890123456789012": false,
	} {
		if got := setting(value); got != want {
			t.Errorf("%q: %t", value, got)
		}
	}
	d := testKeys(t)
	got := read(t, with("    sysctls:\n        vm.swappiness: \"10\"\n        net.ipv4.tcp_fastopen_key: hunter2-a\n    sysfs:\n        kernel.mm.transparent_hugepage.enabled: madvise\n"))
	want := map[string]any{"vm.swappiness": "10", "net.ipv4.tcp_fastopen_key": d.Fingerprint([]byte("hunter2-a")), "kernel.mm.transparent_hugepage.enabled": "madvise"}
	for key, value := range want {
		if !has(got.Changes, key, value) {
			t.Errorf("%s is not shown as %v in %+v", key, value, got.Changes)
		}
	}
	asked := strings.Replace(string(oracle.Base()), "    kubelet:\n", "    kubelet:\n        extraArgs:\n            v: \"2\"\n            token: hunter2\n            max-pods: [\"1\"]\n", 1)
	got = read(t, []byte(asked))
	if !has(got.Changes, "extraArgs.v", "2") || !has(got.Changes, "extraArgs.token", d.Fingerprint([]byte("hunter2"))) || has(got.Changes, "max-pods", "1") {
		t.Errorf("kubelet flags: %+v", got.Changes)
	}
}

func has(changes []policy.ConfigChange, key string, after any) bool {
	for _, c := range changes {
		if strings.Contains(c.Path, key) && c.After == after {
			return true
		}
	}
	return false
}
