package gateway

import (
	"os"
	"path/filepath"
	"testing"

	"bronzeward/gateway/vault"
)

// sealer is the development sealer with a key of its own.
func sealer(t testing.TB) Sealer {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seal-keys-development.json")
	ok(t, os.WriteFile(path, []byte(`{"current":"k1","keys":{"k1":"`+"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="+`"}}`), 0o600))
	return must(vault.LoadDevelopment(path))(t)
}
