package policy

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestABundleIsTheSameRevisionHoweverItIsRead(t *testing.T) {
	b, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Open(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Revision()) != 64 || again.Revision() != b.Revision() || !bytes.Equal(again.Bytes(), b.Bytes()) {
		t.Errorf("revisions %s and %s", b.Revision(), again.Revision())
	}
	if diff := cmp.Diff(b.Files(), again.Files()); diff != "" {
		t.Error(diff)
	}
}

func TestOneByteMakesAnotherRevision(t *testing.T) {
	a, err := Load(files(map[string]string{"a.rego": "package a\n"}))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Load(files(map[string]string{"a.rego": "package a\n\n"}))
	if err != nil {
		t.Fatal(err)
	}
	if a.Revision() == b.Revision() {
		t.Error("two laws have one revision")
	}
}

func TestOnlyRulesDataAndSchemasBelongToABundle(t *testing.T) {
	b, err := Load(files(map[string]string{
		"a.rego": "package a\n", "README.md": "x", ".hidden/b.rego": "package b\n", ".c.rego": "package c\n",
		"x/data.yaml": "k: 1\n", "x/other.yaml": "k: 1\n", "schema/facts/schema.json": "{}",
	}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range b.Files() {
		got = append(got, f.Path)
	}
	if diff := cmp.Diff([]string{"a.rego", "schema/facts/schema.json", "x/data.yaml"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsWrongIsSaidWithItsPlace(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"v0 Rego", map[string]string{"a.rego": "package a\n\nallow { input.x }\n"}, []string{"a.rego:3:", "`if` keyword"}},
		{"every file", map[string]string{"a.rego": "package a\n\nx := \n", "b.rego": "nonsense\n"}, []string{"a.rego:", "b.rego:1:"}},
		{"a JSON key twice", map[string]string{"data.json": "{\"a\": 1,\n\"a\": 2}"}, []string{"data.json", "line 2", `"a" is there twice`}},
		{"a YAML key twice", map[string]string{"data.yaml": "a: 1\na: 2\n"}, []string{"data.yaml", "already defined"}},
		{"two files for one key", map[string]string{"a/data.json": `{"b": 1}`, "a/data.yaml": "b: 2\n"}, []string{`key "b" is given by another`}},
		{"data that is a list", map[string]string{"data.yaml": "[1]\n"}, []string{"must be a map"}},
		{"two YAML documents", map[string]string{"data.yaml": "a: 1\n---\nb: 1\n"}, []string{"one YAML document"}},
		{"deep data", map[string]string{"data.json": strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70)}, []string{"nested deeper"}},
		{"a file too large", map[string]string{"data.json": strings.Repeat(" ", MaxFileBytes+1)}, []string{"beyond its limits"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(files(c.files))
			if err == nil {
				t.Fatal("it loads")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q lacks %q", err, w)
				}
			}
		})
	}
}

func TestRulesAndDataMayNotShareAPlace(t *testing.T) {
	b, err := Load(files(map[string]string{"a.rego": "package a\n\nx := 1\n", "a/data.yaml": "x: 2\n"}))
	if err != nil {
		t.Fatal(err)
	}
	if err := New(EngineConfig{}).Use(context.Background(), b); err == nil || !strings.Contains(err.Error(), "conflict") {
		t.Errorf("error = %v", err)
	}
}

func TestAnArchiveThatIsNotCanonicalIsRefused(t *testing.T) {
	archive := func(entries ...tar.Header) []byte {
		var buf bytes.Buffer
		w := tar.NewWriter(&buf)
		for _, h := range entries {
			body := []byte("package a\n")
			if h.Typeflag == 0 {
				h.Typeflag, h.Size = tar.TypeReg, int64(len(body))
			}
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if h.Size > 0 {
				if _, err := w.Write(body); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	good, err := Load(files(map[string]string{"a.rego": "package a\n"}))
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"nothing":            nil,
		"noise":              []byte(strings.Repeat("x", 2048)),
		"trailing bytes":     append(good.Bytes(), 0),
		"cut short":          good.Bytes()[:700],
		"another mode":       archive(tar.Header{Name: "a.rego", Mode: 0o600}),
		"an absolute path":   archive(tar.Header{Name: "/a.rego", Mode: 0o644}),
		"a path that climbs": archive(tar.Header{Name: "../a.rego", Mode: 0o644}),
		"a path not clean":   archive(tar.Header{Name: "x/../a.rego", Mode: 0o644}),
		"a file twice":       archive(tar.Header{Name: "a.rego", Mode: 0o644}, tar.Header{Name: "a.rego", Mode: 0o644}),
		"a link":             archive(tar.Header{Name: "a.rego", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}),
		"a stranger":         archive(tar.Header{Name: "a.sh", Mode: 0o644}),
	} {
		if got, err := Open(b); err == nil {
			t.Errorf("%s opens as %s", name, got.Revision())
		}
	}
	if _, err := Open(good.Bytes()); err != nil {
		t.Errorf("the canonical archive does not open: %v", err)
	}
	if _, err := Open(archive(tar.Header{Name: "a.rego", Mode: 0o600})); !errors.Is(err, ErrNotCanonical) {
		t.Errorf("error = %v, want ErrNotCanonical", err)
	}
}

func TestAnOverlayMergesDataAndReplacesRules(t *testing.T) {
	under, err := Load(files(map[string]string{"a/data.yaml": "m: {x: 1, y: [1, 2]}\n", "a.rego": "package a\n"}))
	if err != nil {
		t.Fatal(err)
	}
	over, err := Overlay(under, files(map[string]string{"a/data.json": `{"m": {"y": [3]}}`, "a.rego": "package b\n"}))
	if err != nil {
		t.Fatal(err)
	}
	if len(over.Files()) != 2 || over.Revision() == under.Revision() {
		t.Fatalf("files = %v", over.Files())
	}
	if got := string(over.Files()[1].Body); !strings.Contains(strings.Join(strings.Fields(got), ""), `"m":{"x":1,"y":[3]}`) {
		t.Errorf("data = %s", got)
	}
	if _, err := Open(over.Bytes()); err != nil {
		t.Error(err)
	}
}

type brokenFS struct{}

func (brokenFS) Open(string) (fs.File, error) { return nil, errors.New("disk is gone") }

func TestADirectoryThatCannotBeReadIsAnError(t *testing.T) {
	if _, err := Load(brokenFS{}); err == nil {
		t.Error("it loads")
	}
}

func TestShippedKindsAndFieldsAreThere(t *testing.T) {
	kinds, err := ShippedKinds()
	if err != nil {
		t.Fatal(err)
	}
	fields, err := ShippedFields()
	if err != nil {
		t.Fatal(err)
	}
	if len(kinds) < 45 || len(fields) < 60 {
		t.Errorf("%d kinds, %d fields", len(kinds), len(fields))
	}
}

func FuzzOpen(f *testing.F) {
	b, err := Load(files(map[string]string{"a.rego": "package a\n", "data.yaml": "a: 1\n"}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, archive []byte) {
		got, err := Open(archive)
		if err == nil && !bytes.Equal(got.Bytes(), archive) {
			t.Fatal("an archive opens that is not the canonical one")
		}
	})
}

func FuzzData(f *testing.F) {
	f.Add("a: 1\n", "{}")
	f.Add("a: &x [*x]\n", `{"a":[1,{"b":null}]}`)
	f.Fuzz(func(_ *testing.T, y, j string) {
		_, _ = decodeData("data.yaml", []byte(y))
		_, _ = decodeData("data.json", []byte(j))
	})
}
