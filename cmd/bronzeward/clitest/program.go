// Package clitest is what the tests of commands need: a stub of a gateway, and runs of a program whose
// output is kept. Nothing but tests imports it.
package clitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bronzeward/cmd/bronzeward/cli"
)

// Main runs the tests of a package, and ends the process. It keeps the machine's own settings
// out: its zone, and whoever runs the tests.
func Main(m goleak.TestingM) {
	time.Local = time.UTC
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "BRONZEWARD_") {
			_ = os.Unsetenv(name)
		}
	}
	nowhere, err := os.MkdirTemp("", "bronzeward-test-")
	if err == nil {
		err = errors.Join(os.Setenv("XDG_CONFIG_HOME", nowhere), os.Setenv("XDG_STATE_HOME", filepath.Join(nowhere, "state")),
			os.Setenv("TALOS_HOME", filepath.Join(nowhere, "talos")), os.Unsetenv("TALOSCONFIG"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(nowhere)
		os.Exit(code)
	}))
}

// Ran is what one run of the program left.
type Ran struct {
	Code        int
	Out, ErrOut string
}

// Run runs a program at a console; its output is kept. Pauses are as good as none.
func Run(ctx context.Context, program func(context.Context, []string, cli.Console) int, at cli.Console, args ...string) Ran {
	var out, errOut bytes.Buffer
	at.Out, at.ErrOut, at.Pause = &out, &errOut, time.Millisecond
	if at.In == nil {
		at.In = strings.NewReader("")
	}
	code := program(ctx, args, at)
	return Ran{code, out.String(), errOut.String()}
}

// GoodConfig writes a configuration that is fine and the files it names, and gives its
// lines for tests to spoil.
func GoodConfig(t *testing.T) (folder, text string) {
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

// WriteConfig puts a configuration beside the files it names.
func WriteConfig(t *testing.T, folder, text string) string {
	t.Helper()
	path := filepath.Join(folder, "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
