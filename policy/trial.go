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

// Tried says that a bundle passed its trial, and what was tried.
type Tried struct {
	// Revision is the bundle's.
	Revision string
	// Tests and Samples are how many of its own tests, and of the sample calls, passed; never zero.
	Tests, Samples int
}

// Trial says whether a bundle may become live: it compiles strictly, asks for no
// fact that does not exist, its rules have codes, its data fit their schemas, its windows and freezes
// can be read, one file has each entry point, it has tests and they pass, it answers every sample call
// without failing, and it allows none that an invariant forbids. All objections are in the error, joined.
// What was live before is not tried again when it is loaded, or judged by in a replay.
func Trial(ctx context.Context, b *Bundle) (Tried, error) {
	var cause error // of the engine's own last denial
	e := New(EngineConfig{})
	e.heard = func(err error) { cause = err }
	if err := e.Use(ctx, b); err != nil {
		return Tried{}, fmt.Errorf("trying bundle: %w", err)
	}
	errs := []error{b.parsed.typeCheck()}
	misfits, err := dataFaults(b)
	if err != nil {
		return Tried{}, fmt.Errorf("trying bundle: %w", err)
	}
	calendars := calendarFaults(b)
	for _, f := range slices.Concat(metadataFaults(b), calendars, entryPointFaults(b)) {
		errs = append(errs, errors.New(f.String()))
	}
	for _, f := range slices.Concat(roleFaults(b), elsewhere(misfits, calendars)) {
		errs = append(errs, fmt.Errorf("%s; %s", f, f.Hint))
	}
	groups := boundGroups(b)
	all := samples()
	for _, s := range all {
		if len(s.facts.Caller.Groups) > 0 {
			// The samples' person is in every group the law knows, so that what it forbids is
			// forbidden to all of them.
			s.facts.Caller.Groups = append(slices.Clone(s.facts.Caller.Groups), groups...)
		}
		cause = nil
		err := s.try(ctx, e)
		if err != nil && cause != nil {
			err = fmt.Errorf("%w: %w", err, cause)
		}
		errs = append(errs, err)
		if errors.Is(cause, errBudget) {
			// The others, and the tests, would take as long each.
			return Tried{}, fmt.Errorf("trying bundle: %w; make the rule look at less", errors.Join(errs...))
		}
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
	if err := errors.Join(errs...); err != nil {
		return Tried{}, fmt.Errorf("trying bundle: %w", err)
	}
	return Tried{Revision: b.revision, Tests: len(report.Passed), Samples: len(all)}, nil
}

// entryPointFaults says where the law's entry points are claimed by more than one file, or where something
// else claims to be one.
func entryPointFaults(b *Bundle) []Fault {
	var out []Fault
	owner := map[string]string{}
	for _, name := range sortedNames(b.parsed.law) {
		m := b.parsed.law[name]
		for _, r := range m.Rules {
			at := m.Package.Path.String() + "." + string(r.Head.Reference[0].Value.(ast.Var))
			if at != AdmissionQuery && at != APIQuery {
				continue
			}
			if first, taken := owner[at]; taken && first != name {
				out = append(out, Fault{File: name, Line: r.Location.Row, Message: fmt.Sprintf("the entry point %s is claimed by %s already: keep it in one file", at, first)})
				continue
			}
			owner[at] = name
		}
		for _, a := range m.Annotations {
			if a.Entrypoint {
				if at := a.GetTargetPath().String(); at != AdmissionQuery && at != APIQuery {
					out = append(out, Fault{File: name, Line: a.Location.Row, Message: fmt.Sprintf("%s claims to be an entry point, and the law has two: %s and %s; take entrypoint out of its METADATA", at, AdmissionQuery, APIQuery)})
				}
			}
		}
	}
	return out
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
