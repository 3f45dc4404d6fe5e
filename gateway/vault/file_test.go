package vault

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

func TestLoadDevelopment(t *testing.T) {
	first, err := LoadDevelopment(keyFile(t, "seal-keys-development.json", "k1", 0o600, "k1"))
	if err != nil {
		t.Fatal(err)
	}
	sealed := seal(t, first, []byte("text"), []byte("change"))
	// Another process, after a rotation.
	second, err := LoadDevelopment(keyFile(t, "seal-keys-development.json", "k12", 0o400, "k1", "k12"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := second.Open(t.Context(), sealed, []byte("change")); err != nil || !bytes.Equal(got, []byte("text")) {
		t.Fatalf("got %q, %v", got, err)
	}
	if got := seal(t, second, nil, nil)[headerSize-1]; got != 12 {
		t.Errorf("sealed under key %d", got)
	}
}

func TestLoadDevelopmentRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		file, current string
		mode          os.FileMode
		want          string
	}{
		"a name that does not say development": {"seal-keys.json", "k1", 0o600, `"development"`},
		"a file that others can read":          {"development.json", "k1", 0o644, "chmod 600"},
		"a current key that is not there":      {"development.json", "k2", 0o600, "not among"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := LoadDevelopment(keyFile(t, test.file, test.current, test.mode, "k1"))
			if d != nil || err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if !strings.HasPrefix(err.Error(), "reading sealing keys: ") {
				t.Errorf("it does not say which keys: %v", err)
			}
		})
	}
	if _, err := LoadDevelopment("/does/not/exist-development.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// Nothing a stranger writes into a row opens, and nothing he writes makes Open panic.
func FuzzOpen(f *testing.F) {
	d := sealer(f, "k1", "k2")
	f.Add([]byte{}, []byte{})
	f.Add([]byte{1}, []byte("change"))
	f.Add([]byte{1, 0, 0, 0, 1}, []byte{})
	f.Add(seal(f, d, []byte("text"), []byte("change")), []byte("another"))
	f.Add(append(header(2), make([]byte, overhead)...), []byte("change"))
	f.Add([]byte("vault:v1:abcdef"), []byte{})
	f.Fuzz(func(t *testing.T, sealed, associated []byte) {
		got, err := d.Open(t.Context(), sealed, associated)
		if err == nil || got != nil {
			t.Fatalf("%x opens", sealed)
		}
		if key, rest, bad := split(sealed); bad == nil && (len(rest) != len(sealed)-headerSize || !bytes.Equal(header(key), sealed[:headerSize])) {
			t.Fatalf("%x is taken apart wrongly", sealed)
		}
	})
}
