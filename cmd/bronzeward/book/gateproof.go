package book

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"bronzeward/audit/tree"
	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// gatewayProver has proofs made by a gateway. It believes it nothing: a proof that does not hold, or is of another
// decision, is none. Its signature is checked by `decisions check`.
type gatewayProver struct{ *ask.Client }

func (g gatewayProver) prove(ctx context.Context, id uuid.UUID) (tree.Proof, error) {
	raw, _, err := ask.Received[json.RawMessage](g.GetDecisionProof(ctx, id.String()))
	switch {
	case ask.HasStatus(err, http.StatusNotFound):
		return tree.Proof{}, fmt.Errorf("%w: %w", tree.ErrNotFound, err)
	case ask.IsProblem(err, "BW-HTTP-409"):
		return tree.Proof{}, fmt.Errorf("%w: %w", tree.ErrNotSigned, err)
	case err != nil:
		return tree.Proof{}, gone(err)
	}
	proof, err := tree.ParseProof(raw)
	if err != nil {
		return proof, fmt.Errorf("what the gateway gave: %w: %w", tree.ErrBroken, err)
	}
	shown, err := proof.Open(everyone{})
	if err != nil {
		return proof, fmt.Errorf("what the gateway gave: %w: %w", tree.ErrBroken, err)
	}
	if shown.Entry.ID != id {
		return proof, fmt.Errorf("what the gateway gave: %w: it is a proof of decision %s", tree.ErrBroken, shown.Entry.ID)
	}
	return proof, nil
}

// gatewayHeads reads checkpoints at a gateway. Of each the note alone counts.
type gatewayHeads struct{ *ask.Client }

// from is the newest checkpoint of the trees up to one, 0 for all.
func (g gatewayHeads) from(ctx context.Context, number int32) (tree.Stored, error) {
	params := api.ListCheckpointsParams{Limit: new(1)}
	if number > 0 {
		params.Tree = &number
	}
	list, _, err := ask.Received[api.CheckpointList](g.ListCheckpoints(ctx, &params))
	if err != nil {
		return tree.Stored{}, gone(err)
	}
	if len(list.Items) == 0 {
		return tree.Stored{}, tree.ErrNotFound
	}
	one := list.Items[0]
	c, err := openNote([]byte(one.Note), nil)
	if err != nil {
		return tree.Stored{}, cli.NotWhole(fmt.Errorf("the checkpoint that the gateway gave: %w", err))
	}
	return tree.Stored{Tree: one.Tree, SignedAt: one.SignedAt, Checkpoint: c}, nil
}

func (g gatewayHeads) newest(ctx context.Context) (tree.Stored, error) { return g.from(ctx, 0) }

func (g gatewayHeads) last(ctx context.Context, origin string) (tree.Stored, error) {
	s, err := g.from(ctx, 0)
	for err == nil && s.Origin != origin {
		before := s.Tree - 1
		if before < 1 {
			return tree.Stored{}, tree.ErrNotFound
		}
		if s, err = g.from(ctx, before); err == nil && s.Tree > before {
			return tree.Stored{}, fmt.Errorf("%w: the gateway gave a checkpoint of tree %d when asked for tree %d", errUnasked, s.Tree, before)
		}
	}
	return s, err
}

func (g gatewayHeads) consistency(ctx context.Context, of tree.Stored, older int64) (tlog.TreeProof, error) {
	got, _, err := ask.Received[api.Consistency](g.GetConsistency(ctx, &api.GetConsistencyParams{Tree: of.Tree, From: older, To: of.Size}))
	switch {
	case ask.IsProblem(err, "BW-HTTP-409"): // the tree has not those leaves
		return nil, err
	case err != nil:
		if err = gone(err); cli.IsUnavailable(err) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", errUnasked, err)
	}
	proof := make(tlog.TreeProof, len(got.Hashes))
	for i, h := range got.Hashes {
		if len(h) != tlog.HashSize {
			return nil, errors.New("the gateway gave a hash of another length")
		}
		proof[i] = tlog.Hash(h)
	}
	return proof, nil
}
