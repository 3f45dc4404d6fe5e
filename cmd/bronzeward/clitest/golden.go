package clitest

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden texts anew") //nolint:gochecknoglobals // a flag of the tests

// Golden holds a run's output to testdata/NAME.txt: standard output, then standard error.
func Golden(t *testing.T, name string, got Ran) {
	t.Helper()
	text := got.Out
	if got.ErrOut != "" {
		text += "--- stderr\n" + got.ErrOut
	}
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
