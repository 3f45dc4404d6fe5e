package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ran is what one run of the program left.
type ran struct {
	code        int
	out, errOut string
}

// runProgram runs the whole program with these arguments.
func runProgram(t *testing.T, args ...string) ran {
	t.Helper()
	var out, errOut bytes.Buffer
	code := run(t.Context(), args, &out, &errOut)
	return ran{code, out.String(), errOut.String()}
}

// goodConfig writes a configuration that is fine and the files it names, and gives its
// lines for tests to spoil.
func goodConfig(t *testing.T) (folder, text string) {
	t.Helper()
	folder = t.TempDir()
	for _, name := range []string{"server.crt", "server.key", "people.crt", "talos.crt", "talos.key", "talos-ca.crt", "keys-development.json"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder, `instance: g1
listen: 127.0.0.1:50000
http_listen: 127.0.0.1:9443
tls: {certificate: server.crt, key: server.key}
database: {url: "postgres://gateway@localhost/bronzeward", auditor_url: "host=localhost user=auditor dbname=bronzeward"}
identity: {certificate_authorities: [people.crt]}
talos: {certificate: talos.crt, key: talos.key, ca: talos-ca.crt}
digest: {keys_file: keys-development.json}
`
}

// writeConfig puts a configuration beside the files it names.
func writeConfig(t *testing.T, folder, text string) string {
	t.Helper()
	path := filepath.Join(folder, "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
