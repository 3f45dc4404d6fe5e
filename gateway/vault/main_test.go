package vault

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bronzeward/fixtures/openbao/baotest"
)

func TestMain(m *testing.M) { os.Exit(baotest.Main(m)) }

func secret(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

// sealer has the keys named, the first of them current.
func sealer(t testing.TB, versions ...string) *Development {
	t.Helper()
	keys := map[string][]byte{}
	for _, version := range versions {
		keys[version] = secret(version[1])
	}
	d, err := newDevelopment(versions[0], keys)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// keyFile writes a file of keys and gives its path.
func keyFile(t testing.TB, name, current string, mode os.FileMode, versions ...string) string {
	t.Helper()
	var keys []string
	for _, version := range versions {
		keys = append(keys, fmt.Sprintf("%q: %q", version, base64.StdEncoding.EncodeToString(secret(version[1]))))
	}
	path := filepath.Join(t.TempDir(), name)
	text := fmt.Sprintf(`{"current": %q, "keys": {%s}}`, current, strings.Join(keys, ", "))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func seal(t testing.TB, d *Development, plaintext, associated []byte) []byte {
	t.Helper()
	sealed, err := d.Seal(t.Context(), plaintext, associated)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// wantClass checks that err is an *Error of that class and of no other.
func wantClass(t testing.TB, err, class error) {
	t.Helper()
	var typed *Error
	if !errors.As(err, &typed) {
		t.Fatalf("got %v, want an *Error", err)
	}
	for _, c := range []error{ErrUnavailable, ErrRefused, ErrAltered} {
		if errors.Is(err, c) != (c == class) {
			t.Fatalf("got %v, want %v", err, class)
		}
	}
}
