package policytest

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"bronzeward/policy"
)

// Result is how one case went.
type Result struct {
	// Name is the file and the case's claim.
	Name string `json:"name"`
	// File and Line are where the case stands.
	File string `json:"file"`
	Line int    `json:"line"`
	// Took is how long the law judged it.
	Took     time.Duration   `json:"took_ns"`
	Decision policy.Decision `json:"decision"`
	// Entry is what the book would hold of it; see Entry.
	Entry map[string]any `json:"entry"`
	// Failures say what is not as wanted; empty for a case that holds.
	Failures []string `json:"failures,omitempty"`
}

// Holds is true when everything is as wanted.
func (r Result) Holds() bool { return len(r.Failures) == 0 }

// Run judges every case of a directory tree by a bundle. The error says that cases or
// bundle could not be read; a case that does not hold is a Result.
func Run(ctx context.Context, b *policy.Bundle, fsys fs.FS) ([]Result, error) {
	return RunSome(ctx, b, fsys, func(string) bool { return true })
}

// RunSome is Run of the cases whose name is wanted.
func RunSome(ctx context.Context, b *policy.Bundle, fsys fs.FS, wanted func(name string) bool) ([]Result, error) {
	files, err := Read(fsys)
	if err != nil {
		return nil, err
	}
	var out []Result
	for _, f := range files {
		e, err := f.engine(ctx, b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		for _, c := range f.Cases {
			if !wanted(title(f, c)) {
				continue
			}
			facts, err := f.Facts(c)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", title(f, c), err)
			}
			began := time.Now()
			d := e.Decide(ctx, facts)
			took := time.Since(began)
			entry, err := Entry(facts, d)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", title(f, c), err)
			}
			out = append(out, Result{
				Name: title(f, c), File: f.Name, Line: c.Line, Took: took, Decision: d, Entry: entry,
				Failures: append(c.Want.compare(d), missing("", c.Want.Entry, entry)...),
			})
		}
	}
	return out, nil
}

// engine is the bundle, with a file's data laid over its own.
func (f File) engine(ctx context.Context, b *policy.Bundle) (*policy.Engine, error) {
	b, err := f.Law(b)
	if err != nil {
		return nil, err
	}
	e := policy.New(policy.EngineConfig{})
	return e, e.Use(ctx, b)
}

func (w Want) compare(d policy.Decision) []string {
	var out []string
	fail := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if got := map[bool]string{true: "allow", false: "deny"}[d.Allow]; got != w.Verdict {
		fail("verdict is %s %v, want %s", got, codes(d.Denials()), w.Verdict)
	}
	if got := codes(d.Denials()); !same(got, w.Codes) {
		fail("codes are %v, want %v", got, w.Codes)
	}
	if got := codes(d.Warnings()); w.Warnings != nil && !same(got, w.Warnings) {
		fail("warnings are %v, want %v", got, w.Warnings)
	}
	if w.Roles != nil && !same(d.UpstreamRoles, w.Roles) {
		fail("talos roles are %v, want %v", d.UpstreamRoles, w.Roles)
	}
	if w.Required != nil && d.Approvals.Required != *w.Required {
		fail("%d approvals are required, want %d", d.Approvals.Required, *w.Required)
	}
	if w.Redact != nil && d.Redact != *w.Redact {
		fail("redact is %t, want %t", d.Redact, *w.Redact)
	}
	first := func(what, want string, of func(policy.Reason) string) {
		switch {
		case want == "" || len(d.Reasons) > 0 && strings.Contains(of(d.Reasons[0]), want):
		case len(d.Reasons) == 0:
			fail("there is no reason, want one whose %s has %q", what, want)
		default:
			fail("the first reason is %s, and its %s is %q, want %q in it", d.Reasons[0].Code, what, of(d.Reasons[0]), want)
		}
	}
	first("hint", w.Hint, func(r policy.Reason) string { return r.Hint })
	first("message", w.Says, func(r policy.Reason) string { return r.Message })
	return out
}

func codes(reasons []policy.Reason) []string {
	out := []string{}
	for _, r := range reasons {
		if !slices.Contains(out, r.Code) {
			out = append(out, r.Code)
		}
	}
	return out
}

func same(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
