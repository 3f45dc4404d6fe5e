package policy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bronzeward/policytest/lawsign"
)

// laidDown is the shipped law as policy init lays it down, with a counter.
func laidDown(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("bundle")); err != nil {
		t.Fatal(err)
	}
	if err := lawsign.Number(dir, 7); err != nil {
		t.Fatal(err)
	}
	return dir
}

func signer(t *testing.T) lawsign.Key {
	t.Helper()
	k, err := lawsign.New()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func pinned(k lawsign.Key) Key { return Key{Algorithm: lawsign.Algorithm, PEM: k.Public} }

func write(t *testing.T, dir, name, body string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
}

func loaded(t *testing.T, dir string) *Bundle {
	t.Helper()
	b, err := Load(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What opa sign makes of a plain directory is verified by the pinned key, from the directory and from
// an archive of it, and the revision is that of the unsigned law.
func TestASignedDirectoryIsVerified(t *testing.T) {
	dir, key := laidDown(t), signer(t)
	before := loaded(t, dir).Revision()
	if err := key.Sign(dir); err != nil {
		t.Fatal(err)
	}
	keys := Keys{"2025": pinned(signer(t)), "2026": pinned(key)}
	b := loaded(t, dir)
	got, err := keys.Verify(b, b.Proof())
	if err != nil || got != (Signed{KeyID: "2026", Counter: 7}) || b.Revision() != before {
		t.Errorf("%+v, %v; revision %s, unsigned %s", got, err, b.Revision(), before)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	b, err = LoadArchive(&packed)
	if err != nil || b.Revision() != before {
		t.Fatalf("the archive: %v", err)
	}
	if got, err = keys.Verify(b, b.Proof()); err != nil || got.KeyID != "2026" {
		t.Errorf("the archive: %+v, %v", got, err)
	}
}

// Each way in which a law is not the signed one is told with the file or key that it is about. The
// control is the law as it was signed, in the test above, and here what is no part of the law.
func TestWhatIsNotAsItWasSignedIsRefused(t *testing.T) {
	key := signer(t)
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		keys  Keys
		want  string // empty: it is verified
	}{
		"a file changed": {func(t *testing.T, dir string) {
			write(t, dir, "bronzeward/rules/mode/mode.rego", "package bronzeward.rules.mode\n")
		}, nil, "bronzeward/rules/mode/mode.rego is not as it was signed"},
		"data changed": {func(t *testing.T, dir string) {
			write(t, dir, "bronzeward/data.yaml", "quorum: {required: 0}\n")
		}, nil, "bronzeward/data.yaml is not as it was signed"},
		"data that two readers of YAML read otherwise": {func(t *testing.T, dir string) {
			name := filepath.Join(dir, "bronzeward/api/data.yaml")
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir, "bronzeward/api/data.yaml", strings.ReplaceAll(string(raw), "human: true", "human: yes"))
		}, nil, "bronzeward/api/data.yaml is not as it was signed"},
		"a file added": {func(t *testing.T, dir string) {
			write(t, dir, "bronzeward/rules/site/site.rego", "package bronzeward.rules.site\n")
		}, nil, "bronzeward/rules/site/site.rego is not signed: it came after the signature"},
		"a file missing": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "bronzeward/rules/mode/mode_test.rego")); err != nil {
				t.Fatal(err)
			}
		}, nil, "bronzeward/rules/mode/mode_test.rego was signed and is missing"},
		"the counter raised": {func(t *testing.T, dir string) {
			if err := lawsign.Number(dir, 8); err != nil {
				t.Fatal(err)
			}
		}, nil, ".manifest is not as it was signed"},
		"no manifest": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, ManifestFile)); err != nil {
				t.Fatal(err)
			}
		}, nil, "the law has no .manifest that is signed"},
		"no counter": {func(t *testing.T, dir string) {
			write(t, dir, ManifestFile, `{"roots": ["bronzeward"]}`)
			if err := key.Sign(dir); err != nil {
				t.Fatal(err)
			}
		}, nil, ".manifest says no counter"},
		"not signed": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, SignaturesFile)); err != nil {
				t.Fatal(err)
			}
		}, nil, "is not signed: it has no .signatures.json"},
		"another key":              {func(*testing.T, string) {}, Keys{"2025": pinned(signer(t))}, "was made by none of the keys in policy.keys (2025)"},
		"no signature at all":      {func(t *testing.T, dir string) { write(t, dir, SignaturesFile, "{}") }, nil, "is not what opa sign writes"},
		"an algorithm of nobody's": {func(*testing.T, string) {}, Keys{"2026": {Algorithm: "RS256", PEM: key.Public}}, "was made by none of the keys"},
		"what is no part of it":    {func(t *testing.T, dir string) { write(t, dir, "README.md", "other words") }, nil, ""},
		"a comment in the data": {func(t *testing.T, dir string) {
			raw, err := os.ReadFile(filepath.Join(dir, "bronzeward/data.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir, "bronzeward/data.yaml", "# other words\n"+string(raw))
		}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := laidDown(t)
			if err := key.Sign(dir); err != nil {
				t.Fatal(err)
			}
			c.spoil(t, dir)
			keys := c.keys
			if keys == nil {
				keys = Keys{"2026": pinned(key)}
			}
			b := loaded(t, dir)
			_, err := keys.Verify(b, b.Proof())
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var why *SignatureError
			if !errors.As(err, &why) || !strings.Contains(why.Message, c.want) || why.Hint == "" {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestOnlyAPublicKeyIsPinned(t *testing.T) {
	key := signer(t)
	for _, c := range []struct {
		key  Key
		want string
	}{
		{pinned(key), ""},
		{Key{Algorithm: "HS256", PEM: "a shared secret"}, `algorithm "HS256"`},
		{Key{Algorithm: "none", PEM: key.Public}, `algorithm "none"`},
		{Key{Algorithm: "RS256", PEM: key.Public}, "not one for RS256"},
		{Key{Algorithm: "ES256", PEM: key.Private}, "holds a private key"},
		{Key{Algorithm: "ES256", PEM: "x"}, "holds no key in PEM"},
	} {
		if err := c.key.Check(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
