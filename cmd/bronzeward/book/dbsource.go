package book

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/cli"
)

// database reads decisions in the book's own database, as an auditor. Safe for concurrent use.
type database struct {
	reader *audit.Reader
	tree   treeReader
}

func (d *database) list(ctx context.Context, q question) ([]decision, string, error) {
	after, err := cursorOf(q.after)
	if err != nil {
		return nil, "", err
	}
	page := audit.Page{After: after}
	if q.oldest {
		page.Order = audit.OldestFirst
	}
	out := make([]decision, 0, q.limit)
	for {
		page.Limit = q.limit - len(out)
		rows, next, err := d.reader.List(ctx, q.Filter, page)
		if err != nil {
			return nil, "", noBook(err)
		}
		for i := range rows {
			out = append(out, viewDecision(&rows[i]))
		}
		// A page may be short, or empty, without being the last one: it looked through enough.
		if next.IsZero() || len(out) >= q.limit {
			return out, next.String(), d.addResources(ctx, out)
		}
		page.After = next
	}
}

// addResources says of COSI calls which resource they named. It is in the facts alone.
func (d *database) addResources(ctx context.Context, list []decision) error {
	var some []row
	at := map[uuid.UUID]int{}
	for i, one := range list {
		if strings.HasPrefix(one.Method, cosiMethods) {
			id := uuid.MustParse(one.ID) // it was printed from one
			some = append(some, row{id: id, recordedAt: one.Time})
			at[id] = i
		}
	}
	if err := d.tree.addRecords(ctx, some); err != nil {
		return err
	}
	for _, one := range some {
		list[at[one.id]].Resource = resourceOf(one.record)
	}
	return nil
}

// cosiMethods is how methods begin that name a resource.
const cosiMethods = "/cosi.resource.State/"

// resourceOf is the resource a record's call names; empty when it names none.
func resourceOf(record []byte) string {
	var r struct {
		Facts json.RawMessage `json:"facts"`
	}
	var f struct {
		Call struct {
			Resource *struct {
				Namespace string `json:"namespace"`
				Type      string `json:"type"`
				ID        string `json:"id"`
			} `json:"resource"`
		} `json:"call"`
	}
	if json.Unmarshal(record, &r) != nil || json.Unmarshal(r.Facts, &f) != nil || f.Call.Resource == nil {
		return ""
	}
	text := f.Call.Resource.Type
	if f.Call.Resource.ID != "" {
		text += "/" + f.Call.Resource.ID
	}
	return text
}

func (d *database) show(ctx context.Context, id uuid.UUID) (*whole, error) {
	found, err := d.reader.Get(ctx, id)
	if errors.Is(err, audit.ErrNotFound) {
		return nil, fmt.Errorf("no decision has the id %s", id)
	}
	if err != nil {
		return nil, noBook(err)
	}
	w := &whole{Decision: viewDecision(&found), Leaf: fmt.Sprintf("%x", found.Leaf), Outcomes: []outcome{}, looked: true}
	w.setRecord(found.Record)
	w.Decision.Resource = resourceOf(found.Record)
	for _, o := range found.Outcomes {
		w.Outcomes = append(w.Outcomes, viewOutcome(&o))
	}
	w.Place, err = d.tree.place(ctx, id)
	return w, err
}

func (d *database) follow(ctx context.Context, f audit.Filter, after string, limit int) ([]decision, string, bool, error) {
	from, err := d.place(ctx, after, limit)
	if err != nil {
		return nil, "", false, err
	}
	found, to, err := d.reader.InOrder(ctx, f, audit.OrderPage{After: audit.Place{Tree: from.tree, Index: from.index}, Limit: limit})
	if err != nil {
		return nil, "", false, away(err)
	}
	out := make([]decision, 0, len(found))
	for i := range found {
		switch one := &found[i]; {
		case one.Entry != nil:
			out = append(out, viewDecision(one.Entry))
		default:
			out = append(out, decision{ID: one.ID.String(), Time: one.RecordedAt, Verdict: "missing", Codes: []string{}})
		}
	}
	next := place{to.Tree, to.Index}
	return out, next.String(), next != from, d.addResources(ctx, out)
}

// place reads where a page of follow ended, or the id of a decision; with neither it is before
// the newest limit decisions.
func (d *database) place(ctx context.Context, after string, limit int) (place, error) {
	if after == "" {
		return d.tree.newest(ctx, limit)
	}
	if tree, index, ok := strings.Cut(after, "."); ok {
		t, err := strconv.ParseInt(tree, 10, 32)
		i, err2 := strconv.ParseInt(index, 10, 64)
		if err := errors.Join(err, err2); err != nil {
			return place{}, fmt.Errorf("reading a place in the tree: %w", err)
		}
		return place{int32(t), i}, nil
	}
	id, err := cli.ParseID(after)
	if err != nil {
		return place{}, err
	}
	return d.tree.behind(ctx, id)
}

// String is how follow names a place.
func (p place) String() string { return fmt.Sprintf("%d.%d", p.tree, p.index) }
