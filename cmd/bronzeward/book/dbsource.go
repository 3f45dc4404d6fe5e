package book

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

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
	page := audit.Page{Limit: q.limit, After: after}
	if q.oldest {
		page.Order = audit.OldestFirst
	}
	rows, next, err := d.reader.List(ctx, q.Filter, page)
	if err != nil {
		return nil, "", err
	}
	out := make([]decision, 0, len(rows))
	for i := range rows {
		out = append(out, viewDecision(&rows[i]))
	}
	return out, next.String(), d.addResources(ctx, out)
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
		return nil, err
	}
	w := &whole{Decision: viewDecision(&found), Leaf: fmt.Sprintf("%x", found.Leaf), Record: found.Record}
	w.Decision.Resource = resourceOf(found.Record)
	for _, o := range found.Outcomes {
		w.Outcomes = append(w.Outcomes, viewOutcome(&o))
	}
	w.Place, err = d.tree.place(ctx, id)
	return w, err
}

func (d *database) follow(ctx context.Context, after string, limit int) ([]decision, string, error) {
	at, err := d.place(ctx, after, limit)
	if err != nil {
		return nil, "", err
	}
	rows, err := d.tree.rows(ctx, at, theEnd(), span{}, true, limit)
	if err != nil {
		return nil, "", err
	}
	out := make([]decision, 0, len(rows))
	for i := range rows {
		out = append(out, viewRow(&rows[i]))
		at = rows[i].place
	}
	return out, at.String(), nil
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

// viewRow is a decision read from its record.
func viewRow(r *row) decision {
	e, err := audit.ParseEntry(r.record)
	if err != nil {
		return decision{ID: r.id.String(), Time: r.recordedAt, Verdict: "unreadable", Codes: []string{}}
	}
	one := viewEntry(&e, r.recordedAt)
	one.Resource = resourceOf(r.record)
	return one
}

// viewEntry is a decision as its record says it.
func viewEntry(e *audit.Entry, recordedAt time.Time) decision {
	one := decision{
		ID: e.ID.String(), Time: recordedAt, Kind: string(e.Kind), Verdict: string(e.Verdict), Codes: e.Codes,
		Issuer: e.Caller.Issuer, Subject: e.Caller.Subject, Client: e.ClientAddress, Machine: e.MachineName, Cluster: e.Cluster,
		Method: e.Method, Class: e.Class, Mode: e.Mode, DryRun: e.DryRun, Digest: e.Digest, Base: e.Base, Persistent: e.Persistent,
		Change: e.ChangeID, Revision: e.PolicyRevision, Count: e.Count,
	}
	if one.Codes == nil {
		one.Codes = []string{}
	}
	if e.AttemptID != uuid.Nil {
		one.Attempt = e.AttemptID.String()
	}
	return one
}
