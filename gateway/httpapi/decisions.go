package httpapi

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"time"

	"bronzeward/audit"
	"bronzeward/audit/tree"
	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
)

const (
	listOfDecisions   = "decisions"
	listOfFollowing   = "decisions-followed"
	listOfCheckpoints = "checkpoints"

	// readWithin bounds one read of the book; a page takes some milliseconds.
	readWithin = 10 * time.Second
)

// listDecisions is a page of the book by what its entries say, or of following it.
func (d *door) listDecisions(c *call) (answer, error) {
	q := c.query("machine", "cluster", "subject", "issuer", "digest", "path", "code", "verdict", "kind", "class", "method",
		"change", "attempt", "epoch", "since", "until", "order", "own", "follow", "after", "wait", "limit", "cursor")
	rd, limit := q.reading(), q.limit()
	after, wait, cursor := q.id("after"), q.wait(), q.values.Get("cursor")
	switch {
	case q.err != nil:
		return nil, q.err
	case q.values.Has("after") && cursor != "":
		return nil, malformed("the parameter after begins a reading, and cursor goes on with one: give one of them")
	case !rd.follow && wait > 0:
		return nil, malformed("the parameter wait goes with follow=true")
	case rd.follow && q.values.Has("order"):
		return nil, malformed("the parameter order is none of following: entries come as the tree has them")
	}
	if rd.own {
		if q.values.Has("subject") || q.values.Has("issuer") {
			return nil, malformed("the parameter own says whose entries are wanted: leave subject and issuer out")
		}
		if !audit.Searchable(c.by.Caller.Issuer) || !audit.Searchable(c.by.Caller.Subject) {
			return nil, malformed("the caller's name is too long for the book to be searched by it: ask an auditor")
		}
		rd.filter.Issuer, rd.filter.Subject = c.by.Caller.Issuer, c.by.Caller.Subject
	}
	if err := rd.filter.Validate(); err != nil {
		return nil, malformed("%s", err.Error())
	}
	if wait > 0 {
		// It is counted before the request is judged, because that leaves its entry.
		if err := c.hold(holdsWait); err != nil {
			return nil, err
		}
	}
	list := listOfDecisions
	if rd.follow {
		list = listOfFollowing
	}
	place := ""
	if cursor == "" {
		if err := c.begin(&rd); err != nil {
			return nil, err
		}
	} else {
		var err error
		if place, err = c.resume(&rd, list, cursor); err != nil {
			return nil, err
		}
	}
	if err := d.knownMachine(c, &rd, q.values.Get("machine")); err != nil {
		return nil, err
	}
	if rd.follow {
		return d.follow(c, &rd, place, after, limit, wait)
	}
	return d.page(c, &rd, place, after, limit)
}

