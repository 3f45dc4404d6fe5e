package policytest

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"go.yaml.in/yaml/v4"

	"bronzeward/policy"
)

//go:embed case.schema.json
var caseSchema []byte

//go:embed cases
var shipped embed.FS

// CaseSchema is the JSON schema of a case file.
func CaseSchema() []byte { return bytes.Clone(caseSchema) }

// Shipped are the case files that come with Bronzeward.
func Shipped() (fs.FS, error) { return fs.Sub(shipped, "cases") }

// File is one case file.
type File struct {
	// Name is the file's path; it is not written in the file.
	Name string `json:"-"`
	// Data is laid over the bundle's data at data.bronzeward, for all cases of the file.
	Data map[string]any `json:"data,omitempty"`
	// Base are the facts all cases begin with.
	Base  map[string]any `json:"base"`
	Cases []Case         `json:"cases"`
}

// Case is one call and what must become of it.
type Case struct {
	// Name is a claim: "an unpinned machine is refused".
	Name string `json:"name"`
	// Facts are laid over the base: maps key by key, everything else replaced.
	Facts map[string]any `json:"facts"`
	Want  Want           `json:"want"`
	// Line is where it stands in its file; it is not written there.
	Line int `json:"-"`
}

// Want is what a case asks of the decision. Whatever is left out is not asked.
type Want struct {
	// Verdict is "allow" or "deny".
	Verdict string `json:"verdict"`
	// Codes are all codes of the reasons that refuse, in any order. Left out for an
	// allow it means none.
	Codes []string `json:"codes,omitempty"`
	// Warnings are all codes that warn.
	Warnings []string `json:"warnings,omitempty"`
	Roles    []string `json:"roles,omitempty"`
	// Required is the count of approvals the law asks for.
	Required *int `json:"required,omitempty"`
	// Redact is whether secrets are hidden from the caller.
	Redact *bool `json:"redact,omitempty"`
	// Says is a piece of the first reason's message.
	Says string `json:"says,omitempty"`
	// Hint is a piece of the first reason's hint.
	Hint string `json:"hint,omitempty"`
	// Entry is wanted of the book's entry, member by member; see Entry.
	Entry map[string]any `json:"entry,omitempty"`
}

// Read reads every *.yaml and *.yml of a directory tree as case files, strictly.
func Read(fsys fs.FS) ([]File, error) {
	var (
		out  []File
		errs []error
	)
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ext := path.Ext(p); d.IsDir() || ext != ".yaml" && ext != ".yml" {
			return nil
		}
		text, err := fs.ReadFile(fsys, p)
		if err != nil {
			return err
		}
		f, err := Decode(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p, err))
			return nil
		}
		f.Name = p
		out = append(out, f)
		return nil
	})
	if err != nil {
		errs = append(errs, fmt.Errorf("reading cases: %w", err))
	}
	return out, errors.Join(errs...)
}

// Decode reads one case file, strictly.
func Decode(text []byte) (File, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc map[string]any
	if err := dec.Decode(&doc); err != nil {
		return File{}, err
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return File{}, errors.New("a case file is one YAML document")
	}
	asJSON, err := json.Marshal(doc)
	if err != nil {
		return File{}, err
	}
	strict := json.NewDecoder(bytes.NewReader(asJSON))
	strict.DisallowUnknownFields()
	var f File
	if err := strict.Decode(&f); err != nil {
		return File{}, err
	}
	var errs []error
	seen := map[string]bool{}
	for i, c := range f.Cases {
		if c.Name == "" || seen[c.Name] {
			errs = append(errs, fmt.Errorf("case %d: name %q is empty or there twice", i+1, c.Name))
		}
		seen[c.Name] = true
		if c.Want.Verdict != "allow" && c.Want.Verdict != "deny" {
			errs = append(errs, fmt.Errorf("case %q: verdict must be allow or deny", c.Name))
		}
		if c.Want.Verdict == "deny" && len(c.Want.Codes) == 0 {
			errs = append(errs, fmt.Errorf("case %q: a deny names its codes", c.Name))
		}
	}
	if len(f.Cases) == 0 {
		errs = append(errs, errors.New("file has no cases"))
	}
	setLines(text, &f)
	return f, errors.Join(errs...)
}

// setLines tells each case where it stands.
func setLines(text []byte, f *File) {
	var doc struct {
		Cases []yaml.Node `yaml:"cases"`
	}
	if yaml.Unmarshal(text, &doc) != nil || len(doc.Cases) != len(f.Cases) {
		return
	}
	for i := range f.Cases {
		f.Cases[i].Line = doc.Cases[i].Line
	}
}

// Facts are a case's facts over the file's base.
func (f File) Facts(c Case) (*policy.Facts, error) {
	text, err := json.Marshal(lay(f.Base, c.Facts))
	if err != nil {
		return nil, err
	}
	return policy.DecodeFacts(text)
}

// Law is a bundle with the file's data laid over its own.
func (f File) Law(b *policy.Bundle) (*policy.Bundle, error) {
	if f.Data == nil {
		return b, nil
	}
	text, err := json.Marshal(f.Data)
	if err != nil {
		return nil, err
	}
	return policy.OverlayFiles(b, policy.File{Path: "bronzeward/data.json", Body: text})
}

// lay lays one map over another without touching either.
func lay(under, over map[string]any) map[string]any {
	out := make(map[string]any, len(under)+len(over))
	for k, v := range under {
		out[k] = v
	}
	for k, v := range over {
		a, aok := out[k].(map[string]any)
		b, bok := v.(map[string]any)
		if aok && bok {
			out[k] = lay(a, b)
			continue
		}
		out[k] = v
	}
	return out
}

func title(f File, c Case) string {
	return strings.TrimSuffix(f.Name, path.Ext(f.Name)) + ": " + c.Name
}
