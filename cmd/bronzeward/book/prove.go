package book

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"bronzeward/audit/tree"
	"bronzeward/cmd/bronzeward/cli"
)

type proveCmd struct {
	ReachFlags
	Wait bool   `help:"Wait until the decision is under a checkpoint."`
	ID   string `arg:"" help:"Decision id, as a refusal, a receipt or the list names it: all of it."`
}

// prover makes proofs: the book's database, or whoever else has it.
type prover interface {
	// prove has tree.ErrNotFound or tree.ErrNotSigned in the chain of its error.
	prove(ctx context.Context, id uuid.UUID) (tree.Proof, error)
}

type databaseProver struct{ pool *pgxpool.Pool }

func (d databaseProver) prove(ctx context.Context, id uuid.UUID) (tree.Proof, error) {
	p, err := tree.Prove(ctx, d.pool, id)
	if err != nil && !errors.Is(err, tree.ErrNotFound) && !errors.Is(err, tree.ErrNotSigned) && !errors.Is(err, tree.ErrBroken) {
		err = away(err)
	}
	return p, err
}

// Run prints the proof.
func (p *proveCmd) Run(ctx context.Context, g *cli.Globals, from Settings) error {
	id, err := decisionID(p.ID)
	if err != nil {
		return err
	}
	if g.Output == "yaml" {
		return cli.Usage(errors.New("-o yaml: a proof is a file of its own form, in JSON"))
	}
	pool, client, closing, err := p.reach(ctx, g, from)
	if err != nil {
		return err
	}
	defer closing()
	var where prover = databaseProver{pool}
	if client != nil {
		where = gatewayProver{client}
	}
	proof, err := p.proof(ctx, g, where, id)
	if err != nil {
		return err
	}
	text, err := proof.Encode()
	if err != nil {
		return err
	}
	_, err = g.Raw().Write(text)
	return err
}

func (p *proveCmd) proof(ctx context.Context, g *cli.Globals, from prover, id uuid.UUID) (tree.Proof, error) {
	progress := g.NewProgress()
	defer progress.Begin("waiting for a checkpoint over decision " + id.String())()
	for {
		proof, err := from.prove(ctx, id)
		switch {
		case errors.Is(err, tree.ErrNotFound):
			return proof, fmt.Errorf("no decision has the id %s", id)
		case errors.Is(err, tree.ErrBroken):
			return proof, cli.NotWhole(fmt.Errorf("%w; `bronzeward decisions verify` tells what is wrong, and where", err))
		case !errors.Is(err, tree.ErrNotSigned):
			return proof, err
		case !p.Wait:
			return proof, cli.NotYet(fmt.Errorf("decision %s is in the book and not under a checkpoint yet: a gateway that reaches OpenBao signs one every few seconds (%s); --wait waits for it",
				id, tree.DefaultCheckpointEvery))
		}
		if err := pauseFor(ctx, g, time.Second); err != nil {
			return proof, err
		}
	}
}

// pauseFor waits, for the console's own time if it has one.
func pauseFor(ctx context.Context, g *cli.Globals, d time.Duration) error {
	if g.Pause > 0 {
		d = g.Pause
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
