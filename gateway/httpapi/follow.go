package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/gateway/httpapi/api"
)

const (
	// lookedThrough is how many leaves one step of following looks through, and mostSteps how
	// many steps one request takes to catch up with the book.
	lookedThrough = 2000
	mostSteps     = 10
)

// page is one page of a list.
func (d *door) page(c *call, rd *reading, place string, after uuid.UUID, limit int) (answer, error) {
	ctx, cancel := context.WithTimeout(c.ctx, readWithin)
	defer cancel()
	p := audit.Page{Limit: limit, Order: rd.order}
	var err error
	switch {
	case place != "":
		if p.After, err = audit.ParseCursor(place); err != nil || p.After.IsZero() {
			return nil, badCursor("is not one that this list gave as next")
		}
	case after != uuid.Nil:
		row, err := d.afterwards(ctx, c, rd, after)
		if err != nil {
			return nil, err
		}
		p.After = row.Cursor()
	}
	rows, next, err := d.Decisions.List(ctx, rd.filter, p)
	if err != nil {
		return nil, unread(err)
	}
	body := api.DecisionList{Items: make([]api.Decision, 0, len(rows))}
	for i := range rows {
		body.Items = append(body.Items, viewDecision(&rows[i]))
	}
	if !next.IsZero() {
		body.Next = c.cursor(listOfDecisions, next.String())
	}
	return api.ListDecisions200JSONResponse{Body: body}.VisitListDecisionsResponse, nil
}

// afterwards is the entry to begin behind, which is one that the reading may see.
func (d *door) afterwards(ctx context.Context, c *call, rd *reading, after uuid.UUID) (row audit.Row, err error) {
	if rd.own {
		row, err = d.Decisions.GetOf(ctx, after, c.by.Caller.Issuer, c.by.Caller.Subject)
	} else {
		row, err = d.Decisions.Get(ctx, after)
	}
	if errors.Is(err, audit.ErrNotFound) {
		return row, malformed("the parameter after names no decision that this reading may see")
	}
	if err != nil {
		return row, unread(err)
	}
	return row, nil
}

// follow gives what comes behind a place in the order of the tree, and waits for it as long as
// is asked. It ends early with the client, the server, the caller's proof and the caller's
// authority.
func (d *door) follow(c *call, rd *reading, text string, after uuid.UUID, limit int, wait time.Duration) (answer, error) {
	if wait > 0 && !d.waiting.TryAcquire(1) {
		wait = 0
	}
	if wait > 0 {
		defer d.waiting.Release(1)
	}
	until := time.NewTimer(wait)
	defer until.Stop()
	at, err := d.followFrom(c, rd, text, after)
	if err != nil {
		return nil, err
	}
	body := api.DecisionList{Items: []api.Decision{}}
	for step := 0; ; step++ {
		// The head is looked at first: what comes after that look moves it.
		head, err := see(c.ctx, d.bookHead)
		if err != nil {
			return nil, err
		}
		more, err := d.step(c, rd, &at, limit, &body)
		if err != nil {
			return nil, err
		}
		if len(body.Items) > 0 || more && step >= mostSteps {
			break
		}
		if more {
			continue
		}
		if wait == 0 {
			break
		}
		newer, err := c.await("the book's head", []string{head.tag}, head, until.C, d.bookHead)
		if err != nil {
			return nil, err
		}
		if newer.tag == head.tag {
			break // the time is up
		}
	}
	body.Next = c.cursor(listOfFollowing, at.String())
	return api.ListDecisions200JSONResponse{Body: body}.VisitListDecisionsResponse, nil
}

// step adds what comes next, and says whether more may follow at once.
func (d *door) step(c *call, rd *reading, at *followed, limit int, body *api.DecisionList) (more bool, err error) {
	ctx, cancel := context.WithTimeout(c.ctx, readWithin)
	defer cancel()
	if at.behind != uuid.Nil {
		place, err := d.Order.PlaceOf(ctx, at.behind)
		if errors.Is(err, audit.ErrNotSequenced) {
			return false, nil
		}
		if err != nil {
			return false, noDecision(err, rd.own)
		}
		*at = followed{place: place}
	}
	begun := at.place
	rows, next, err := d.Order.InOrder(ctx, rd.filter, audit.OrderPage{After: at.place, Limit: lookedThrough})
	if err != nil {
		return false, unread(err)
	}
	for _, row := range rows {
		if row.Entry == nil {
			continue
		}
		if len(body.Items) == limit {
			return true, nil
		}
		body.Items = append(body.Items, viewDecision(row.Entry))
		at.place = row.Place
	}
	at.place = next
	return next != begun, nil
}

// followed is where following stands: at a place in the tree, or behind an entry that may wait
// for its place still.
type followed struct {
	place  audit.Place
	behind uuid.UUID
}

// String is read by parseFollowed.
func (f followed) String() string {
	if f.behind != uuid.Nil {
		return f.behind.String()
	}
	return strconv.FormatInt(int64(f.place.Tree), 10) + "." + strconv.FormatInt(f.place.Index, 10)
}

// parseFollowed is false for what String does not write.
func parseFollowed(text string) (followed, bool) {
	if id := parseID(text); id != uuid.Nil {
		return followed{behind: id}, true
	}
	of, at, _ := strings.Cut(text, ".")
	number, err := strconv.ParseInt(of, 10, 32)
	index, errIndex := strconv.ParseInt(at, 10, 64)
	f := followed{place: audit.Place{Tree: int32(number), Index: index}}
	if err != nil || errIndex != nil || number < 0 || index < 0 || f.String() != text {
		return followed{}, false
	}
	return f, true
}

// followFrom is where a request begins: at its cursor, behind an entry, or at the end of the
// book.
func (d *door) followFrom(c *call, rd *reading, text string, after uuid.UUID) (followed, error) {
	ctx, cancel := context.WithTimeout(c.ctx, readWithin)
	defer cancel()
	switch {
	case text != "":
		at, ok := parseFollowed(text)
		if !ok {
			return followed{}, badCursor("is not one that this list gave as next")
		}
		if at.behind == uuid.Nil {
			return at, nil
		}
		after = at.behind // looked at again: whether there is such an entry is not everybody's to know
		fallthrough
	case after != uuid.Nil:
		if _, err := d.afterwards(ctx, c, rd, after); err != nil {
			return followed{}, err
		}
		return followed{behind: after}, nil
	}
	place, err := d.Order.Head(ctx)
	if err != nil {
		return followed{}, unread(err)
	}
	return followed{place: place}, nil
}

// bookHead is what all who follow the book look at together.
func (d *door) bookHead(ctx context.Context) (answer, error) {
	head, err := d.Order.Head(ctx)
	if err != nil {
		return nil, unread(err)
	}
	return func(w http.ResponseWriter) error {
		w.WriteHeader(http.StatusOK)
		_, err := w.Write([]byte(followed{place: head}.String()))
		return err
	}, nil
}
