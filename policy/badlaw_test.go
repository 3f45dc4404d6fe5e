package policy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// live is whether a directory would become live, and what is said when it would not.
func wouldBeLive(t *testing.T, dir string) error {
	t.Helper()
	b, err := Load(os.DirFS(dir))
	if err != nil {
		return err
	}
	_, err = Trial(t.Context(), b)
	return err
}

// Whatever somebody lays into the directory of a law, it does not become live, and they are told what is
// wrong, where, and what to do. The control is the directory as it was laid down: it passes its trial in
// TestTheShippedLawIsCleanAndPassesItsTrial.
func TestABadLawNeverBecomesLive(t *testing.T) {
	const admission = "bronzeward/admission/second.rego"
	answer := func(decision string) map[string]string {
		return map[string]string{"bronzeward/admission/decision.rego": "package bronzeward.admission\n\n" + decision + "\n", "bronzeward/admission/decision_test.rego": "package bronzeward.admission_test\n"}
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"v0 Rego": {
			map[string]string{"bronzeward/rules/site/site.rego": "package bronzeward.rules.site\n\ndeny[msg] { msg := \"no\" }\n"},
			[]string{"bronzeward/rules/site/site.rego:3", "opa fmt --write --v0-v1"},
		},
		"v0 by its manifest":  {map[string]string{ManifestFile: `{"rego_version": 0}`}, []string{".manifest: it says Rego v0", "opa fmt --write --v0-v1"}},
		"roots outside ours":  {map[string]string{ManifestFile: `{"roots": ["bronzeward", "kubernetes"]}`}, []string{`.manifest: the root "kubernetes" is outside the law's: a law has the root "bronzeward", or names none`}},
		"rules outside roots": {map[string]string{ManifestFile: `{"roots": ["bronzeward"]}`, "site.rego": "package site\n"}, []string{"site.rego:1: package site is outside the roots that .manifest names (bronzeward)"}},
		"data outside roots":  {map[string]string{ManifestFile: `{"roots": ["bronzeward"]}`, "site/data.yaml": "a: 1\n"}, []string{"data at site/a is outside the roots"}},
		"no manifest":         {map[string]string{ManifestFile: `[]`}, []string{".manifest: it is not a manifest of OPA"}},
		"a counter of halves": {map[string]string{ManifestFile: `{"metadata": {"bronzeward": {"counter": 1.5}}}`}, []string{"metadata.bronzeward.counter is 1.5, and not a whole number"}},
		"two claim the entry": {map[string]string{admission: "package bronzeward.admission\n\ndecision := {\"allow\": true}\n"}, []string{"bronzeward/admission/second.rego:3: the entry point data.bronzeward.admission.decision is claimed by bronzeward/admission/decision.rego already: keep it in one file"}},
		"another entry point": {map[string]string{"bronzeward/rules/site/site.rego": "package bronzeward.rules.site\n\n# METADATA\n# entrypoint: true\ndecision := true\n"}, []string{"bronzeward/rules/site/site.rego:3: data.bronzeward.rules.site.decision claims to be an entry point"}},
		"the samples redefined": {map[string]string{
			"bronzeward/lib/sample_test.rego": "package bronzeward.lib.sample_test\n", "bronzeward/rules/approvals/approvals.rego": "package bronzeward.rules.approvals\n",
		}, []string{`sample "a change that is spent": the law allows what no law may`}},
		"a number": {answer("decision := 1"), []string{`sample "an ordinary apply"`, CodeMalformed}},
		"a string": {answer(`decision := "allow"`), []string{`sample "an ordinary apply"`, CodeMalformed}},
		"a set":    {answer(`decision := {"allow"}`), []string{`sample "an ordinary apply"`, CodeMalformed}},
		"nothing":  {answer("decision := {} if false"), []string{`sample "an ordinary apply"`, CodeUndefined}},
		"without end": {
			map[string]string{"bronzeward/rules/site/site.rego": "package bronzeward.rules.site\n\nimport data.bronzeward.lib.finding\n\n# METADATA\n# title: t\n# description: d\n# custom:\n#   code: BW-SITE-001\n#   hint: \"\"\ndeny contains finding.because(rego.metadata.rule(), \"no\") if count([1 | some a in numbers.range(1, 100000); some b in numbers.range(1, 100000); a == b + 1]) < 0\n"},
			[]string{CodeBudget, "decision over its budget of 500ms", "make the rule look at less"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS("bundle")); err != nil {
				t.Fatal(err)
			}
			for f, body := range c.files {
				if body == "" {
					continue
				}
				if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(f)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, f), []byte(body), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := wouldBeLive(t, dir)
			if err == nil {
				t.Fatal("it may become live")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
		})
	}
}

// 200 MB of data are refused by their size, before any of it is read: the files are sparse, and the
// archive says a size that it does not hold.
func TestALawOfManyMegabytesIsRefusedUnread(t *testing.T) {
	const size = 200 << 20
	dir := laidDown(t)
	write(t, dir, "bronzeward/site/data.json", "{}")
	if err := os.Truncate(filepath.Join(dir, "bronzeward/site/data.json"), size); err != nil {
		t.Fatal(err)
	}
	_, err := Load(os.DirFS(dir))
	wantBeyond(t, err)
	if err := os.Symlink(filepath.Join(dir, "bronzeward/site/data.json"), filepath.Join(dir, "data.json")); err != nil {
		t.Fatal(err)
	}
	_, err = Load(os.DirFS(dir))
	wantBeyond(t, err)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: "bronzeward/site/data.json", Typeflag: tar.TypeReg, Size: size, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Flush(), z.Close()); err == nil {
		t.Fatal("the archive holds what it says")
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = LoadArchive(&packed)
	wantBeyond(t, err)
}

func wantBeyond(t *testing.T, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "data.json: bundle is beyond its limits (1000 files, 1048576 bytes each, 8388608 bytes in all): keep large data out of the law") {
		t.Errorf("got %v", err)
	}
}
