package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/version"
)

// OPAVersion is the version of the engine, as every Decision records it.
func OPAVersion() string { return version.Version }

// parsed is what the files of a bundle say.
type parsed struct {
	law   map[string]*ast.Module // without tests
	tests map[string]*ast.Module
	data  map[string]any
}

// forbidden are the built-ins that reach the network, a clock, chance or the process,
// that parse or mint tokens and certificates, which no law needs here, or that turn a
// few bytes into very many, or go on beyond the budget of a decision.
func forbidden(b *ast.Builtin) bool {
	if b.Nondeterministic || b.IsDeprecated() {
		return true
	}
	for _, p := range []string{"http.", "net.lookup", "rand.", "uuid.", "opa.", "io.jwt.", "crypto.x509.", "crypto.parse_private_keys", "providers.", "rego.parse_module", "graphql.", "time.now_ns", "json.match_schema", "json.verify_schema", "net.cidr_expand"} {
		if strings.HasPrefix(b.Name, p) {
			return true
		}
	}
	// The last three look at no clock while they work, however long that is, and the first of them takes all memory.
	return slices.Contains([]string{"trace", "bits.lsh", "graph.reachable_paths", "strings.render_template"}, b.Name)
}

// capabilities is OPA's language without what forbidden names and without any host a
// schema could be fetched from.
func capabilities() *ast.Capabilities {
	c := ast.CapabilitiesForThisVersion(ast.CapabilitiesRegoVersion(ast.RegoV1))
	c.Builtins = slices.DeleteFunc(slices.Clone(c.Builtins), forbidden)
	c.AllowNet = []string{}
	return c
}

func parserOptions() ast.ParserOptions {
	return ast.ParserOptions{RegoVersion: ast.RegoV1, ProcessAnnotation: true, Capabilities: capabilities()}
}

func parse(files []File) (*parsed, error) {
	p := &parsed{law: map[string]*ast.Module{}, tests: map[string]*ast.Module{}, data: map[string]any{}}
	var errs []error
	for _, f := range files {
		switch {
		case isSchema(f.Path):
		case isData(f.Path):
			m, err := decodeData(f.Path, f.Body)
			if err == nil {
				err = mount(p.data, f.Path, m)
			}
			errs = append(errs, err)
		default:
			m, err := ast.ParseModuleWithOpts(f.Path, string(f.Body), parserOptions())
			if err != nil {
				errs = append(errs, located(err)...)
				continue
			}
			if isTest(f.Path) {
				p.tests[f.Path] = m
			} else {
				p.law[f.Path] = m
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("reading bundle: %w", err)
	}
	return p, nil
}

// compile compiles the law strictly, with its tests when withTests is set.
func (p *parsed) compile(withTests bool) (*ast.Compiler, storage.Store, error) {
	store := inmem.NewFromObjectWithOpts(clone(p.data), inmem.OptRoundTripOnWrite(false), inmem.OptReturnASTValuesOnRead(true))
	mods := map[string]*ast.Module{}
	for name, m := range p.law {
		mods[name] = m.Copy()
	}
	if withTests {
		for name, m := range p.tests {
			mods[name] = m.Copy()
		}
	}
	c := newCompiler(p)
	if c.Compile(mods); c.Failed() {
		return nil, nil, fmt.Errorf("compiling bundle: %w", errors.Join(located(c.Errors)...))
	}
	return c, store, nil
}

func newCompiler(p *parsed) *ast.Compiler {
	return ast.NewCompiler().
		WithCapabilities(capabilities()).
		WithDefaultRegoVersion(ast.RegoV1).
		WithStrict(true).
		WithUseTypeCheckAnnotations(true).
		WithPathConflictsCheck(p.conflicts)
}

// conflicts tells OPA whether data lies where a rule would.
func (p *parsed) conflicts(path []string) (bool, error) {
	var at any = p.data
	for _, part := range path {
		m, ok := at.(map[string]any)
		if !ok {
			return false, nil
		}
		if at, ok = m[part]; !ok {
			return false, nil
		}
	}
	if m, ok := at.(map[string]any); ok {
		return len(m) > 0, nil
	}
	return true, nil
}

// placed is a problem of a bundle at a place.
type placed struct {
	file string
	line int
	msg  string
}

func (l placed) Error() string { return fmt.Sprintf("%s:%d: %s", l.file, l.line, l.msg) }

func located(err error) []error {
	var many ast.Errors
	if !errors.As(err, &many) {
		return []error{err}
	}
	var out []error
	for _, e := range many {
		if e.Location == nil {
			out = append(out, errors.New(e.Message))
			continue
		}
		msg := e.Message
		if strings.Contains(msg, "keyword is required before") {
			msg += " (this is Rego v0: opa fmt --write --v0-v1 rewrites it)"
		}
		out = append(out, placed{file: e.Location.File, line: e.Location.Row, msg: msg})
	}
	return out
}

func clone(v map[string]any) map[string]any {
	out := make(map[string]any, len(v))
	for k, e := range v {
		out[k] = cloneAny(e)
	}
	return out
}

func cloneAny(v any) any {
	switch x := v.(type) {
	case map[string]any:
		return clone(x)
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = cloneAny(e)
		}
		return out
	}
	return v
}
