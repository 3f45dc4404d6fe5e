package policy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"testing"
)

// packed is an archive of these members, in their order; a body of zeros where none is given.
func packed(t *testing.T, members ...tar.Header) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, h := range members {
		h.Typeflag, h.Mode = tar.TypeReg, 0o644
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(w, zeros{}, h.Size); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []io.Closer{w, z} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return &out
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A few packed bytes do not keep a gateway unpacking, and one name is one file. The control is an archive with a file
// beside the law that is not taken.
func TestAnArchiveUnpacksToNoMoreThanALawMayHave(t *testing.T) {
	beside := func(n int) (out []tar.Header) {
		for i := range n {
			out = append(out, tar.Header{Name: fmt.Sprintf("beside-%d.bin", i), Size: MaxBundleBytes})
		}
		return out
	}
	for name, c := range map[string]struct {
		members []tar.Header
		says    string
	}{
		"a bomb":                {beside(9), "the archive has more than"},
		"two manifests":         {[]tar.Header{{Name: ManifestFile, Size: 1}, {Name: ManifestFile, Size: 1}}, ".manifest is there twice"},
		"control: a large file": {beside(1), ""},
	} {
		_, err := LoadArchive(packed(t, c.members...))
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Aliases that stand for more than is written are refused before they are followed, and so are numbers no law counts with.
// The control is what people write.
func TestDataStandForNoMuchMoreThanIsWritten(t *testing.T) {
	list := func(of string, n int) string { return "[" + strings.TrimSuffix(strings.Repeat(of+",", n), ",") + "]\n" }
	for name, c := range map[string]struct{ file, body, says string }{
		"many of many":        {"data.yaml", "a: &a " + list("x", 100) + "b: &b " + list("*a", 100) + "c: " + list("*b", 30), "the aliases of the data"},
		"many of a long one":  {"data.yml", "a: &a " + strings.Repeat("x", 10000) + "\nb: " + list("*a", 50), "the aliases of the data"},
		"itself":              {"data.yaml", "a: &a [*a]\n", "the aliases of the data"},
		"a number of digits":  {"data.json", `{"a": 1e99999999}`, "too large"},
		"control: an alias":   {"data.yaml", "a: &a [1, 2]\nb: *a\nc: {<<: {d: 1}}\ne: 'x*y'\n", ""},
		"control: a number":   {"data.json", `{"a": 1e300}`, ""},
		"control: not a YAML": {"data.yaml", "a: [*\n", "data.yaml"},
	} {
		_, err := Load(files(map[string]string{c.file: c.body}))
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
