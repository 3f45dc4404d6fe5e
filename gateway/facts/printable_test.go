package facts

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"bronzeward/fixtures/oracle"
)

// unseen are characters that hide in a text or turn what is read.
func unseen() map[string]string {
	return map[string]string{
		"a C1 control": "\u0085", "another C1 control": "\u009b", "a turn of the direction": "\u202e", "an isolate": "\u2066",
		"no width": "\u200b", "a joiner": "\u200d", "a byte order mark": "\ufeff", "a line separator": "\u2028", "a hard space": "\u00a0",
		"a soft hyphen": "\u00ad", "a tag": "\U000e0041", "a variation selector": "\ufe0f", "a filler": "\u3164", "private use": "\ue000", "DEL": "\x7f",
	}
}

func raw(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !visibleRune(r) }) >= 0
}

func TestCharactersNobodySeesAreNotShown(t *testing.T) {
	for name, c := range unseen() {
		t.Run(name, func(t *testing.T) {
			if visibleRune([]rune(c)[0]) {
				t.Fatal("it counts as visible")
			}
			word := "safe" + c + "word"
			q := strconv.QuoteToASCII(word)
			for place, asked := range map[string][]byte{
				"a label value":     with("    nodeLabels:\n        a: " + q + "\n"),
				"a label":           with("    nodeLabels:\n        " + q + ": a\n"),
				"a hostname":        hostname(q),
				"a document's name": []byte(string(oracle.Base()) + "---\napiVersion: v1alpha1\nkind: KmsgLogConfig\nname: " + q + "\nurl: tcp://10.0.0.9:5000/\n"),
				"an image":          with("    seccompProfiles:\n        - name: " + q + "\n          value: {a: b}\n"),
			} {
				if said := mustJSON(t, read(t, asked)); strings.Contains(said, c) || raw(said) {
					t.Errorf("Facts show it in %s: %q", place, said)
				}
				r := NewRedactor(testKeys(t), asked, oracle.Base())
				for _, text := range []string{dryRunHead + r.clear, "error with " + word, "this config change can't be applied\ndiff:\n--- a\n+++ b\n"} {
					if got := r.Text(text); raw(got) {
						t.Errorf("the answer shows it in %s: %q", place, got)
					}
				}
				if got, err := RedactConfig(asked, testKeys(t)); err == nil && raw(got) {
					t.Errorf("the redacted configuration shows it in %s", place)
				}
			}
		})
	}
}

func TestVisibleText(t *testing.T) {
	for in, want := range map[string]string{
		"plain\n\ttext é 日本 😀": "plain\n\ttext é 日本 😀",
		"a\u202eb":             `a\u202eb`,
		"a\U000e0041b":         `a\U000e0041b`,
		"a\x00\x1b[31mb\r":     `a\u0000\u001b[31mb\u000d`,
		"a\xffb":               "a\uFFFDb",
		"a\xff\u200b":          "a\uFFFD" + `\u200b`,
	} {
		if got := visibleText(in); got != want || !utf8.ValidString(got) {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}

// A secret that is broken with characters nobody sees is still one.
func TestASecretBrokenWithUnseenCharactersIsNotShown(t *testing.T) {
	for name, c := range unseen() {
		r := NewRedactor(testKeys(t), with("    env:\n        A: s3cret-canary\n"), oracle.Base())
		if got := r.Text("error: s3cr" + c + "et-can" + c + "ary"); got != hiddenText {
			t.Errorf("%s: %q", name, got)
		}
	}
}
