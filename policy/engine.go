package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// DefaultBudget is how long one decision may take. Half a second is twice what the
// largest configuration takes and well below what talosctl waits.
const DefaultBudget = 500 * time.Millisecond

// The entry points of the law.
const (
	AdmissionQuery = "data.bronzeward.admission.decision"
	APIQuery       = "data.bronzeward.api.decision"
)

// EngineConfig configures an Engine. The zero value is good.
type EngineConfig struct {
	// Budget is how long one decision may take; zero means DefaultBudget. A decision
	// over its budget is a denial.
	Budget time.Duration
	// Logger is told why the engine itself denied; nil logs nothing.
	Logger *slog.Logger
}

// Engine judges. All methods are safe for concurrent use.
type Engine struct {
	budget time.Duration
	log    *slog.Logger
	live   atomic.Pointer[law]

	mu     sync.Mutex // held where live changes
	before *law       // what was live before, for a rollback; guarded by mu
	ahead  []*law     // prepared, the last one first; guarded by mu

	compilations atomic.Int64

	// heard is told why the engine itself denied, by a trial that nobody shares; null otherwise.
	heard func(cause error)
}

// law is one compiled revision.
type law struct {
	revision  string
	admission rego.PreparedEvalQuery
	api       rego.PreparedEvalQuery
	compiler  *ast.Compiler
	bundle    *Bundle
}

// New makes an engine without a law: it denies everything with BW-POLICY-001.
func New(c EngineConfig) *Engine {
	if c.Budget <= 0 {
		c.Budget = DefaultBudget
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Engine{budget: c.Budget, log: c.Logger}
}

// Use compiles a bundle, unless it is prepared, and makes it the law. Calls that are being
// judged finish under the law they began with. On an error the law stays what it was.
func (e *Engine) Use(ctx context.Context, b *Bundle) error {
	if b != nil && e.UsePrepared(b.revision) {
		return nil
	}
	l, err := e.compile(ctx, b)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.swap(l)
	return nil
}

// Revision is the live law's revision, empty without one.
func (e *Engine) Revision() string {
	if l := e.live.Load(); l != nil {
		return l.revision
	}
	return ""
}

func prepare(ctx context.Context, b *Bundle) (*law, error) {
	if b == nil {
		return nil, errors.New("preparing bundle: there is none")
	}
	c, store, err := b.parsed.compile(false)
	if err != nil {
		return nil, err
	}
	if err := lighten(ctx, c, store); err != nil {
		return nil, err
	}
	l := &law{revision: b.revision, compiler: c, bundle: b}
	if err := l.query(ctx, store); err != nil {
		return nil, err
	}
	return l, nil
}

// query prepares the two questions the engine asks of the law.
func (l *law) query(ctx context.Context, store storage.Store) (err error) {
	for _, q := range []struct {
		text string
		into *rego.PreparedEvalQuery
	}{{AdmissionQuery, &l.admission}, {APIQuery, &l.api}} {
		*q.into, err = rego.New(
			rego.Query(q.text),
			rego.Compiler(l.compiler),
			rego.Store(store),
			rego.Capabilities(capabilities()),
			rego.SetRegoVersion(ast.RegoV1),
			rego.StrictBuiltinErrors(true),
		).PrepareForEval(ctx)
		if err != nil {
			return fmt.Errorf("preparing %s: %w", q.text, err)
		}
	}
	return nil
}

// Decide judges a Call. It never fails: every failure is a denial with a code
// BW-POLICY-0xx and the revision that was live.
func (e *Engine) Decide(ctx context.Context, f *Facts) Decision {
	l := e.live.Load()
	switch {
	case l == nil:
		return e.fail(ctx, "", CodeNoPolicy, nil)
	case f == nil || f.Version != FactsVersion:
		return e.fail(ctx, l.revision, CodeFacts, nil)
	}
	in, err := factsValue(f)
	if err != nil {
		return e.fail(ctx, l.revision, CodeFacts, err)
	}
	return e.judge(ctx, l, l.admission, in, readAdmission)
}

// Quorum is what the live law asks before an ordinary apply may go on, for readiness and
// people; without a law it is the zero value. What counts for a call is in its Decision.
func (e *Engine) Quorum(ctx context.Context) Quorum { return e.Decide(ctx, sampleApply()).Approvals }

// DecideAct judges an act on Bronzeward itself, as Decide does a Call. The Decision has
// no upstream roles.
func (e *Engine) DecideAct(ctx context.Context, a *Act) Decision {
	l := e.live.Load()
	switch {
	case l == nil:
		return e.fail(ctx, "", CodeNoPolicy, nil)
	case a == nil || a.Version != FactsVersion:
		return e.fail(ctx, l.revision, CodeFacts, nil)
	}
	return e.judge(ctx, l, l.api, actValue(a), readAct)
}

func (e *Engine) judge(ctx context.Context, l *law, q rego.PreparedEvalQuery, in ast.Value, read func(any) (Decision, error)) (d Decision) {
	defer func() {
		// A panic of the evaluator is a denial like any other failure, and takes
		// nobody else's call with it.
		if p := recover(); p != nil {
			d = e.fail(ctx, l.revision, CodeEvaluation, errors.New("evaluator panicked: "+PanicText(p)))
		}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, e.budget, errBudget)
	defer cancel()
	// Without a cancel of ours OPA starts a goroutine for each decision, to wait for ctx.
	late := topdown.NewCancel()
	defer context.AfterFunc(ctx, late.Cancel)()
	rs, err := q.Eval(ctx, rego.EvalParsedInput(in), rego.EvalExternalCancel(late))
	if ctx.Err() != nil {
		// Late is late, even if an answer came: what took longer than the budget
		// is not trusted to be complete.
		return e.fail(ctx, l.revision, causeCode(ctx), err)
	}
	if err != nil {
		return e.fail(ctx, l.revision, CodeEvaluation, err)
	}
	d, code, err := readResult(rs, read)
	if err != nil {
		return e.fail(ctx, l.revision, code, err)
	}
	d.Revision, d.OPA = l.revision, OPAVersion()
	return d
}

var errBudget = errors.New("decision over its budget")

func causeCode(ctx context.Context) string {
	if errors.Is(context.Cause(ctx), errBudget) {
		return CodeBudget
	}
	return CodeCancelled
}

// fail is the engine's own denial. The cause goes to the log only.
func (e *Engine) fail(ctx context.Context, revision, code string, cause error) Decision {
	d := Deny(code, ownMessages[code].text, ownMessages[code].hint)
	d.Revision, d.OPA = revision, OPAVersion()
	if e.heard != nil {
		if code == CodeBudget {
			cause = fmt.Errorf("%w of %s", errBudget, e.budget)
		}
		e.heard(cause)
	}
	attrs := []slog.Attr{slog.String("code", code), slog.String("revision", revision)}
	if cause != nil && !topdown.IsCancel(cause) {
		attrs = append(attrs, slog.String("cause", cause.Error()))
	}
	e.log.LogAttrs(ctx, slog.LevelError, "policy engine denied by itself", attrs...)
	return d
}
