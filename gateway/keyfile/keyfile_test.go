package keyfile

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// canary stands for a key in every text that is refused.
const canary = "Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5LWNhbmFyeQ=="

func one(b byte) []byte { return bytes.Repeat([]byte{b}, MinKey) }

func encoded(b byte) string { return base64.StdEncoding.EncodeToString(one(b)) }

func write(t testing.TB, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadGivesTheKeysAndTheCurrentOne(t *testing.T) {
	path := write(t, "seal-development.json", fmt.Sprintf("{\"current\":\"k2\",\"keys\":{\"k1\":%q,\"k2\":%q}}\n", encoded(1), encoded(2)), 0o400)
	current, keys, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]byte{"k1": one(1), "k2": one(2)}, keys); current != "k2" || diff != "" {
		t.Errorf("current %s, keys (-want +got):\n%s", current, diff)
	}
}

func TestReadRefuses(t *testing.T) {
	good := fmt.Sprintf(`{"current":"k1","keys":{"k1":%q}}`, canary)
	for name, test := range map[string]struct {
		file, text string
		mode       os.FileMode
		want       string
	}{
		"a name that does not say development":    {"keys.json", good, 0o600, `does not contain "development"`},
		"readable by the group":                   {"development.json", good, 0o640, "chmod 600"},
		"readable by everybody":                   {"development.json", good, 0o604, "chmod 600"},
		"writable by the group":                   {"development.json", good, 0o620, "chmod 600"},
		"empty":                                   {"development.json", "", 0o600, "not a JSON object"},
		"not JSON":                                {"development.json", canary, 0o600, "not a JSON object"},
		"JSON of another shape":                   {"development.json", `["` + canary + `"]`, 0o600, "not a JSON object"},
		"a key that is a number":                  {"development.json", `{"current":"k1","keys":{"k1":1}}`, 0o600, "not a JSON object"},
		"an unknown field":                        {"development.json", `{"current":"k1","` + canary + `":{}}`, 0o600, "not a JSON object"},
		"two values":                              {"development.json", good + good, 0o600, "more than one"},
		"something behind":                        {"development.json", good + "}", 0o600, "more than one"},
		"no keys":                                 {"development.json", `{"current":"k1"}`, 0o600, "not among"},
		"a key in the place of a name":            {"development.json", strings.ReplaceAll(good, `"k1"`, `"`+canary+`"`), 0o600, "not k1"},
		"a key in the place of the current name":  {"development.json", strings.Replace(good, `"k1"`, `"`+canary+`"`, 1), 0o600, "not among"},
		"version k0":                              {"development.json", strings.ReplaceAll(good, `"k1"`, `"k0"`), 0o600, "not k1"},
		"version k01":                             {"development.json", strings.ReplaceAll(good, `"k1"`, `"k01"`), 0o600, "not k1"},
		"a version of ten digits":                 {"development.json", strings.ReplaceAll(good, `"k1"`, `"k1234567890"`), 0o600, "not k1"},
		"a version with a newline":                {"development.json", strings.ReplaceAll(good, `"k1"`, `"k1\n"`), 0o600, "not k1"},
		"a short key":                             {"development.json", `{"current":"k1","keys":{"k1":"Y2FuYXJ5"}}`, 0o600, "shorter than"},
		"not base64":                              {"development.json", `{"current":"k1","keys":{"k1":"canary!"}}`, 0o600, "not base64"},
		"too large":                               {"development.json", strings.Repeat(" ", MaxSize) + good, 0o600, "larger"},
		"two problems, the second of them":        {"development.json", `{"current":"k3","keys":{"k1":"Y2FuYXJ5","k2":"canary!"}}`, 0o600, "not base64"},
		"two problems, and that none is current ": {"development.json", `{"current":"k3","keys":{"k1":"Y2FuYXJ5","k2":"canary!"}}`, 0o600, "not among"},
	} {
		t.Run(name, func(t *testing.T) {
			_, keys, err := Read(write(t, test.file, test.text, test.mode))
			if err == nil || !strings.Contains(err.Error(), test.want) || keys != nil {
				t.Fatalf("got %v and %d keys, want %q", err, len(keys), test.want)
			}
			for _, secret := range []string{"canary", "Y2FuYXJ5"} {
				if strings.Contains(err.Error(), secret) {
					t.Fatalf("the error shows the key: %v", err)
				}
			}
		})
	}
}

func TestReadNamesThePathOnceAndTheCause(t *testing.T) {
	path := filepath.Join(t.TempDir(), "development.json")
	_, _, err := Read(path)
	if !errors.Is(err, fs.ErrNotExist) || strings.Count(err.Error(), path) != 1 {
		t.Errorf("got %v", err)
	}
	_, _, err = Read(filepath.Join(write(t, "development.json", "", 0o600), "development"))
	if err == nil {
		t.Error("a path through a file is read")
	}
	folder := filepath.Join(t.TempDir(), "development")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Read(filepath.Join(folder, "keys.json")); err == nil || !strings.Contains(err.Error(), `does not contain "development"`) {
		t.Errorf("a folder that says development for its files: %v", err)
	}
	if _, _, err := Read(folder); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(`{"current":"k1","keys":{"k1":%q}}`, canary)))
	f.Add([]byte(`{"current":"k2","keys":{"k1":"","k2":"AA=="}}`))
	f.Add([]byte(`{"keys":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		current, keys, err := parse(text)
		if err != nil {
			if keys != nil {
				t.Fatal("keys and an error")
			}
			return
		}
		if len(keys[current]) < MinKey {
			t.Fatalf("current key %q has %d bytes", current, len(keys[current]))
		}
		for version, key := range keys {
			if !versionShape.MatchString(version) || len(key) < MinKey {
				t.Fatalf("key %q of %d bytes", version, len(key))
			}
		}
	})
}
