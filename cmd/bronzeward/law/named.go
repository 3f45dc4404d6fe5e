package law

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"bronzeward/cmd/bronzeward/book"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/policy"
	"bronzeward/policytest/replay"
)

// replayBudget is how long one past decision may take: a busy computer must not make a law look
// stricter than it is.
const replayBudget = 20 * policy.DefaultBudget

// named finds laws by what people call them: a directory, a revision or its beginning, live or shipped.
type named struct {
	// open gives what has the saved laws; it is asked once a name needs it.
	open func(ctx context.Context) (book.Past, error)
}

// namedAt finds saved laws where the flags say, which are reached at the first name that needs it.
func namedAt(f book.ReachFlags, g *cli.Globals, from book.Settings) (laws named, closing func()) {
	var past book.Past
	return named{func(ctx context.Context) (book.Past, error) {
		var err error
		if past == nil {
			past, err = f.OpenPast(ctx, g, from)
		}
		return past, err
	}}, func() {
		if past != nil {
			past.Close()
		}
	}
}

// find gives the law of a name.
func (n named) find(ctx context.Context, name string) (*policy.Bundle, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return loadBundle(name)
	}
	if name == "shipped" {
		return policy.Shipped()
	}
	saved := name == "live" || book.RevisionLike(name)
	if !saved {
		return nil, cli.Usage(fmt.Errorf("%q is no directory, and no revision, which has 64 hex digits, the first eight of which are enough; live and shipped are names too", name))
	}
	past, err := n.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking for the law %s: %w", name, err)
	}
	if name == "live" {
		if name, err = past.Live(ctx); err == nil && name == "" {
			err = errors.New("no law is live: bronzeward policy activate DIR")
		}
		if err != nil {
			return nil, err
		}
	}
	return past.Law(ctx, name)
}

// ready compiles a law for judging what is past.
func ready(ctx context.Context, b *policy.Bundle) (*policy.Engine, error) {
	engine := policy.New(policy.EngineConfig{Budget: replayBudget})
	if err := engine.Use(ctx, b); err != nil {
		return nil, err
	}
	return engine, nil
}

// draft judges everything by one law.
func draft(ctx context.Context, b *policy.Bundle) (replay.Laws, error) {
	engine, err := ready(ctx, b)
	if err != nil {
		return nil, err
	}
	return func(context.Context, string) (*policy.Engine, error) { return engine, nil }, nil
}

// keptLaws is how many laws are kept compiled; decisions of one law come mostly together.
const keptLaws = 16

// own judges each decision by the law it was made by.
func own(past book.Past) (replay.Laws, error) {
	compiled, err := lru.New[string, *policy.Engine](keptLaws)
	if err != nil {
		return nil, err
	}
	missing := map[string]error{}
	var mu sync.Mutex // guards both, and is held while a law is compiled, so that it is compiled once
	return func(ctx context.Context, revision string) (*policy.Engine, error) {
		mu.Lock()
		defer mu.Unlock()
		if engine, ok := compiled.Get(revision); ok {
			return engine, nil
		}
		if err := missing[revision]; err != nil {
			return nil, err
		}
		b, err := past.Law(ctx, revision)
		if errors.Is(err, replay.ErrNotKept) {
			missing[revision] = err
		}
		if err != nil {
			return nil, err
		}
		engine, err := ready(ctx, b)
		if err != nil {
			return nil, fmt.Errorf("compiling the law %.12s: %w", revision, err)
		}
		compiled.Add(revision, engine)
		return engine, nil
	}, nil
}
