package policy

import (
	"context"
	"errors"
	"slices"
)

// keptAhead is how many laws an engine keeps compiled besides the live one and the one that was live before
// it: one that is about to become live, and one that somebody else saved meanwhile. Four in all, because a
// compiled law is many times its bytes, and a bundle may have eight megabytes.
const keptAhead = 2

// Prepare compiles a bundle ahead, so that Use of it, or UsePrepared, is the exchange of a pointer. It makes
// nothing live. The live law and the one before it stay prepared, and of others the last two. What a bundle
// is proven by is the caller's to have verified, and to look at again before it becomes live; a prepared law
// is bound to its revision, which is the digest of its files.
func (e *Engine) Prepare(ctx context.Context, b *Bundle) error {
	if b == nil {
		return errors.New("preparing bundle: there is none")
	}
	e.mu.Lock()
	known := e.find(b.revision)
	e.mu.Unlock()
	if known != nil {
		return nil
	}
	l, err := e.compile(ctx, b)
	if err != nil {
		return err
	}
	e.warm(ctx, l)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.find(l.revision) == nil {
		e.ahead = slices.Insert(e.ahead, 0, l)
		e.ahead = slices.Clone(e.ahead[:min(len(e.ahead), keptAhead)]) // so that what is beyond is let go
	}
	return nil
}

// UsePrepared makes a law that Prepare compiled, or that was live just before, the law; false when it is not
// there, and the law stays what it was.
func (e *Engine) UsePrepared(revision string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.find(revision)
	if l != nil {
		e.swap(l)
	}
	return l != nil
}

// Prepared are the revisions that are compiled, the live one first.
func (e *Engine) Prepared() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	for l := range e.kept {
		out = append(out, l.revision)
	}
	return out
}

// Compilations is how many laws this engine has compiled.
func (e *Engine) Compilations() int64 { return e.compilations.Load() }

// compile is prepare, counted. A panic of the compiler is a law that does not compile: it may be one that is only
// saved, and takes nobody's process with it.
func (e *Engine) compile(ctx context.Context, b *Bundle) (l *law, err error) {
	defer func() {
		if p := recover(); p != nil {
			l, err = nil, errors.New("compiling bundle: the compiler panicked: "+PanicText(p))
		}
	}()
	e.compilations.Add(1)
	return prepare(ctx, b)
}

// warm judges a sample by a new law, for what the evaluator works out once and keeps. What is answered is
// nobody's, and one that takes too long ends with the budget.
func (e *Engine) warm(ctx context.Context, l *law) {
	aside := New(EngineConfig{Budget: e.budget})
	aside.live.Store(l)
	aside.Decide(ctx, sampleApply())
	aside.DecideAct(ctx, &Act{Version: FactsVersion, Act: "machines.read", Now: sampleApply().Now})
}

// kept gives the compiled laws, the live one first. mu is held.
func (e *Engine) kept(yield func(*law) bool) {
	for _, l := range append([]*law{e.live.Load(), e.before}, e.ahead...) {
		if l != nil && !yield(l) {
			return
		}
	}
}

// find is the compiled law of that revision; null when there is none. mu is held.
func (e *Engine) find(revision string) *law {
	for l := range e.kept {
		if l.revision == revision {
			return l
		}
	}
	return nil
}

// swap makes a law live. mu is held, and never while a law is compiled.
func (e *Engine) swap(l *law) {
	was := e.live.Load()
	if was == l {
		return
	}
	e.ahead = slices.DeleteFunc(e.ahead, func(one *law) bool { return one == l })
	e.before = was
	e.live.Store(l)
}
