package policy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Fault is one thing wrong with a bundle, at its place.
type Fault struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Message string `json:"message"`
	// Hint says what to do about it.
	Hint string `json:"hint,omitempty"`
}

func (f Fault) String() string {
	if f.File == "" {
		return f.Message
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Message)
}

// Check says everything that is wrong with a directory of rules and data: what keeps it
// from being read or compiled, rules without METADATA or with a code that another rule
// has, windows and freezes that cannot be read, data that do not fit their schema, and files
// that `opa fmt` would write otherwise. Every fault has a hint. An empty list is a clean bill.
func Check(ctx context.Context, fsys fs.FS) ([]Fault, error) {
	b, err := Load(fsys)
	if err != nil {
		var broken *fs.PathError
		if errors.As(err, &broken) {
			return nil, err
		}
		return hinted(faultsOf(err)), nil
	}
	var out []Fault
	if _, err := prepare(ctx, b); err != nil {
		out = append(out, faultsOf(err)...)
	} else if err := b.parsed.typeCheck(); err != nil {
		out = append(out, faultsOf(err)...)
	}
	out = append(out, metadataFaults(b)...)
	out = append(out, roleFaults(b)...)
	calendars := calendarFaults(b)
	out = append(out, calendars...)
	data, err := dataFaults(b)
	if err != nil {
		return nil, err
	}
	out = append(out, elsewhere(data, calendars)...)
	for _, f := range b.files {
		if want, err := formatted(f); err == nil && !bytes.Equal(want, f.Body) {
			out = append(out, Fault{File: f.Path, Line: firstDifference(want, f.Body), Message: "file is not formatted; run opa fmt --write"})
		}
	}
	slices.SortStableFunc(out, func(a, b Fault) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, strings.Compare(a.Message, b.Message))
	})
	return hinted(out), nil
}

// elsewhere are the faults of data at other places than those of a calendar: an entry of one has its
// fault in better words.
func elsewhere(data, calendars []Fault) []Fault {
	return slices.DeleteFunc(slices.Clone(data), func(f Fault) bool {
		return slices.ContainsFunc(calendars, func(c Fault) bool { return c.File == f.File && c.Line == f.Line })
	})
}

// faultsOf takes a joined error apart.
func faultsOf(err error) []Fault {
	var p placed
	switch x := err.(type) {
	case nil:
		return nil
	case interface{ Unwrap() []error }:
		var out []Fault
		for _, e := range x.Unwrap() {
			out = append(out, faultsOf(e)...)
		}
		return out
	case placed:
		return []Fault{{File: x.file, Line: x.line, Message: x.msg}}
	case interface{ Unwrap() error }:
		if inner := faultsOf(x.Unwrap()); errors.As(err, &p) {
			return inner
		}
	}
	return []Fault{{Message: err.Error()}}
}

// metadataFaults holds the house rule: every rule that denies, in "deny" or a set "deny_…" it collects
// from, has METADATA with title, description,
// a code of its own, and a hint, which may be empty.
func metadataFaults(b *Bundle) []Fault {
	var out []Fault
	owner := map[string]place{}
	for _, name := range sortedNames(b.parsed.law) {
		m := b.parsed.law[name]
		over := map[place]*ast.Annotations{}
		for _, a := range m.Annotations {
			if r := ruleOf(m, a); r != nil {
				over[place{r.Location.File, r.Location.Row}] = a
			}
		}
		for _, r := range m.Rules {
			if name, ok := r.Head.Reference[0].Value.(ast.Var); !ok || name != "deny" && !strings.HasPrefix(string(name), "deny_") {
				continue
			}
			at := place{r.Location.File, r.Location.Row}
			fault := func(format string, args ...any) {
				out = append(out, Fault{File: at.file, Line: at.line, Message: fmt.Sprintf(format, args...)})
			}
			a := over[at]
			if a == nil {
				fault("rule has no METADATA")
				continue
			}
			if a.Title == "" || a.Description == "" {
				fault("rule's METADATA lacks its title or description")
			}
			code, _ := a.Custom["code"].(string)
			if !codePattern.MatchString(code) || strings.HasPrefix(code, "BW-POLICY-") {
				fault("rule's code %q is none like BW-AREA-001", code)
			}
			if _, ok := a.Custom["hint"].(string); !ok {
				fault("rule's METADATA lacks custom.hint")
			}
			if first, taken := owner[code]; taken {
				fault("code %s is taken by %s:%d", code, first.file, first.line)
			}
			owner[code] = at
		}
	}
	return out
}

func sortedNames(mods map[string]*ast.Module) []string {
	out := make([]string, 0, len(mods))
	for name := range mods {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func firstDifference(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return 1 + bytes.Count(b[:min(n, len(b))], []byte("\n"))
}
