package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// explainBudget is how long an explanation may take. It traces every expression and
// leaves out the index, and a person waits for it, not a call.
const explainBudget = 10 * time.Second

// Explanation says what each rule of the law said of a Call or an Act, and why the others
// were silent.
type Explanation struct {
	Decision Decision          `json:"decision"`
	Rules    []RuleExplanation `json:"rules"`
}

// RuleExplanation is one rule's part. Rules are those with a code in their METADATA.
type RuleExplanation struct {
	Code  string `json:"code"`
	Title string `json:"title"`
	// Rule is the rule's package, File and Line where it begins.
	Rule  string `json:"rule"`
	File  string `json:"file"`
	Line  int    `json:"line"`
	Fired bool   `json:"fired"`
	// Messages are what the rule said; empty unless it fired.
	Messages []string `json:"messages,omitempty"`
	// Facts are what the rule that fired, and the rules it asks, read, in order of their paths.
	Facts []FactRead `json:"facts,omitempty"`
	// Why is the expression that did not hold, as it is written, and WhyLine its line;
	// empty when the rule fired.
	Why     string `json:"why,omitempty"`
	WhyLine int    `json:"why_line,omitempty"`
	// WhyFacts are what that expression reads, and its variables; where it reads nothing itself, what the
	// rules that it asks read.
	WhyFacts []FactRead `json:"why_facts,omitempty"`
}

// DecodeFacts reads Facts written as YAML or JSON. Facts that are not written have their zero
// value, except version (the current one) and phase ("final"). A key that Facts do not have is an
// error that names it.
func DecodeFacts(text []byte) (*Facts, error) {
	f := &Facts{Version: FactsVersion, Phase: "final"}
	return f, decodeStrict(text, f, "facts")
}

// DecodeAct reads the facts of an Act in the same way.
func DecodeAct(text []byte) (*Act, error) {
	a := &Act{Version: FactsVersion}
	return a, decodeStrict(text, a, "facts of an act")
}

// DecodeDocument reads one YAML or JSON document as JSON's own types; a key that stands twice, and
// a number that is not finite, are errors.
func DecodeDocument(text []byte) (any, error) { return decodeYAML(text) }

