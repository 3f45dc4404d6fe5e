package policy

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// FactRead is one fact that a rule asks for, and its value.
type FactRead struct {
	// Fact is its dotted path.
	Fact string `json:"fact"`
	// Value is JSON, cut where it is long; "undefined" when the facts do not have it.
	Value string `json:"value"`
}

// mostFactText is how much of a fact's value is shown, in bytes.
const mostFactText = 200

// factsRead are the facts that the rule at a place, and the rules of its own area and of the
// library that it asks, read of the input. What other areas say is theirs to explain.
func (l *law) factsRead(at place, in ast.Value) []FactRead {
	read := l.reading()
	for r := range l.rulesAt(at) {
		read.rule(r)
	}
	return shown(read.paths, in)
}

// factsAsked are the facts that the expression which stopped the rule at a place reads, and its
// variables; where it reads nothing itself, what the rules that it asks read as factsRead has them.
func (l *law) factsAsked(at place, t *trail, in ast.Value) []FactRead {
	var parts []*ast.Expr // one expression as it is written may be several as it is compiled
	read := l.reading()
	for r := range l.rulesAt(at) {
		read.home = r.Module.Package.Path.String()
		ast.WalkExprs(r, func(e *ast.Expr) bool {
			if e.Location != nil && e.Location.Offset >= t.from && e.Location.Offset < t.to {
				parts = append(parts, e)
			}
			return false
		})
	}
	for _, e := range parts {
		read.own(e)
	}
	variables := map[ast.Var]ast.Value{}
	if written, err := ast.ParseBody(t.text); err == nil {
		ast.WalkVars(written, func(v ast.Var) bool {
			if value := t.names[v]; value != nil {
				variables[v] = value
			}
			return false
		})
	}
	if len(read.paths)+len(variables) == 0 {
		for _, e := range parts {
			read.refs(e)
		}
	}
	out := shown(read.paths, in)
	for _, v := range slices.Sorted(maps.Keys(variables)) {
		out = append(out, FactRead{Fact: string(v), Value: valueText(variables[v])})
	}
	return out
}

// rulesAt are the compiled rules of a place: an else is one of its own.
func (l *law) rulesAt(at place) iter.Seq[*ast.Rule] {
	return func(yield func(*ast.Rule) bool) {
		for _, m := range l.compiler.Modules {
			for _, r := range m.Rules {
				if r.Location != nil && r.Location.File == at.file && r.Location.Row == at.line && !yield(r) {
					return
				}
			}
		}
	}
}

// reading collects what rules read of the input.
type reading struct {
	law   *law
	home  string // the package of the rule that is explained
	done  map[*ast.Rule]bool
	paths map[string]ast.Ref
}

func (l *law) reading() *reading {
	return &reading{law: l, done: map[*ast.Rule]bool{}, paths: map[string]ast.Ref{}}
}

// rule follows a rule, unless another area's.
func (r *reading) rule(rule *ast.Rule) {
	pkg := rule.Module.Package.Path.String()
	if r.home == "" {
		r.home = pkg
	}
	if r.done[rule] || strings.HasPrefix(pkg, "data.bronzeward.rules.") && pkg != r.home {
		return
	}
	r.done[rule] = true
	r.refs(rule)
}

// own notes the facts that something reads itself.
func (r *reading) own(x any) {
	ast.WalkRefs(x, func(ref ast.Ref) bool {
		if ref.HasPrefix(ast.InputRootRef) {
			if ground := ref.GroundPrefix()[1:]; len(ground) > 0 {
				r.paths[dotted(ground)] = ground
			}
		}
		return false
	})
}

// refs notes the facts that a rule or an expression reads, and follows what it asks.
func (r *reading) refs(x any) {
	r.own(x)
	ast.WalkRefs(x, func(ref ast.Ref) bool {
		if ref.HasPrefix(ast.DefaultRootRef) {
			for _, next := range r.law.compiler.GetRules(ref.GroundPrefix()) {
				r.rule(next)
			}
		}
		return false
	})
}

// shown are facts with their values, in order of their paths.
func shown(paths map[string]ast.Ref, in ast.Value) []FactRead {
	out := make([]FactRead, 0, len(paths))
	for path, ref := range paths {
		text := "undefined"
		if v, err := in.Find(ref); err == nil {
			text = valueText(v)
		}
		out = append(out, FactRead{Fact: path, Value: text})
	}
	slices.SortFunc(out, func(a, b FactRead) int { return strings.Compare(a.Fact, b.Fact) })
	return slices.DeleteFunc(slices.Clone(out), func(f FactRead) bool { return told(f, out) })
}

// valueText is a value as JSON, cut where it is long.
func valueText(v ast.Value) string {
	text := v.String()
	if len(text) > mostFactText {
		text = strings.ToValidUTF8(text[:mostFactText], "") + " …"
	}
	return text
}

// told is true for a fact that others say already: an object whose members are listed, or a member
// of what is not there.
func told(f FactRead, all []FactRead) bool {
	return slices.ContainsFunc(all, func(o FactRead) bool {
		switch {
		case strings.HasPrefix(o.Fact, f.Fact+"."):
			return strings.HasPrefix(f.Value, "{")
		case strings.HasPrefix(f.Fact, o.Fact+"."):
			return o.Value == "null" || o.Value == "undefined"
		}
		return false
	})
}

// dotted is a reference below the input as facts are named.
func dotted(ref ast.Ref) string {
	parts := make([]string, len(ref))
	for i, t := range ref {
		parts[i] = strings.Trim(t.Value.String(), `"`)
	}
	return strings.Join(parts, ".")
}
