package law

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/clitest"
)

func TestACommandThatActsTakesWhatALoginWrote(t *testing.T) {
	s := clitest.NewStub(t)
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	for _, name := range []string{"BRONZEWARD_CERTIFICATE", "BRONZEWARD_KEY", "BRONZEWARD_TOKEN"} {
		t.Setenv(name, "")
	}
	if _, err := requestOf(ask.CredentialFlags{}); err == nil || !strings.Contains(err.Error(), "bronzeward login") {
		t.Errorf("nobody: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(home, "bronzeward"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := "certificate: " + s.Certificate + "\nkey: " + s.Key + "\n"
	if err := os.WriteFile(filepath.Join(home, "bronzeward", "client.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := requestOf(ask.CredentialFlags{})
	if err != nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		t.Fatalf("the client file's: %v", err)
	}
	// One that is named is taken whole: two people's are never shown together.
	t.Setenv("BRONZEWARD_TOKEN", "a.b.c")
	if r, err = requestOf(ask.CredentialFlags{}); err != nil || r.TLS != nil || len(r.Authorization) != 1 {
		t.Errorf("the environment's: %v, %v", r.TLS != nil, err)
	}
}
