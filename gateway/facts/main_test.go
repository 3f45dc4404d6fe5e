package facts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// moduleDir is where the module cache keeps a module's source.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatalf("finding the module cache: %v", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), filepath.FromSlash(module))
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("the source of %s is missing; bring it with: go mod download %s", module, module)
	}
	return dir
}

const (
	talosModule     = "github.com/siderolabs/talos@v1.13.6"
	machineryModule = "github.com/siderolabs/talos/pkg/machinery@v1.13.6"
)

func testKeys(t testing.TB) *KeyRing {
	t.Helper()
	ring, err := NewKeyRing("k1", map[string][]byte{"k1": []byte("0123456789abcdef0123456789abcdef")})
	if err != nil {
		t.Fatal(err)
	}
	return ring
}
