package main

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
)

func TestLogoutRemovesWhatLoginWroteAndNothingElse(t *testing.T) {
	w := newLoginWorld(t)
	home := "# mine\ncontext: home\ncontexts:\n    home: # do not touch\n        crt: aG9tZQ==\n"
	writeFile(t, w.talosconfig, home)
	second := filepath.Join(t.TempDir(), "second")
	client := writeFile(t, filepath.Join(w.config, "bronzeward", "client.yaml"), "# where\nserver: "+w.URL+"\n")
	for _, args := range [][]string{{}, {"--talosconfig", second, "--context", "two"}} {
		if got := w.login(t, "olga", args...); got.code != cli.ExitOK {
			t.Fatalf("code %d\n%s", got.code, got.errOut)
		}
	}
	got := runProgram(t, "logout")
	for _, want := range []string{
		"logged out at " + w.URL, "removed context lab from " + w.talosconfig, "removed context two from " + second,
		"removed the credential from " + client, "a copy of a credential, if there is one, is good until ",
	} {
		if got.code != cli.ExitOK || !strings.Contains(got.out, want) {
			t.Errorf("code %d, no %q in\n%s%s", got.code, want, got.out, got.errOut)
		}
	}
	if text := readFile(t, w.talosconfig); text != home {
		t.Errorf("the talosconfig is\n%s", text)
	}
	if text := readFile(t, second); strings.Contains(text, "two") || !strings.Contains(text, `context: ""`) {
		t.Errorf("the second talosconfig is\n%s", text)
	}
	if text := readFile(t, client); text != "# where\nserver: "+w.URL+"\nserver_ca: "+w.ca+"\n" {
		t.Errorf("the client file is\n%s", text)
	}
	if left, err := filepath.Glob(filepath.Join(w.state, "bronzeward", "logins", "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if got := runProgram(t, "logout"); got.code != cli.ExitOK || !strings.Contains(got.out, "nobody is logged in") {
		t.Errorf("again: code %d\n%s", got.code, got.out)
	}
}

func TestLogoutLeavesAContextThatBecameSomebodyElses(t *testing.T) {
	w := newLoginWorld(t)
	if got := w.login(t, "olga"); got.code != cli.ExitOK {
		t.Fatal(got.errOut)
	}
	admin := writeFile(t, w.talosconfig, "context: lab\ncontexts:\n    lab:\n        crt: YWRtaW4=\n")
	got := runProgram(t, "logout", "-o", "json")
	var views []logoutView
	if err := json.Unmarshal([]byte(got.out), &views); err != nil || got.code != cli.ExitOK || len(views) != 1 || views[0].Server != w.URL || len(views[0].Removed) != 2 {
		t.Errorf("code %d, %v\n%s", got.code, err, got.out)
	}
	if !strings.Contains(readFile(t, admin), "YWRtaW4=") {
		t.Error("somebody else's context is gone")
	}
}

func TestLogoutThatFailsRemovesTheKeyAndIsTriedAgain(t *testing.T) {
	w := newLoginWorld(t)
	if got := w.login(t, "olga"); got.code != cli.ExitOK {
		t.Fatal(got.errOut)
	}
	good := readFile(t, w.talosconfig)
	writeFile(t, w.talosconfig, ": [")
	folder, err := loginFolderOf(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	if got := runProgram(t, "logout"); got.code == cli.ExitOK || !strings.Contains(got.errOut, "not all was removed: "+w.talosconfig) {
		t.Errorf("code %d\n%s", got.code, got.errOut)
	}
	if _, err := os.Stat(folder.identity()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the key is left: %v", err)
	}
	writeFile(t, w.talosconfig, good)
	if got := runProgram(t, "logout"); got.code != cli.ExitOK || strings.Contains(readFile(t, w.talosconfig), "lab") {
		t.Errorf("again: code %d\n%s", got.code, got.errOut)
	}
}

func TestLogoutAtOneOfTwo(t *testing.T) {
	one := newLoginWorld(t)
	if got := one.login(t, "olga"); got.code != cli.ExitOK {
		t.Fatal(got.errOut)
	}
	other := newStub(t) // sets the environment to itself
	t.Setenv("BRONZEWARD_CERTIFICATE", "")
	t.Setenv("BRONZEWARD_KEY", "")
	other.on("GET /login", one.offer)
	other.on("POST /certificates", one.issue)
	// The certificate's request is read where the first gateway keeps what it saw.
	other.Config.Handler = one.Config.Handler
	client := filepath.Join(one.config, "bronzeward", "client.yaml")
	got := one.login(t, "olga", "--context", "two")
	if got.code != cli.ExitOK || !strings.Contains(got.errOut, client+" stays with the gateway "+one.URL) || !strings.Contains(got.out, "the current one stays lab") {
		t.Fatalf("code %d\n%s%s", got.code, got.out, got.errOut)
	}
	if got := one.login(t, "olga", "--context", "two", "--set-current"); got.code != cli.ExitOK || !strings.Contains(readFile(t, client), "server: "+other.URL) || one.talosconfigOf(t).Context != "two" {
		t.Errorf("code %d\n%s\n%s", got.code, got.errOut, readFile(t, client))
	}
	t.Setenv("BRONZEWARD_SERVER", "")
	if got := runProgram(t, "logout"); got.code != cli.ExitOK || !strings.Contains(got.out, "logged out at "+other.URL) || one.talosconfigOf(t).Contexts["lab"] == nil {
		t.Errorf("code %d\n%s%s", got.code, got.out, got.errOut)
	}
	if got := runProgram(t, "logout", "--all"); got.code != cli.ExitOK || !strings.Contains(got.out, "logged out at "+one.URL) || len(one.talosconfigOf(t).Contexts) != 0 {
		t.Errorf("code %d\n%s%s", got.code, got.out, got.errOut)
	}
}

func TestACredentialThatNoLoginWroteStays(t *testing.T) {
	w := newLoginWorld(t)
	text := "server: " + w.URL + " # here\ncertificate: me.crt\nkey: me.key\n"
	client := writeFile(t, filepath.Join(w.config, "bronzeward", "client.yaml"), text)
	if got := w.login(t, "olga"); got.code != cli.ExitOK || !strings.Contains(got.errOut, "stays with its credential, "+filepath.Join(filepath.Dir(client), "me.crt")) || readFile(t, client) != text {
		t.Errorf("code %d\n%s\n%s", got.code, got.errOut, readFile(t, client))
	}
	if got := w.login(t, "olga", "--set-current"); got.code != cli.ExitOK || strings.Contains(readFile(t, client), "me.crt") || !strings.HasPrefix(readFile(t, client), "server: "+w.URL+" # here\n") {
		t.Errorf("code %d\n%s\n%s", got.code, got.errOut, readFile(t, client))
	}
	t.Setenv("BRONZEWARD_TOKEN_FILE", client)
	if got := w.login(t, "olga"); got.code != cli.ExitOK || !strings.Contains(got.errOut, "warning: BRONZEWARD_TOKEN_FILE is set, and comes before") {
		t.Errorf("code %d\n%s", got.code, got.errOut)
	}
}

// An earlier credential may outlive the one there is, and a copy of it then does.
func TestLogoutNamesTheLatestEnd(t *testing.T) {
	w := newLoginWorld(t)
	if got := w.login(t, "olga", "--lifetime", "20h"); got.code != cli.ExitOK {
		t.Fatal(got.errOut)
	}
	folder, err := loginFolderOf(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	certificate := folder.readRecord().Until
	f := newFalseIssuer(t, w)
	token := writeFile(t, filepath.Join(t.TempDir(), "token"), f.mint())
	if got := runProgram(t, "login", "--jwt", token); got.code != cli.ExitOK {
		t.Fatal(got.errOut)
	}
	got := runProgram(t, "logout")
	if want := "is good until " + cli.Stamp(&certificate) + " at the latest\n"; got.code != cli.ExitOK || time.Until(certificate) < 19*time.Hour || !strings.Contains(got.out, want) {
		t.Errorf("code %d, no %q in\n%s", got.code, want, got.out)
	}
}
