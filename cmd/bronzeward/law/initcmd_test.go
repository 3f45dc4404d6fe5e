package law

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bronzeward/cmd/bronzeward/cli"
)

// What init lays down of another law is that law to the byte, with the case files and all else beside it.
func TestInitBeginsWithTheLawThatIsLive(t *testing.T) {
	w := newWorld(t)
	b := oldLaw(t)
	w.save(t, b)
	for _, from := range []string{"live", b.Revision()[:8]} {
		dir := filepath.Join(t.TempDir(), "law")
		r := w.run(t, "init", "--from", from, dir)
		if r.err != nil || !strings.Contains(r.out, "revision "+b.Revision()[:12]) {
			t.Fatalf("%s: %+v", from, r)
		}
		if r := w.run(t, "diff", "live", dir); r.err != nil {
			t.Errorf("%s: %+v", from, r)
		}
		for _, file := range []string{"README.md", ".regal/config.yaml", "cases/apply/apply.yaml", "cases/schema/schema.json", "bronzeward/rules/site/site.rego"} {
			if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
				t.Errorf("%s: %v", from, err)
			}
		}
	}

	// The control: without --from it is another law.
	dir := filepath.Join(t.TempDir(), "law")
	if r := w.run(t, "init", dir); r.err != nil || strings.Contains(r.out, "among them") {
		t.Fatalf("%+v", r)
	}
	if r := w.run(t, "diff", "--brief", "live", dir); !errors.Is(r.err, cli.ErrChanged) {
		t.Errorf("the shipped law is taken for the live one: %+v", r)
	}
	if r := w.run(t, "init", "--from", "nowhere", filepath.Join(t.TempDir(), "law")); r.err == nil || !strings.Contains(r.err.Error(), "no directory, and no revision") {
		t.Errorf("%+v", r)
	}
}

// A file that the live law does not have, and the shipped one does, is not laid down.
func TestInitLaysDownNothingOfTheShippedLawBesideAnother(t *testing.T) {
	dir := initiated(t)
	if err := os.RemoveAll(filepath.Join(dir, "bronzeward/rules/windows")); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "law")
	if r := (&world{}).run(t, "init", "--from", dir, to); r.err != nil {
		t.Fatalf("%+v", r)
	}
	if _, err := os.Stat(filepath.Join(to, "bronzeward/rules/windows")); !os.IsNotExist(err) {
		t.Errorf("the shipped windows are there: %v", err)
	}
}