// knownMachine takes a machine that is named by its id by its name besides, which is what the
// book is searched by.
func (d *door) knownMachine(c *call, rd *reading, text string) error {
	id, ok := byID(text)
	if !ok {
		rd.filter.Machine = text
		return nil
	}
	rd.filter.MachineID = id
	m, err := d.Machines.Machine(c.ctx, id)
	if errors.Is(err, control.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	rd.filter.Machine = m.Name
	return nil
}

// reading is what the parameters ask of the book.
func (q *query) reading() reading {
	rd := reading{act: actDecisionsRead, own: q.flag("own"), follow: q.flag("follow"), asked: maps.Clone(q.values)}
	switch {
	case rd.own:
		rd.act = actOwn
	case rd.follow:
		rd.act = actDecisionsFollow
	}
	for _, name := range []string{"limit", "cursor", "wait", "after"} {
		rd.asked.Del(name)
	}
	if rd.asked == nil {
		rd.asked = url.Values{}
	}
	q.text("machine", mostWord)
	rd.filter = audit.Filter{
		Cluster: q.text("cluster", mostWord), Subject: q.text("subject", mostName), Issuer: q.text("issuer", mostName),
		Digests: q.digests(), Path: q.text("path", 512), Code: q.pattern("code", aCode, "a code, such as BW-MODE-002"),
		Verdict: audit.Verdict(q.word("verdict", "allow", "deny", "refuse")), Kind: audit.Kind(q.word("kind", "rpc", "http", "policy", "system")),
		Class: q.text("class", mostWord), Method: q.text("method", mostWord), ChangeID: q.change(), AttemptID: q.id("attempt"), Epoch: q.id("epoch"),
		Since: q.time("since"), Until: q.time("until"),
	}
	if q.word("order", "newest", "oldest") == "oldest" {
		rd.order = audit.OldestFirst
	}
	return rd
}

// getDecision shows one entry and what belongs to it.
func (d *door) getDecision(c *call) (answer, error) {
	q := c.query("own")
	own := q.flag("own")
	if q.err != nil {
		return nil, q.err
	}
	id, err := c.decisionID()
	if err != nil {
		return nil, err
	}
	rd := reading{act: actDecisionsRead, own: own}
	if own {
		rd.act = actOwn
	}
	if err := c.reads(rd.act); err != nil {
		return nil, c.mayOwn(&rd, err)
	}
	ctx, cancel := context.WithTimeout(c.ctx, readWithin)
	defer cancel()
	var row audit.Row
	if own {
		row, err = d.Decisions.GetOf(ctx, id, c.by.Caller.Issuer, c.by.Caller.Subject)
	} else {
		row, err = d.Decisions.Get(ctx, id)
	}
	if err != nil {
		return nil, noDecision(err, own)
	}
	body, err := d.wholeDecision(ctx, &row)
	if err != nil {
		return nil, err
	}
	return api.GetDecision200JSONResponse{Body: body}.VisitGetDecisionResponse, nil
}

// noDecision says that an entry is not there; to somebody who may see their own alone, the
// same of everybody else's.
func noDecision(err error, own bool) error {
	if !errors.Is(err, audit.ErrNotFound) {
		return unread(err)
	}
	p := &problem{status: http.StatusNotFound, code: "BW-HTTP-404", detail: "there is no such decision"}
	if own {
		p.detail, p.hint = "there is no such decision of yours", "an auditor reads those of others"
	}
	return p
}

// getDecisionProof proves that an entry stands in the book.
func (d *door) getDecisionProof(c *call) (answer, error) {
	id, err := c.decisionID()
	if err != nil {
		return nil, err
	}
	if err := c.onlyReads(actProofsRead); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, readWithin)
	defer cancel()
	proof, err := d.Prover.Prove(ctx, id)
	if err != nil {
		return nil, noProof(err)
	}
	text, err := proof.Encode()
	if err != nil {
		return nil, err
	}
	return func(w http.ResponseWriter) error {
		w.Header().Set("Content-Type", jsonType)
		w.WriteHeader(http.StatusOK)
		_, err := w.Write(text)
		return err
	}, nil
}

func noProof(err error) error {
	switch {
	case errors.Is(err, tree.ErrNotFound):
		return &problem{status: http.StatusNotFound, code: "BW-HTTP-404", detail: "there is no such decision"}
	case errors.Is(err, tree.ErrNotSigned):
		p := conflict("BW-HTTP-409", "this decision is in the book and not under a checkpoint yet", "try again in some seconds")
		p.header = retryAfter(2)
		return p
	}
	return unread(err)
}

// unread is how a book that cannot be read is answered.
func unread(err error) error {
	var row *audit.RowError
	switch {
	case errors.As(err, &row) && row.SQLState == queryCanceled:
		return &problem{
			status: http.StatusGatewayTimeout, code: "BW-HTTP-504", detail: "the database took too long to read this", cause: err,
			hint: "ask for less: a shorter time, or a smaller limit",
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, tree.ErrBroken):
		return err
	}
	return &problem{
		status: http.StatusServiceUnavailable, code: "BW-HTTP-503", detail: "the book cannot be read now", cause: err,
		hint: "try again", header: retryAfter(1),
	}
}

// queryCanceled is PostgreSQL's code for a statement that took too long.
const queryCanceled = "57014"
