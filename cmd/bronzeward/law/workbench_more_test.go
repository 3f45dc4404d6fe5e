package law

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"bronzeward/cmd/bronzeward/cli"
)

func itoa(n int) string { return strconv.Itoa(n) }

// The page in docs/ is what the command prints of the shipped law.
func TestThePageOfRulesIsCurrent(t *testing.T) {
	page, err := os.ReadFile("../../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	if r := (&world{}).run(t, "docs"); r.err != nil || r.out != string(page) {
		t.Errorf("docs/rules.md is not what `bronzeward policy docs` prints: make generate (%v)", r.err)
	}
	dir := initiated(t)
	edit(t, dir, "bronzeward/data.yaml", "BW-CONFIG-036: shadow", "BW-CONFIG-036: warn")
	if r := (&world{}).run(t, "docs", dir); r.err != nil || !strings.Contains(r.out, "| `BW-CONFIG-036` | warn |") {
		t.Errorf("a step of the directory's own is not shown: %v", r.err)
	}
}

func TestBenchMeasuresEachCall(t *testing.T) {
	if r := (&world{}).run(t, "bench", "--times=2"); r.err != nil || !strings.Contains(r.out, "an ordinary apply, early") {
		t.Errorf("%+v", r)
	}
	if r := (&world{}).run(t, "bench", "--times=0"); r.err == nil {
		t.Error("no times are taken")
	}
}

// regal puts a program in Regal's place that prints a report and ends with a code.
func regal(t *testing.T, report string, code int) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "report"), []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "regal")
	script := "#!/bin/sh\necho \"$@\" >" + dir + "/args\ncat " + dir + "/report\nexit " + itoa(code) + "\n"
	if err := os.WriteFile(name, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestRegalsFindingsStandBesideOurs(t *testing.T) {
	dir := initiated(t)
	report := `{"violations":[{"title":"todo-comment","description":"Avoid TODO comments","category":"style",
		"related_resources":[{"ref":"https://example.com/todo"}],"location":{"file":"` + dir + `/bronzeward/rules/mode/mode.rego","row":3,"col":1}}]}`
	program := regal(t, report, 3)
	r := (&world{}).run(t, "check", "--regal", program, dir)
	if !errors.Is(r.err, cli.ErrChanged) || !strings.Contains(r.out, "bronzeward/rules/mode/mode.rego:3   regal: Avoid TODO comments   https://example.com/todo") {
		t.Errorf("%+v", r)
	}
	args, err := os.ReadFile(filepath.Join(filepath.Dir(program), "args"))
	if err != nil || !strings.Contains(string(args), "--config-file "+filepath.Join(dir, ".regal", "config.yaml")) {
		t.Errorf("%v: regal was called with %s", err, args)
	}
	if r := (&world{}).run(t, "check", "--regal", regal(t, `{"violations":[]}`, 0), dir); r.err != nil {
		t.Errorf("nothing found: %+v", r)
	}
	// A linter that broke is no clean bill.
	for _, broken := range []string{regal(t, "panic", 1), regal(t, `{"violations":[]}`, 1), filepath.Join(dir, "nosuch")} {
		if r := (&world{}).run(t, "check", "--regal", broken, dir); r.err == nil || errors.Is(r.err, cli.ErrChanged) {
			t.Errorf("%s: %+v", broken, r)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if r := (&world{}).run(t, "check", dir); r.err != nil || !strings.Contains(r.errOut, "regal is not on PATH") {
		t.Errorf("without regal: %+v", r)
	}
}

// The tests run again after an editor puts a new file in the old one's place, and Ctrl-C ends it.
func TestWatchRunsAgain(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.rego")
	if err := os.WriteFile(file, []byte("package a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	later := filepath.Join(dir, "rules", "site", "site.rego")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ran := make(chan []byte, 16)
	ended := make(chan error, 1)
	go func() {
		ended <- watch(ctx, dir, func() {
			text, _ := os.ReadFile(file)
			more, _ := os.ReadFile(later)
			ran <- append(text, more...)
		})
	}()
	<-ran
	for i, want := range []string{"package b\n", "package c\n"} {
		fresh := filepath.Join(t.TempDir(), "fresh")
		if err := os.WriteFile(fresh, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(fresh, file); err != nil {
			t.Fatal(err)
		}
		for text := range ran { // until the test's own deadline
			if bytes.Equal(text, []byte(want)) {
				break
			}
			t.Logf("change %d: still %q", i, text)
		}
	}
	// A folder that is new is watched too.
	if err := os.MkdirAll(filepath.Dir(later), 0o755); err != nil {
		t.Fatal(err)
	}
	<-ran
	if err := os.WriteFile(later, []byte("package site\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text := range ran {
		if bytes.HasSuffix(text, []byte("package site\n")) {
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
