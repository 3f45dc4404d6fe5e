package policy

import (
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
	paths := map[string]ast.Ref{}
	done := map[*ast.Rule]bool{}
	var home string // the package of the rule
	var walk func(*ast.Rule)
	walk = func(r *ast.Rule) {
		pkg := r.Module.Package.Path.String()
		if home == "" {
			home = pkg
		}
		if done[r] || strings.HasPrefix(pkg, "data.bronzeward.rules.") && pkg != home {
			return
		}
		done[r] = true
		ast.WalkRefs(r, func(ref ast.Ref) bool {
			switch {
			case ref.HasPrefix(ast.InputRootRef):
				if ground := ref.GroundPrefix()[1:]; len(ground) > 0 {
					paths[dotted(ground)] = ground
				}
			case ref.HasPrefix(ast.DefaultRootRef):
				for _, next := range l.compiler.GetRules(ref.GroundPrefix()) {
					walk(next)
				}
			}
			return false
		})
	}
	for _, m := range l.compiler.Modules {
		for _, r := range m.Rules {
			if r.Location != nil && r.Location.File == at.file && r.Location.Row == at.line {
				walk(r)
			}
		}
	}
	out := make([]FactRead, 0, len(paths))
	for path, ref := range paths {
		text := "undefined"
		if v, err := in.Find(ref); err == nil {
			if text = v.String(); len(text) > mostFactText {
				text = strings.ToValidUTF8(text[:mostFactText], "") + " …"
			}
		}
		out = append(out, FactRead{Fact: path, Value: text})
	}
	slices.SortFunc(out, func(a, b FactRead) int { return strings.Compare(a.Fact, b.Fact) })
	return slices.DeleteFunc(slices.Clone(out), func(f FactRead) bool { return told(f, out) })
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
