package tree

import (
	"errors"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// errGathered answers the question for hashes that are not read yet.
var errGathered = errors.New("noted, and not read yet")

// gatherer notes which hashes are asked for, reads all of them in one round trip, and then answers. It is a
// tlog.HashReader, not safe for concurrent use.
type gatherer struct {
	from   *HashReader
	wanted []int64
	known  map[int64]tlog.Hash
}

// ReadHashes answers with errGathered until read was called.
func (g *gatherer) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		h, ok := g.known[index]
		if !ok {
			g.wanted = append(g.wanted, indexes[i:]...)
			return nil, errGathered
		}
		out[i] = h
	}
	return out, nil
}

// read reads what was asked for.
func (g *gatherer) read() error {
	slices.Sort(g.wanted)
	wanted := slices.Compact(g.wanted)
	if len(wanted) == 0 {
		return nil
	}
	hashes, err := g.from.ReadHashes(wanted)
	if err != nil {
		return err
	}
	g.known = make(map[int64]tlog.Hash, len(wanted))
	for i, index := range wanted {
		g.known[index] = hashes[i]
	}
	return nil
}
