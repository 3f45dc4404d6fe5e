package facts

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bronzeward/fixtures/oracle"
)

func key(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

// The node reads back what was sent, trailing newlines aside; the recorded hashes are
// over exactly one.
func TestPlainDigestIsTheRecordedOne(t *testing.T) {
	d, err := NewPlain(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range oracle.Cases() {
		if got, want := d.Digest(c.Text), "sha256:"+c.Real.SentSHA256; got != want {
			t.Errorf("%s: %s, recorded %s", c.Name, got, want)
		}
	}
}

func TestTrailingNewlinesDoNotCount(t *testing.T) {
	ring := testKeys(t)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.Byte()).Draw(t, "text")
		more := bytes.Repeat([]byte{'\n'}, rapid.IntRange(0, 5).Draw(t, "newlines"))
		trimmed := bytes.TrimRight(text, "\n")
		longer := append(bytes.Clone(trimmed), more...)
		if ring.Digest(text) != ring.Digest(longer) || !SameText(text, longer) {
			t.Fatalf("%q and %q differ", text, longer)
		}
		if want := append(bytes.Clone(trimmed), '\n'); !bytes.Equal(Normal(longer), want) {
			t.Fatalf("normal form %q, want %q", Normal(longer), want)
		}
		other := append(bytes.Clone(trimmed), 'x')
		if ring.Digest(text) == ring.Digest(other) || SameText(text, other) {
			t.Fatalf("%q and %q are the same", text, other)
		}
	})
}

func TestNormalDoesNotWriteIntoItsArgument(t *testing.T) {
	whole := []byte("abc\n\n\nrest")
	if got := Normal(whole[:6]); string(got) != "abc\n" || string(whole) != "abc\n\n\nrest" {
		t.Fatalf("got %q, left %q", got, whole)
	}
	bare := []byte("abcX")
	if got := Normal(bare[:3]); string(got) != "abc\n" || string(bare) != "abcX" {
		t.Fatalf("got %q, left %q", got, bare)
	}
}

func TestSameComparesOnlyWithinSchemeAndVersion(t *testing.T) {
	both, err := NewKeyRing("k2", map[string][]byte{"k1": key(1), "k2": key(2)})
	if err != nil {
		t.Fatal(err)
	}
	first, err := NewKeyRing("k1", map[string][]byte{"k1": key(1)})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := NewPlain(key(3))
	if err != nil {
		t.Fatal(err)
	}
	text := []byte("version: v1alpha1\n")
	tests := []struct {
		name   string
		d      Digester
		digest string
		same   bool
		scheme bool
	}{
		{"its own", both, both.Digest(text), true, false},
		{"an older version in the ring", both, first.Digest(text), true, false},
		{"another text", both, both.Digest([]byte("x")), false, false},
		{"a version that is not in the ring", first, both.Digest(text), false, true},
		{"another scheme", both, plain.Digest(text), false, true},
		{"the other way round", plain, both.Digest(text), false, true},
		{"plain, its own", plain, plain.Digest(text), true, false},
		{"nothing", both, "", false, true},
		{"no scheme", both, strings.Repeat("0", 64), false, true},
		{"no version", both, "hmac-sha256:" + strings.Repeat("0", 64), false, true},
		{"version k0", both, "hmac-sha256:k0:" + strings.Repeat("0", 64), false, true},
		{"a short sum", both, "hmac-sha256:k1:00", false, true},
		{"upper-case hex", both, strings.ToUpper(both.Digest(text)), false, true},
		{"something behind", both, both.Digest(text) + " ", false, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			same, err := test.d.Same(text, test.digest)
			var scheme *SchemeError
			if same != test.same || errors.As(err, &scheme) != test.scheme || (err != nil) != test.scheme {
				t.Fatalf("got %t, %v", same, err)
			}
		})
	}
	if got, err := both.DigestUnder("k1", text); err != nil || got != first.Digest(text) {
		t.Fatalf("under k1: %s, %v", got, err)
	}
}

func TestFingerprintsAreKeyedShortAndApartFromDigests(t *testing.T) {
	a, b := testKeys(t), must(NewKeyRing("k1", map[string][]byte{"k1": key(9)}))
	value := []byte("hunter2\n")
	if a.Fingerprint(value) == b.Fingerprint(value) {
		t.Error("two keys give one fingerprint")
	}
	if a.Fingerprint(value) == a.Fingerprint([]byte("hunter2")) {
		t.Error("two values have one fingerprint")
	}
	if got := a.Fingerprint(value); len(got) != len("fp:")+20 || !strings.HasPrefix(got, "fp:") {
		t.Errorf("got %s", got)
	}
	if strings.Contains(a.Digest(value), strings.TrimPrefix(a.Fingerprint(value), "fp:")) {
		t.Error("the fingerprint is the beginning of the digest")
	}
	one, two := must(NewPlain(nil)), must(NewPlain(nil))
	if one.Fingerprint(value) == two.Fingerprint(value) {
		t.Error("fingerprints of the plain scheme can be guessed")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestPrintingARingShowsNoKey(t *testing.T) {
	ring := must(NewKeyRing("k1", map[string][]byte{"k1": []byte("canary-canary-canary-canary-canary")}))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(verb, ring); got != "key ring k1, current k1" {
			t.Errorf("%s prints %s", verb, got)
		}
	}
}

func TestLoadDevelopmentKeys(t *testing.T) {
	good := fmt.Sprintf(`{"current":"k1","keys":{"k1":"%s"}}`, base64.StdEncoding.EncodeToString(key(7)))
	const canary = "c2VjcmV0LWNhbmFyeQ=="
	tests := []struct {
		name, file, text string
		mode             os.FileMode
		want             string
	}{
		{"good", "development-keys.json", good, 0o600, ""},
		{"a name that does not say development", "keys.json", good, 0o600, "development"},
		{"readable by others", "development.json", good, 0o644, "chmod 600"},
		{"not JSON", "development.json", canary, 0o600, "not a JSON object"},
		{"an unknown field", "development.json", `{"current":"k1","kexs":{}}`, 0o600, "not a JSON object"},
		{"two values", "development.json", good + good, 0o600, "more than one"},
		{"a short key", "development.json", `{"current":"k1","keys":{"k1":"` + canary + `"}}`, 0o600, "shorter than"},
		{"not base64", "development.json", `{"current":"k1","keys":{"k1":"secret-canary"}}`, 0o600, "not base64"},
		{"a current key that is not there", "development.json", strings.Replace(good, `"current":"k1"`, `"current":"k2"`, 1), 0o600, "not among"},
		{"a name that is no version", "development.json", strings.Replace(good, `{"k1":`, `{"main":`, 1), 0o600, "not k1"},
		{"too large", "development.json", strings.Repeat(" ", maxKeyFile) + good, 0o600, "larger"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), test.file)
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, test.mode); err != nil {
				t.Fatal(err)
			}
			ring, err := LoadDevelopmentKeys(path)
			if test.want == "" {
				if err != nil || ring.Digest(nil) == "" {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), canary) {
				t.Fatalf("the error shows the key: %v", err)
			}
		})
	}
}