// decodeStrict reads YAML or JSON into a value whose fields are tagged for JSON.
func decodeStrict(text []byte, into any, what string) error {
	v, err := decodeYAML(text)
	if err != nil {
		return fmt.Errorf("reading %s: %w", what, err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("reading %s: %w", what, err)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("reading %s: %w", what, err)
	}
	return nil
}

// Explain judges a Call as Decide does and says why. It is for people: it takes many
// times as long as Decide.
func (e *Engine) Explain(ctx context.Context, f *Facts) (Explanation, error) {
	l := e.live.Load()
	if l == nil || f == nil {
		return Explanation{Decision: e.Decide(ctx, f), Rules: []RuleExplanation{}}, nil
	}
	in, err := factsValue(f)
	if err != nil {
		return Explanation{}, fmt.Errorf("explaining: %w", err)
	}
	return l.explain(ctx, l.admission, in, false, func(ctx context.Context) Decision { return e.Decide(ctx, f) })
}

// ExplainRecorded judges a past decision again as DecideRecorded does and says why, as Explain
// does of the present.
func (e *Engine) ExplainRecorded(ctx context.Context, r *Recorded) (Explanation, error) {
	decide := func(ctx context.Context) Decision { return e.DecideRecorded(ctx, r) }
	l := e.live.Load()
	if l == nil {
		return Explanation{Decision: decide(ctx), Rules: []RuleExplanation{}}, nil
	}
	query := l.admission
	if r.Act != nil {
		query = l.api
	}
	in, err := r.input, error(nil)
	switch {
	case in != nil:
	case r.Act != nil:
		in = actValue(r.Act)
	default:
		in, err = factsValue(r.Call)
	}
	if err != nil {
		return Explanation{}, fmt.Errorf("explaining: %w", err)
	}
	return l.explain(ctx, query, in, r.Act != nil, decide)
}

// explain follows one evaluation. api is true for an act: the rules about acts are other ones.
func (l *law) explain(ctx context.Context, query rego.PreparedEvalQuery, in ast.Value, api bool, decide func(context.Context) Decision) (Explanation, error) {
	ctx, cancel := context.WithTimeout(ctx, explainBudget)
	defer cancel()
	w := &watcher{entered: map[uint64]place{}, seen: map[place]*trail{}}
	if _, err := query.Eval(ctx, rego.EvalParsedInput(in), rego.EvalQueryTracer(w),
		rego.EvalRuleIndexing(false), rego.EvalEarlyExit(false)); err != nil && ctx.Err() != nil {
		return Explanation{}, fmt.Errorf("explaining: %w", errors.Join(err, ctx.Err()))
	}
	out := Explanation{Decision: decide(ctx), Rules: []RuleExplanation{}}
	for _, r := range codedRules(l.bundle.parsed.law, api) {
		x := w.explain(r, out.Decision)
		if x.Fired {
			x.Facts = l.factsRead(r.place, in)
		} else if t := w.seen[r.place]; t != nil {
			x.WhyFacts = l.factsAsked(r.place, t, in)
		}
		out.Rules = append(out.Rules, x)
	}
	return out, nil
}

// String is the explanation as a person reads it: the verdict, the rules that fired,
// and the others with what stopped them.
func (x Explanation) String() string {
	var s strings.Builder
	verdict := "DENIED"
	if x.Decision.Allow {
		verdict = "ALLOWED"
	}
	fmt.Fprintf(&s, "%s by revision %.12s (OPA %s)\n", verdict, x.Decision.Revision, x.Decision.OPA)
	fmt.Fprintf(&s, "  talos roles: %s   approvals: %d   redact: %v\n",
		orNone(strings.Join(x.Decision.UpstreamRoles, ", ")), x.Decision.Approvals.Required, x.Decision.Redact)
	for _, r := range x.Decision.Reasons {
		fmt.Fprintf(&s, "\n%s %s: %s\n", strings.ToUpper(string(r.Severity)), r.Code, r.Message)
		for _, rule := range x.Rules {
			if rule.Code == r.Code {
				fmt.Fprintf(&s, "    %s (%s:%d)\n", rule.Title, rule.File, rule.Line)
			}
		}
		if r.Hint != "" {
			fmt.Fprintf(&s, "    try: %s\n", r.Hint)
		}
	}
	s.WriteString("\nsilent rules, and what did not hold:\n")
	for _, r := range x.Rules {
		if !r.Fired {
			fmt.Fprintf(&s, "  %-18s %s\n  %-18s     %s:%d  %s\n", r.Code, r.Title, "", r.File, r.WhyLine, r.Why)
		}
	}
	return s.String()
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// coded is a rule that has a code.
type coded struct {
	place
	code, title, pkg string
}

type place struct {
	file string
	line int
}

// codedRules are the rules with a code about calls, or about acts on Bronzeward itself.
func codedRules(mods map[string]*ast.Module, api bool) []coded {
	var out []coded
	for _, m := range mods {
		if isAPI(m) != api {
			continue
		}
		for _, a := range m.Annotations {
			code, ok := a.Custom["code"].(string)
			r := ruleOf(m, a)
			if !ok || r == nil {
				continue
			}
			out = append(out, coded{
				place: place{r.Location.File, r.Location.Row}, code: code, title: a.Title, pkg: m.Package.Path.String(),
			})
		}
	}
	slices.SortFunc(out, func(a, b coded) int { return strings.Compare(a.code, b.code) })
	return out
}

// ruleOf is the rule an annotation stands over.
func ruleOf(m *ast.Module, a *ast.Annotations) *ast.Rule {
	if a.Scope != "rule" {
		return nil
	}
	var next *ast.Rule
	for _, r := range m.Rules {
		if r.Location.Row > a.Location.Row && (next == nil || r.Location.Row < next.Location.Row) {
			next = r
		}
	}
	return next
}

// watcher follows an evaluation. It remembers for each rule whether it held, and the
// expression furthest into its body that did not.
type watcher struct {
	entered map[uint64]place
	seen    map[place]*trail
}

type trail struct {
	held  bool
	index int
	text  string
	line  int
	// from and to are the bytes of the file that the expression is.
	from, to int
	// names are the variables that had a value when the expression did not hold.
	names map[ast.Var]ast.Value
}

func (*watcher) Enabled() bool               { return true }
func (*watcher) Config() topdown.TraceConfig { return topdown.TraceConfig{PlugLocalVars: true} }

// TraceEvent takes one step of the evaluation.
func (w *watcher) TraceEvent(ev topdown.Event) {
	switch node := ev.Node.(type) {
	case *ast.Rule:
		at := place{node.Location.File, node.Location.Row}
		if w.seen[at] == nil {
			w.seen[at] = &trail{index: -1}
		}
		w.entered[ev.QueryID] = at
		if ev.Op == topdown.ExitOp {
			w.seen[at].held = true
		}
	case *ast.Expr:
		at, ok := w.entered[ev.QueryID]
		if !ok || ev.Op != topdown.FailOp || node.Location == nil {
			return
		}
		if t := w.seen[at]; node.Index >= t.index {
			t.index, t.line = node.Index, node.Location.Row
			t.from, t.to = node.Location.Offset, node.Location.Offset+len(node.Location.Text)
			t.text = strings.Join(strings.Fields(string(node.Location.Text)), " ")
			t.names = named(ev)
		}
	}
}

// named are the variables of an event by the names that the rule's author gave them.
func named(ev topdown.Event) map[ast.Var]ast.Value {
	out := map[ast.Var]ast.Value{}
	for original, m := range ev.LocalMetadata {
		if v := ev.Locals.Get(original); v != nil && m.Name != "" && !m.Name.IsGenerated() && !m.Name.IsWildcard() && ast.IsConstant(v) {
			out[m.Name] = v
		}
	}
	return out
}

func (w *watcher) explain(r coded, d Decision) RuleExplanation {
	x := RuleExplanation{Code: r.code, Title: r.title, Rule: r.pkg, File: r.file, Line: r.line}
	t := w.seen[r.place]
	x.Fired = t != nil && t.held
	switch {
	case x.Fired:
		for _, reason := range d.Reasons {
			if reason.Code == r.code {
				x.Messages = append(x.Messages, reason.Message)
			}
		}
	case t == nil:
		x.Why, x.WhyLine = "no question of this call reaches the rule", r.line
	default:
		x.Why, x.WhyLine = t.text, t.line
	}
	return x
}
