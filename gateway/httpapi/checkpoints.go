package httpapi

import (
	"context"
	"errors"
	"math"
	"strconv"

	"bronzeward/audit"
	"bronzeward/audit/tree"
	"bronzeward/gateway/httpapi/api"
)

// listCheckpoints is a page of the signed heads, newest first.
func (d *door) listCheckpoints(c *call) (answer, error) {
	q := c.query("tree", "limit", "cursor")
	limit := q.limit()
	number, size := q.afterCheckpoint()
	if newest := q.count("tree", math.MaxInt32); newest > 0 && (number == 0 || number > int32(newest)) {
		number, size = int32(newest), math.MaxInt64
	}
	if q.err != nil {
		return nil, q.err
	}
	if err := c.reads(actProofsRead); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, readWithin)
	defer cancel()
	found, err := d.Checkpoints.CheckpointsBefore(ctx, number, size, limit+1)
	if err != nil {
		return nil, unread(err)
	}
	page, next := pageOf(found, limit, func(one *audit.StoredCheckpoint) string {
		return cursorOf(listOfCheckpoints, strconv.Itoa(int(one.Tree)), strconv.FormatInt(one.Size, 10))
	})
	body := api.CheckpointList{Items: make([]api.Checkpoint, 0, len(page)), Next: next}
	for _, one := range page {
		body.Items = append(body.Items, api.Checkpoint{
			Tree: one.Tree, Origin: one.Origin, Epoch: one.Epoch.String(), Size: one.Size, Root: one.Root, SignedAt: one.SignedAt.UTC(), Note: one.Note,
		})
	}
	return api.ListCheckpoints200JSONResponse{Body: body}.VisitListCheckpointsResponse, nil
}

// afterCheckpoint is the checkpoint a page begins behind; zero begins the list.
func (q *query) afterCheckpoint() (tree int32, size int64) {
	key := q.cursor(listOfCheckpoints, 2)
	if key == nil {
		return 0, 0
	}
	number, err := strconv.ParseInt(key[0], 10, 32)
	size, errSize := strconv.ParseInt(key[1], 10, 64)
	if err != nil || errSize != nil || number < 1 || size < 1 || cursorOf(listOfCheckpoints, strconv.FormatInt(number, 10), strconv.FormatInt(size, 10)) != q.values.Get("cursor") {
		q.fail(malformed("the parameter cursor is not one that this list gave as next"))
		return 0, 0
	}
	return int32(number), size
}

// getConsistency proves that a tree begins with what it was.
func (d *door) getConsistency(c *call) (answer, error) {
	q := c.query("tree", "from", "to")
	number, from, to := q.count("tree", math.MaxInt32), q.count("from", tree.MaxSize), q.count("to", tree.MaxSize)
	switch {
	case q.err != nil:
		return nil, q.err
	case number == 0 || from == 0 || to == 0:
		return nil, malformed("the parameters tree, from and to say which tree is compared, at which two sizes: give all of them")
	case to < from:
		return nil, malformed("the parameter to is the larger size, and from the smaller one")
	}
	if err := c.reads(actProofsRead); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, readWithin)
	defer cancel()
	proof, err := d.Prover.Consistency(ctx, int32(number), from, to)
	if errors.Is(err, tree.ErrMissing) {
		p := conflict("BW-HTTP-409", "there is no such tree, or it has not all of those leaves",
			"sizes are those of its checkpoints; if these are, ask an auditor with a login of the database to verify the book")
		p.cause = err
		return nil, p
	}
	if err != nil {
		return nil, unread(err)
	}
	body := api.Consistency{Tree: int32(number), From: from, To: to, Hashes: make([][]byte, 0, len(proof))}
	for i := range proof {
		body.Hashes = append(body.Hashes, proof[i][:])
	}
	return api.GetConsistency200JSONResponse{Body: body}.VisitGetConsistencyResponse, nil
}

// count is a parameter from 1 to most; 0 when it is left out.
func (q *query) count(name string, most int64) int64 {
	if !q.values.Has(name) {
		return 0
	}
	n, err := strconv.ParseInt(q.values.Get(name), 10, 64)
	if err != nil || n < 1 || n > most {
		q.fail(malformed("the parameter %s is a number from 1 to %d, not %s", name, most, quoted(q.values.Get(name))))
		return 0
	}
	return n
}
