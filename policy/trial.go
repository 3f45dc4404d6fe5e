package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/tester"
)

// testTimeout bounds one Rego test.
const testTimeout = time.Minute

// TestResult is how one Rego test went.
type TestResult struct {
	Name string `json:"name"`
	File string `json:"file"`
	Line int    `json:"line"`
	// Message is empty for a test that passed.
	Message string `json:"message,omitempty"`
	// Took is how long it ran.
	Took time.Duration `json:"took_ns"`
}

// TestReport is how a bundle's own tests went.
type TestReport struct {
	Passed []TestResult `json:"passed"`
	Failed []TestResult `json:"failed"`
	// Coverage is the share of the law's lines that the tests reach, in percent.
	Coverage float64 `json:"coverage"`
	// Missed are the places they do not reach, "file:line".
	Missed []string `json:"missed"`
}

// Test runs a bundle's Rego tests and measures what they reach. The error says that
// they could not be run at all.
func Test(ctx context.Context, b *Bundle) (TestReport, error) { return TestSome(ctx, b, "") }

// TestSome is Test of those whose name, "data.package.test_name", a regular expression finds; "" is
// all. What they reach is then less than what all reach.
func TestSome(ctx context.Context, b *Bundle, run string) (TestReport, error) {
	if len(b.parsed.tests) == 0 {
		return TestReport{}, nil
	}
	c, store, err := b.parsed.compile(true)
	if err != nil {
		return TestReport{}, err
	}
	txn, err := store.NewTransaction(ctx, storage.TransactionParams{})
	if err != nil {
		return TestReport{}, fmt.Errorf("opening test data: %w", err)
	}
	defer store.Abort(ctx, txn)
	mods := map[string]*ast.Module{}
	for _, group := range []map[string]*ast.Module{b.parsed.law, b.parsed.tests} {
		for name, m := range group {
			mods[name] = m.Copy()
		}
	}
	seen := cover.New()
	results, err := tester.NewRunner().
		SetCompiler(newCompiler(b.parsed)).
		SetStore(store).
		SetModules(mods).
		SetDefaultRegoVersion(ast.RegoV1).
		RaiseBuiltinErrors(true).
		SetTimeout(testTimeout).
		SetCoverageQueryTracer(seen).
		Filter(run).
		RunTests(ctx, txn)
	if err != nil {
		return TestReport{}, fmt.Errorf("running tests: %w", err)
	}
	var out TestReport
	for r := range results {
		t := TestResult{Name: r.Package + "." + r.Name, File: r.Location.File, Line: r.Location.Row, Took: r.Duration}
		switch {
		case r.Error != nil:
			t.Message = r.Error.Error()
		case r.Skip:
			t.Message = "test is skipped"
		case r.Fail:
			t.Message = "test does not hold" + failedCases(r.SubResults)
			if r.FailedAt != nil && r.FailedAt.Location != nil {
				t.Message = fmt.Sprintf("line %d does not hold: %s", r.FailedAt.Location.Row, r.FailedAt.Location.Text)
			}
		}
		if t.Message == "" {
			out.Passed = append(out.Passed, t)
		} else {
			out.Failed = append(out.Failed, t)
		}
	}
	byPlace := func(a, b TestResult) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(out.Passed, byPlace)
	slices.SortFunc(out.Failed, byPlace)
	out.Coverage, out.Missed = reached(c, seen)
	return out, nil
}

// reached measures the law alone: tests cover themselves.
func reached(c *ast.Compiler, seen *cover.Cover) (float64, []string) {
	law := map[string]*ast.Module{}
	for name, m := range c.Modules {
		if !isTest(name) {
			law[name] = m
		}
	}
	report := seen.Report(law)
	var covered, missed int
	var places []string
	for name := range law {
		f := report.Files[name]
		covered += f.CoveredLines
		missed += f.NotCoveredLines
		for _, r := range f.NotCovered {
			places = append(places, fmt.Sprintf("%s:%d", name, r.Start.Row))
		}
	}
	slices.Sort(places)
	if covered+missed == 0 {
		return 0, places
	}
	return 100 * float64(covered) / float64(covered+missed), places
}

// Trial says whether a bundle may become live: it compiles strictly, asks for no
// fact that does not exist, its rules have codes, its windows and freezes can be read, it
// has tests and they pass, it answers every sample call without failing, and it allows none that an invariant forbids. All objections are in the error, joined.
func Trial(ctx context.Context, b *Bundle) error {
	e := New(EngineConfig{})
	if err := e.Use(ctx, b); err != nil {
		return fmt.Errorf("trying bundle: %w", err)
	}
	errs := []error{b.parsed.typeCheck()}
	for _, f := range append(metadataFaults(b), calendarFaults(b)...) {
		errs = append(errs, errors.New(f.String()))
	}
	report, err := Test(ctx, b)
	if err != nil {
		errs = append(errs, err)
	}
	for _, t := range report.Failed {
		errs = append(errs, fmt.Errorf("%s:%d: %s: %s", t.File, t.Line, t.Name, t.Message))
	}
	if err == nil && len(report.Passed)+len(report.Failed) == 0 {
		errs = append(errs, errors.New("bundle has no tests"))
	}
	groups := boundGroups(b)
	for _, s := range samples() {
		if len(s.facts.Caller.Groups) > 0 {
			// The samples' person is in every group the law knows, so that what it forbids is
			// forbidden to all of them.
			s.facts.Caller.Groups = append(slices.Clone(s.facts.Caller.Groups), groups...)
		}
		errs = append(errs, s.try(ctx, e))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("trying bundle: %w", err)
	}
	return nil
}

// failedCases names the cases of a table test that do not hold.
func failedCases(results tester.SubResultMap) string {
	var names []string
	results.Iter(func(path []string, r *tester.SubResult) bool {
		if r.Fail && len(r.SubResults) == 0 {
			names = append(names, strings.Join(path, "/"))
		}
		return true
	})
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return ": " + strings.Join(names, ", ")
}

// boundGroups are the groups the law's data give roles to.
func boundGroups(b *Bundle) []string {
	root, _ := b.parsed.data["bronzeward"].(map[string]any)
	bindings, _ := root["role_bindings"].(map[string]any)
	return slices.Sorted(maps.Keys(bindings))
}

// try judges one sample.
func (s sample) try(ctx context.Context, e *Engine) error {
	d := e.Decide(ctx, s.facts)
	if d.Allow && s.forbidden {
		return fmt.Errorf("sample %q: the law allows what no law may", s.name)
	}
	for _, r := range d.Reasons {
		if strings.HasPrefix(r.Code, "BW-POLICY-") && r.Code != CodeNoReason {
			return fmt.Errorf("sample %q: %s: %s", s.name, r.Code, r.Message)
		}
	}
	return nil
}
