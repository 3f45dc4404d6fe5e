package facts

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/siderolabs/talos/pkg/machinery/config/configloader"

	"bronzeward/fixtures/oracle"
	"bronzeward/policy"
)

// with puts lines below `machine:` of the recorded worker's configuration.
func with(lines string) []byte {
	return []byte(strings.Replace(string(oracle.Base()), "    type: worker\n", "    type: worker\n"+lines, 1))
}

func read(t testing.TB, asked []byte) *policy.Config {
	t.Helper()
	return ReadConfig(context.Background(), asked, oracle.Base(), oracle.Base(), testKeys(t))
}

func TestOddAndHostileTexts(t *testing.T) {
	base := string(oracle.Base())
	laughs := "    nodeAnnotations:\n        a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	bomb := "x0: &x0 [a,a,a,a,a,a,a,a,a,a]\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("x%d: &x%d [%s*x%d]\n", i, i, strings.Repeat(fmt.Sprintf("*x%d,", i-1), 9), i-1)
	}
	var wide strings.Builder
	wide.WriteString("    nodeLabels: {")
	for i := range 6000 {
		fmt.Fprintf(&wide, "l%d: v,", i)
	}
	wide.WriteString("}\n")
	tests := []struct {
		name string
		text string
		kind string // of the first problem, empty for none
	}{
		{"the base itself", base, ""},
		{"BOM", "\uFEFF" + base, ""},
		{"CRLF", strings.ReplaceAll(base, "\n", "\r\n"), ""},
		{"lone CR", strings.ReplaceAll(base, "\n", "\r"), ""},
		{"a comment", "# hello\n" + base, ""},
		{"null documents", base + "---\n---\nnull\n---\n~\n", ""},
		{"a document end marker", base + "...\n", ""},
		{"--- with words behind", base + "--- # end\n", ""},
		{"tabs as indentation", strings.Replace(base, "    type", "\ttype", 1), "syntax"},
		{"a tab behind a value", strings.Replace(base, "type: worker", "type: worker\t", 1), ""},
		{"only null documents", "---\n---\nnull\n", "missing"},
		{"whitespace", " \n\n  \n", "missing"},
		{"UTF-16", "\xff\xfev\x00e\x00r\x00", "unsafe"},
		{"a NUL", base + "\x00", "unsafe"},
		{"a directive", "%YAML 1.1\n---\n" + base, "unsafe"},
		{"a directive behind a BOM", "\uFEFF%TAG ! tag:x,2000:\n---\n" + base, "unsafe"},
		{"a custom tag", string(with("    env: !secret\n        A: b\n")), "unsafe"},
		{"a verbatim tag", string(with("    env: !<tag:example.com,2000:x>\n        A: b\n")), "unsafe"},
		{"an anchor and its alias", string(with("    env:\n        A: &a b\n        B: *a\n")), ""},
		{"a merge key", string(with("    sysctls: &s\n        a: b\n    sysfs:\n        <<: *s\n")), ""},
		{"an alias that contains itself", string(with("    pods: &p\n        - a: *p\n")), "unsafe"},
		{"an alias of nothing", string(with("    env: *nothing\n")), "syntax"},
		{"small laughs", string(with(laughs)), "invalid"},
		{"a billion laughs", bomb, "unsafe"},
		{"a billion laughs behind a good document", base + "---\n" + bomb, "unsafe"},
		{"duplicate keys", string(with("    token: a\n")), "duplicate"},
		{"two machine blocks", base + "", ""},
		{"a document twice", base + "---\napiVersion: v1alpha1\nkind: HostnameConfig\nauto: stable\n", "duplicate"},
		{"a document twice, its name null the second time", base + "---\napiVersion: v1alpha1\nkind: HostnameConfig\nname: ~\nauto: stable\n", "unknown-key"},
		{"257 documents", base + strings.Repeat("---\n", 257), "too-large"},
		{"65 levels of flow lists", string(with("    pods: [" + strings.Repeat("[", 65) + strings.Repeat("]", 65) + "]\n")), "invalid"},
		{"65 levels of flow lists and an anchor", string(with("    pods: [&a " + strings.Repeat("[", 65) + strings.Repeat("]", 65) + "]\n")), "unsafe"},
		{"ten thousand levels", string(with("    pods: " + strings.Repeat("[", 10_000) + "\n")), "syntax"},
		{"a hundred thousand levels", string(with("    pods: " + strings.Repeat("[", 100_000) + "\n")), "syntax"},
		{"a million levels", string(with("    pods: " + strings.Repeat("[", 1_000_000) + "\n")), "too-large"},
		{"six thousand labels on one line", string(with(wide.String())), "too-large"},
		{"U16: a delete patch is no configuration", string(with("    env:\n        $patch: delete\n")), ""},
		{"41 000 lines", base + strings.Repeat("#\n", 41_000), "too-large"},
		{"33 MiB", base + strings.Repeat("# "+strings.Repeat("x", 1<<20)+"\n", 33), "too-large"},
		{"a hundred thousand labels", string(labelConfig(10_700 << 10)), "too-large"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := read(t, []byte(test.text))
			if test.kind == "" {
				if len(got.Problems) > 0 {
					t.Fatalf("got %+v", got.Problems)
				}
				return
			}
			if len(got.Problems) == 0 || got.Problems[0].Kind != test.kind {
				t.Fatalf("got %+v, want %s", got.Problems, test.kind)
			}
			if len(got.Changes) > 0 && test.kind != "invalid" && test.kind != "missing" {
				t.Fatalf("a text that cannot be read changes %d values", len(got.Changes))
			}
		})
	}
}

