package people

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
)

func TestLogoutRemovesWhatLoginWroteAndNothingElse(t *testing.T) {
	w := newLoginWorld(t)
	home := "# mine\ncontext: home\ncontexts:\n    home: # do not touch\n        crt: aG9tZQ==\n"
	writeFile(t, w.talosconfig, home)
	second := filepath.Join(t.TempDir(), "second")
	client := writeFile(t, filepath.Join(w.config, "bronzeward", "client.yaml"), "# where\nserver: "+w.URL+"\n")
	for _, args := range [][]string{{}, {"--talosconfig", second, "--context", "two"}} {
		if got := w.login(t, "olga", args...); got.Code != cli.ExitOK {
			t.Fatalf("code %d\n%s", got.Code, got.ErrOut)
		}
	}
	got := runProgram(t, "logout")
	for _, want := range []string{
		"logged out at " + w.URL, "removed context lab from " + w.talosconfig, "removed context two from " + second,
		"removed the credential from " + client, "a copy of a credential, if there is one, is good until ",
	} {
		if got.Code != cli.ExitOK || !strings.Contains(got.Out, want) {
			t.Errorf("code %d, no %q in\n%s%s", got.Code, want, got.Out, got.ErrOut)
		}
	}
	if text := readFile(t, w.talosconfig); text != home {
		t.Errorf("the talosconfig is\n%s", text)
	}
	if text := readFile(t, second); strings.Contains(text, "two") || !strings.Contains(text, `context: ""`) {
		t.Errorf("the second talosconfig is\n%s", text)
	}
	if text := readFile(t, client); text != "# where\nserver: "+w.URL+"\nserver_ca: "+w.CA+"\n" {
		t.Errorf("the client file is\n%s", text)
	}
	if left, err := filepath.Glob(filepath.Join(w.state, "bronzeward", "logins", "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if got := runProgram(t, "logout"); got.Code != cli.ExitOK || !strings.Contains(got.Out, "nobody is logged in") {
		t.Errorf("again: code %d\n%s", got.Code, got.Out)
	}
}

func TestLogoutLeavesAContextThatBecameSomebodyElses(t *testing.T) {
	w := newLoginWorld(t)
	if got := w.login(t, "olga"); got.Code != cli.ExitOK {
		t.Fatal(got.ErrOut)
	}
	admin := writeFile(t, w.talosconfig, "context: lab\ncontexts:\n    lab:\n        crt: YWRtaW4=\n")
	got := runProgram(t, "logout", "-o", "json")
	var views []logoutView
	if err := json.Unmarshal([]byte(got.Out), &views); err != nil || got.Code != cli.ExitOK || len(views) != 1 || views[0].Server != w.URL || len(views[0].Removed) != 2 {
		t.Errorf("code %d, %v\n%s", got.Code, err, got.Out)
	}
	if !strings.Contains(readFile(t, admin), "YWRtaW4=") {
		t.Error("somebody else's context is gone")
	}
}

func TestLogoutThatFailsRemovesTheKeyAndIsTriedAgain(t *testing.T) {
	w := newLoginWorld(t)
	if got := w.login(t, "olga"); got.Code != cli.ExitOK {
		t.Fatal(got.ErrOut)
	}
	good := readFile(t, w.talosconfig)
	writeFile(t, w.talosconfig, ": [")
	folder, err := loginFolderOf(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	if got := runProgram(t, "logout"); got.Code == cli.ExitOK || !strings.Contains(got.ErrOut, "not all was removed: "+w.talosconfig) {
		t.Errorf("code %d\n%s", got.Code, got.ErrOut)
	}
	if _, err := os.Stat(folder.identity()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the key is left: %v", err)
	}
	writeFile(t, w.talosconfig, good)
	if got := runProgram(t, "logout"); got.Code != cli.ExitOK || strings.Contains(readFile(t, w.talosconfig), "lab") {
		t.Errorf("again: code %d\n%s", got.Code, got.ErrOut)
	}
}

func TestLogoutAtOneOfTwo(t *testing.T) {
	one := newLoginWorld(t)
	if got := one.login(t, "olga"); got.Code != cli.ExitOK {
		t.Fatal(got.ErrOut)
	}
	other := clitest.NewStub(t) // sets the environment to itself
	t.Setenv("BRONZEWARD_CERTIFICATE", "")
	t.Setenv("BRONZEWARD_KEY", "")
	other.On("GET /login", one.offer)
	other.On("POST /certificates", one.issue)
	// The certificate's request is read where the first gateway keeps what it saw.
	other.Config.Handler = one.Config.Handler
	client := filepath.Join(one.config, "bronzeward", "client.yaml")
	got := one.login(t, "olga", "--context", "two")
	if got.Code != cli.ExitOK || !strings.Contains(got.ErrOut, client+" stays with the gateway "+one.URL) || !strings.Contains(got.Out, "the current one stays lab") {
		t.Fatalf("code %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	if got := one.login(t, "olga", "--context", "two", "--set-current"); got.Code != cli.ExitOK || !strings.Contains(readFile(t, client), "server: "+other.URL) || one.talosconfigOf(t).Context != "two" {
		t.Errorf("code %d\n%s\n%s", got.Code, got.ErrOut, readFile(t, client))
	}
	t.Setenv("BRONZEWARD_SERVER", "")
	if got := runProgram(t, "logout"); got.Code != cli.ExitOK || !strings.Contains(got.Out, "logged out at "+other.URL) || one.talosconfigOf(t).Contexts["lab"] == nil {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	if got := runProgram(t, "logout", "--all"); got.Code != cli.ExitOK || !strings.Contains(got.Out, "logged out at "+one.URL) || len(one.talosconfigOf(t).Contexts) != 0 {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
}

func TestACredentialThatNoLoginWroteStays(t *testing.T) {
	w := newLoginWorld(t)
	text := "server: " + w.URL + " # here\ncertificate: me.crt\nkey: me.key\n"
	client := writeFile(t, filepath.Join(w.config, "bronzeward", "client.yaml"), text)
	if got := w.login(t, "olga"); got.Code != cli.ExitOK || !strings.Contains(got.ErrOut, "stays with its credential, "+filepath.Join(filepath.Dir(client), "me.crt")) || readFile(t, client) != text {
		t.Errorf("code %d\n%s\n%s", got.Code, got.ErrOut, readFile(t, client))
	}
	if got := w.login(t, "olga", "--set-current"); got.Code != cli.ExitOK || strings.Contains(readFile(t, client), "me.crt") || !strings.HasPrefix(readFile(t, client), "server: "+w.URL+" # here\n") {
		t.Errorf("code %d\n%s\n%s", got.Code, got.ErrOut, readFile(t, client))
	}
	t.Setenv("BRONZEWARD_TOKEN_FILE", client)
	if got := w.login(t, "olga"); got.Code != cli.ExitOK || !strings.Contains(got.ErrOut, "warning: BRONZEWARD_TOKEN_FILE is set, and comes before") {
		t.Errorf("code %d\n%s", got.Code, got.ErrOut)
	}
}

// An earlier credential may outlive the one there is, and a copy of it then does.
func TestLogoutNamesTheLatestEnd(t *testing.T) {
	w := newLoginWorld(t)
	if got := w.login(t, "olga", "--lifetime", "20h"); got.Code != cli.ExitOK {
		t.Fatal(got.ErrOut)
	}
	folder, err := loginFolderOf(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	certificate := folder.readRecord().Until
	f := newFalseIssuer(t, w)
	token := writeFile(t, filepath.Join(t.TempDir(), "token"), f.mint())
	if got := runProgram(t, "login", "--jwt", token); got.Code != cli.ExitOK {
		t.Fatal(got.ErrOut)
	}
	got := runProgram(t, "logout")
	if want := "is good until " + cli.Stamp(&certificate) + " at the latest\n"; got.Code != cli.ExitOK || time.Until(certificate) < 19*time.Hour || !strings.Contains(got.Out, want) {
		t.Errorf("code %d, no %q in\n%s", got.Code, want, got.Out)
	}
}
