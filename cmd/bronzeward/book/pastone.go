package book

import (
	"context"
	"errors"
	"fmt"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/cli"
)

// OpenOne reads one decision where it is found, and gives what else is there. close is to be called when there is
// no error.
func (f SourceFlags) OpenOne(ctx context.Context, g *cli.Globals, from Settings, id string) (e audit.Entry, past Past, closing func(), err error) {
	parsed, err := decisionID(id)
	if err != nil {
		return e, nil, nil, err
	}
	f.Gateway = f.Gateway || f.Own
	pool, client, closing, err := f.reach(ctx, g, from)
	if err != nil {
		return e, nil, nil, err
	}
	var where source
	if pool != nil {
		past, where = PastOf(pool), &database{reader: audit.NewReader(pool), tree: treeReader{pool}}
	} else {
		past, where = PastAt(client), &gateway{Client: client, own: f.Own}
	}
	w, err := where.show(ctx, parsed)
	if err == nil {
		if e, err = audit.ParseEntry(w.raw); err != nil {
			err = errors.Join(fmt.Errorf("reading the record of %s: %w", parsed, err), cli.Changed(errors.New("bronzeward decisions verify tells whether it was changed")))
		}
	}
	if err != nil {
		closing()
		return e, nil, nil, err
	}
	return e, past, closing, nil
}