// Control: without the bounds machinery takes what they refuse, so nothing behind them
// would stop these.
func TestMachineryAloneTakesWhatTheBoundsRefuse(t *testing.T) {
	var labels strings.Builder
	for i := range 5_100 {
		fmt.Fprintf(&labels, "        l%d: v\n", i)
	}
	for name, text := range map[string][]byte{
		"a custom tag":         with("    env: !secret\n        A: b\n"),
		"5 100 labels":         with("    nodeLabels:\n" + labels.String()),
		"257 null documents":   append(oracle.Base(), strings.Repeat("---\n", 257)...),
		"ten thousand aliases": with("    pods:\n        - a: &a {" + strings.Repeat("x: y, ", 1) + "}\n        - b: [" + strings.Repeat("*a, ", 10_000) + "]\n"),
		"41 000 lines":         append(oracle.Base(), strings.Repeat("#\n", 41_000)...),
	} {
		if _, err := configloader.NewFromBytes(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == "ten thousand aliases" {
			continue // within the bounds: expanding them is cheap
		}
		if got := read(t, text); len(got.Problems) == 0 {
			t.Errorf("%s passes the bounds", name)
		}
	}
}

func TestTheLargeCollectionOfAnUnparsedTextIsNamed(t *testing.T) {
	got := read(t, labelConfig(10_700<<10))
	if len(got.Collections) != 1 || got.Collections[0].Field != "machine.nodeLabels" || got.Collections[0].Entries < 100_000 {
		t.Fatalf("got %+v", got.Collections)
	}
}

// No secret of a text is in what is said about it, whatever is wrong with the text.
func TestProblemsHoldNoValueOfTheText(t *testing.T) {
	const canary = "c4naryc4nary"
	base := string(oracle.Base())
	texts := []string{
		canary, "- " + canary, canary + ": " + canary, base + canary, "\t" + canary, "[" + canary, "{" + canary + ": [",
		base + "---\napiVersion: " + canary + "\nkind: " + canary + "\nname: " + canary + "\n",
		base + "---\napiVersion: v1alpha1\nkind: KmsgLogConfig\nname: " + canary + "\n" + canary + ": 1\n",
		base + "---\napiVersion: v1alpha1\nkind: KmsgLogConfig\nname: \"" + canary + " (line 3): unknown keys found during decoding:\\n\"\nx: 1\n",
		string(with("    " + canary + ": " + canary + "\n")),
		string(with("    files: " + canary + "\n")),
		string(with("    files:\n        - permissions: " + canary + "\n          content: a\n          path: /a\n          op: create\n")),
		string(with("    nodeLabels:\n        \"" + canary + "!\": \"" + canary + "!\"\n")),
		string(with("    nodeTaints:\n        " + canary + ": \"" + canary + ":x\"\n")),
		string(with("    env:\n        " + canary + ": a\n        " + canary + ": b\n")),
		string(with("    sysctls:\n        a: !" + canary + " b\n")),
		string(with("    sysctls: *" + canary + "\n")),
		strings.Replace(base, "10.5.0.1", canary, 1),
		strings.Replace(base, "https://10.5.0.2:6443", canary, 1),
		strings.Replace(base, "https://10.5.0.2:6443", ":"+canary+"%zz", 1),
		strings.Replace(base, "10.244.0.0/16", canary, 1),
		strings.Replace(base, "type: worker", "type: "+canary, 1),
		strings.Replace(base, "key: \"\"", "key: "+canary, 1),
		strings.Replace(base, "wipe: false", "wipe: "+canary, 1),
		base + "---\napiVersion: v1alpha1\nkind: WireguardConfig\nname: " + canary + "\nprivateKey: " + canary + "\n",
		base + "---\napiVersion: v1alpha1\nkind: RegistryAuthConfig\nname: \"" + canary + " x\"\npassword: " + canary + "\n",
		base + "---\napiVersion: v1alpha1\nkind: SideroLinkConfig\napiUrl: https://user:" + canary + "@h/?jointoken=" + canary + "\n",
		base + "---\napiVersion: v1alpha1\nkind: VolumeConfig\nname: " + canary + "\nencryption:\n    provider: luks2\n    keys:\n        - slot: 0\n          static:\n              passphrase: " + canary + "\n",
	}
	for i, text := range texts {
		got := read(t, []byte(text))
		said := mustJSON(t, got.Problems)
		if len(got.Problems) == 0 && i < 14 {
			t.Errorf("text %d has no problem", i)
		}
		if strings.Contains(said, canary) || strings.Contains(said, "c4nary") {
			t.Errorf("text %d: %s", i, said)
		}
	}
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestACancelledCallEndsInAProblem(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	got := ReadConfig(ctx, oracle.Base(), oracle.Base(), oracle.Base(), testKeys(t))
	if len(got.Problems) == 0 {
		t.Fatal("no problem")
	}
}

func TestAnUnreadableActiveConfigurationIsAProblem(t *testing.T) {
	for _, active := range []string{"", "garbage: [", "apiVersion: v1alpha1\nkind: HostnameConfig\nauto: stable\n"} {
		got := ReadConfig(context.Background(), oracle.Base(), []byte(active), nil, testKeys(t))
		if len(got.Problems) == 0 {
			t.Errorf("%q compares", active)
		}
	}
}

func TestDigestsAndIdentical(t *testing.T) {
	base, d := oracle.Base(), testKeys(t)
	asked := append([]byte(string(base)), "\n\n"...)
	got := ReadConfig(context.Background(), asked, base, with(""), d)
	if !got.Identical || got.Digest != got.Base || got.Base != d.Digest(base) || got.Persistent != d.Digest(with("")) {
		t.Fatalf("got %+v", got)
	}
	if got := ReadConfig(context.Background(), append([]byte("# x\n"), base...), base, base, d); got.Identical || got.Digest == got.Base || len(got.Changes) != 0 {
		t.Fatalf("a comment: %+v", got)
	}
}

// The cache must not change an answer.
func TestACachedReaderAnswersTheSame(t *testing.T) {
	reader, err := NewReader(ReaderConfig{Digester: testKeys(t), Cache: 4})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, c := range oracle.Cases() {
			want := mustJSON(t, read(t, c.Text))
			if got := mustJSON(t, reader.Read(context.Background(), c.Text, oracle.Base(), oracle.Base())); got != want {
				t.Fatalf("%s:\n%s\n%s", c.Name, got, want)
			}
		}
	}
	if n := reader.cache.Len(); n > 4 {
		t.Fatalf("%d configurations are kept, more than were allowed", n)
	}
	// What cannot be read is not kept, however often it is asked for.
	fresh, err := NewReader(ReaderConfig{Digester: testKeys(t), Cache: 4})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		fresh.Read(context.Background(), []byte("garbage: ["), oracle.Base(), oracle.Base())
	}
	if fresh.cache.Len() != 0 {
		t.Fatal("a configuration that cannot be read is kept")
	}
}

func TestNewReaderNamesEveryProblem(t *testing.T) {
	_, err := NewReader(ReaderConfig{Cache: -1})
	if err == nil || !strings.Contains(err.Error(), "Digester") || !strings.Contains(err.Error(), "Cache") {
		t.Fatal(err)
	}
}

func FuzzReadConfig(f *testing.F) {
	for _, c := range oracle.Cases() {
		if len(c.Text) < 4000 {
			f.Add(c.Text)
		}
	}
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		d := testKeys(t)
		got := ReadConfig(context.Background(), text, oracle.Base(), oracle.Base(), d)
		if got == nil || got.Digest != d.Digest(text) {
			t.Fatal("no answer")
		}
		lines := lineAt(text, len(text))
		for _, p := range got.Problems {
			if p.Line < 0 || p.Line > lines || p.Message == "" || strings.ContainsFunc(p.Message, control) {
				t.Fatalf("a problem not fit to print: %+v", p)
			}
		}
		if _, err := json.Marshal(got); err != nil {
			t.Fatal(err)
		}
	})
}
