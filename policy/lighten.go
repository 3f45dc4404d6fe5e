package policy

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// lighten takes work out of a compiled law that would come out the same in each decision. No
// answer changes by it: a law is judged alike by OPA alone, only more slowly.
func lighten(ctx context.Context, c *ast.Compiler, store storage.Store) error {
	for _, m := range c.Modules {
		for _, r := range m.Rules {
			ast.WalkRules(r, func(r *ast.Rule) bool {
				r.Body = boundLate(r.Body)
				return false
			})
		}
	}
	return fold(ctx, c, store)
}

// boundLate moves what the compiler makes of rego.metadata.rule() from the beginning of a rule
// to where the rule reads it. The compiler binds the rule's METADATA before all else, and so
// each rule pays for it that is entered and then says nothing.
func boundLate(body ast.Body) ast.Body {
	if len(body) < 3 {
		return body
	}
	bound, ok := metadataVar(body[0])
	if !ok {
		return body
	}
	reader := slices.IndexFunc(body[1:], func(e *ast.Expr) bool { return mentions(e, bound) })
	if reader < 1 { // read at once, or in the head only
		return body
	}
	late := slices.Concat(body[1:reader+1], body[:1], body[reader+1:])
	for i, e := range late {
		e.Index = i
	}
	return late
}

// metadataVar is the variable that an expression of the compiler's own binds to an object
// without variables.
func metadataVar(e *ast.Expr) (ast.Var, bool) {
	if !e.Generated || e.Negated || len(e.With) > 0 || !e.IsEquality() {
		return "", false
	}
	bound, ok := e.Operand(0).Value.(ast.Var)
	value, isObject := e.Operand(1).Value.(ast.Object)
	return bound, ok && isObject && value.IsGround()
}

func mentions(node any, name ast.Var) bool {
	found := false
	ast.WalkVars(node, func(v ast.Var) bool {
		found = found || v == name
		return found
	})
	return found
}

// foldBudget is how long all rules may take that fold asks. What has no value by then is judged
// within each decision, and its budget.
const foldBudget = 2 * time.Second

// fold gives rules that read the law's data and nothing of the input the value they have. The
// data are the law's own and stay as they are for as long as it is live. A law that replaces
// data for a moment, by "with", is left alone.
func fold(ctx context.Context, c *ast.Compiler, store storage.Store) error {
	if replacesData(c) {
		return nil
	}
	txn, err := store.NewTransaction(ctx)
	if err != nil {
		return fmt.Errorf("reading the law's data: %w", err)
	}
	defer store.Abort(ctx, txn)
	limited, done := context.WithTimeout(ctx, foldBudget)
	defer done()
	cancel := topdown.NewCancel()
	defer context.AfterFunc(limited, cancel.Cancel)()
	for _, m := range c.Modules {
		for _, r := range m.Rules {
			if r.Default || limited.Err() != nil {
				continue
			}
			if same := c.GetRulesExact(r.Ref()); slices.Contains(same, r) && constant(c, same) {
				become(same, valueOf(limited, c, store, txn, cancel, r.Ref()))
			}
		}
	}
	return ctx.Err()
}

func replacesData(c *ast.Compiler) bool {
	found := false
	for _, m := range c.Modules {
		ast.WalkExprs(m, func(e *ast.Expr) bool {
			found = found || len(e.With) > 0
			return found
		})
	}
	return found
}

// constant tells of the rules of one name whether each is complete, takes no arguments, and
// reads nothing of the input, nor does any rule it asks.
func constant(c *ast.Compiler, same []*ast.Rule) bool {
	seen := map[*ast.Rule]bool{}
	var reads func(r *ast.Rule) bool
	reads = func(r *ast.Rule) bool {
		if seen[r] {
			return false
		}
		seen[r] = true
		if mentions(r, ast.InputRootDocument.Value.(ast.Var)) {
			return true
		}
		for dep := range c.Graph.Dependencies(r) {
			if reads(dep.(*ast.Rule)) {
				return true
			}
		}
		return false
	}
	return !slices.ContainsFunc(same, func(r *ast.Rule) bool {
		return r.Head.RuleKind() != ast.SingleValue || len(r.Head.Args) > 0 || !r.Ref().IsGround() || reads(r)
	})
}

// valueOf is the value of a rule, null where it has none or fails: then it is left to fail. A
// panic of the evaluator is such a failure.
func valueOf(ctx context.Context, c *ast.Compiler, store storage.Store, txn storage.Transaction, cancel topdown.Cancel, rule ast.Ref) (value *ast.Term) {
	defer func() {
		if recover() != nil {
			value = nil
		}
	}()
	rs, err := topdown.NewQuery(ast.NewBody(ast.Equality.Expr(ast.VarTerm("value"), ast.NewTerm(rule)))).
		WithCompiler(c).WithStore(store).WithTransaction(txn).WithCancel(cancel).WithStrictBuiltinErrors(true).Run(ctx)
	if err != nil || len(rs) != 1 {
		return nil
	}
	return rs[0]["value"]
}

func become(same []*ast.Rule, value *ast.Term) {
	if value == nil {
		return
	}
	for _, r := range same {
		ast.WalkRules(r, func(r *ast.Rule) bool {
			if !r.Default {
				r.Head.Value = value
				r.Body = ast.NewBody(ast.NewExpr(ast.BooleanTerm(true)))
			}
			return false
		})
	}
}
