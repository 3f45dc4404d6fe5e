package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// "as NAME" gives a command somebody's credential, and lets none write into the home of whoever
// tries the demo.
func TestAsTakesNoLogin(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"olga.crt":   "",
		"bronzeward": "#!/bin/sh\necho \"asked $BRONZEWARD_SERVER by $BRONZEWARD_KEY: $*\"\n",
		"as":         asScript(dir, dir, "https://gate.test", "config.yaml"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct {
		args []string
		want string
		runs bool
	}{
		{[]string{"olga", "bronzeward", "whoami"}, "asked https://gate.test by " + dir + "/olga.key: whoami", true},
		{[]string{"olga", "bronzeward", "changes", "list"}, "changes list", true},
		{[]string{"olga", "bronzeward", "login"}, "home olga bronzeward login", false},
		{[]string{"olga", "bronzeward", "login", "--device"}, "home olga bronzeward login", false},
		{[]string{"olga", filepath.Join(dir, "bronzeward"), "logout"}, "home olga bronzeward logout", false},
		{[]string{"nemo", "bronzeward", "whoami"}, "nobody here is called nemo", false},
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "as"), row.args...)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if (err == nil) != row.runs || !strings.Contains(string(out), row.want) || strings.Contains(string(out), "asked") != row.runs {
			t.Errorf("as %s: %v\n%s", strings.Join(row.args, " "), err, out)
		}
	}
}
