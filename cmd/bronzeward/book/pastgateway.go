package book

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/policy"
	"bronzeward/policytest/replay"
)

// gatewayPast is the past as a gateway gives it. One reading leaves one entry in the book, however many
// pages it has, and each law one.
type gatewayPast struct {
	client *ask.Client
	first  *recordPage // what Bound read, which Pages begins with
}

// PastAt reads through a gateway. Close closes the client.
func PastAt(client *ask.Client) Past {
	client.Asker.Progress = &cli.Progress{} // whoever reads the past tells how far it is
	return &gatewayPast{client: client}
}

func (p *gatewayPast) Close() { p.client.Close() }

// recordPage is one page of whole records.
type recordPage struct {
	asked Range // of its reading, whose cursor is of no other question
	rows  []replay.Row
	end   api.DecisionRecordsEnd
}

func (p *gatewayPast) Bound(ctx context.Context, r Range) (Range, int64, error) {
	page, err := p.ask(ctx, r, api.ListDecisionRecordsParams{Count: new(true)})
	if err != nil {
		return r, 0, err
	}
	p.first, r.until = &page, page.end.Until
	if page.end.Total == nil {
		return r, 0, nil
	}
	return r, *page.end.Total, nil
}

func (p *gatewayPast) Pages(r Range) replay.Pages {
	page, last := p.first, "" // last is the newest decision that was read
	p.first = nil
	given := false
	return func(ctx context.Context) ([]replay.Row, error) {
		for {
			if page != nil && !given && len(page.rows) > 0 {
				given, last = true, page.rows[len(page.rows)-1].ID.String()
				return page.rows, nil
			}
			asked, next := r, api.ListDecisionRecordsParams{}
			switch {
			case page != nil && page.end.Next == "":
				return nil, nil
			case page != nil:
				asked, next.Cursor = page.asked, &page.end.Next
			}
			got, err := p.ask(ctx, asked, next)
			if ask.HasStatus(err, http.StatusBadRequest) && next.Cursor != nil && last != "" {
				// A reading lasts for an hour and for its epoch: a new one begins behind what was read.
				got, err = p.ask(ctx, r, api.ListDecisionRecordsParams{After: &last})
			}
			if err != nil {
				return nil, err
			}
			page, given = &got, false
		}
	}
}

// ask asks for one page of a range. A reading that goes on asks the same as its first page.
func (p *gatewayPast) ask(ctx context.Context, r Range, params api.ListDecisionRecordsParams) (recordPage, error) {
	params.Machine, params.Limit = cli.Given(r.Machine), new(ask.MostPage)
	if r.Said {
		params.Reasoned = &r.Said
	}
	if !r.from.IsZero() {
		params.Since = new(r.from.UTC())
	}
	if !r.until.IsZero() {
		params.Until = new(r.until.UTC())
	}
	body, _, err := ask.ReceivedBytes(p.client.ListDecisionRecords(ctx, &params))
	if err != nil {
		return recordPage{}, fmt.Errorf("reading decisions: %w", err)
	}
	page, err := readRecords(body)
	page.asked = r
	if err != nil {
		return recordPage{}, fmt.Errorf("reading decisions at %s: %w", p.client.Asker.Settings.Server, err)
	}
	return page, nil
}

// recordLine is a line of a page: a record, or the end.
type recordLine struct {
	ID         uuid.UUID  `json:"id"`
	RecordedAt time.Time  `json:"recorded_at"`
	Record     *string    `json:"record"`
	Next       *string    `json:"next"`
	Until      *time.Time `json:"until"`
	Total      *int64     `json:"total"`
}

// readRecords reads a page, which is whole when its last line says how to go on.
func readRecords(body []byte) (recordPage, error) {
	page := recordPage{rows: make([]replay.Row, 0, ask.MostPage)}
	for lines := json.NewDecoder(bytes.NewReader(body)); ; {
		var line recordLine
		err := lines.Decode(&line)
		switch {
		case errors.Is(err, io.EOF):
			return page, errors.New("the answer ends in the middle: try again")
		case err != nil:
			return page, err
		case line.Record != nil:
			page.rows = append(page.rows, replay.Row{ID: line.ID, RecordedAt: line.RecordedAt.UTC(), Record: []byte(*line.Record)})
		case line.Next != nil && line.Until != nil:
			page.end = api.DecisionRecordsEnd{Next: *line.Next, Until: *line.Until, Total: line.Total}
			return page, nil
		default:
			return page, errors.New("a line is neither a record nor the end: is the gateway another version?")
		}
	}
}

func (p *gatewayPast) Live(ctx context.Context) (string, error) {
	status, _, err := ask.Received[api.PolicyStatus](p.client.GetPolicyStatus(ctx))
	if err != nil {
		return "", fmt.Errorf("asking for the live revision: %w", err)
	}
	return status.LiveRevision, nil
}

func (p *gatewayPast) Law(ctx context.Context, name string) (*policy.Bundle, error) {
	body, said, err := ask.ReceivedBytes(p.client.GetPolicyArchive(ctx, name))
	switch {
	case ask.HasStatus(err, http.StatusNotFound):
		return nil, fmt.Errorf("%w: %w", replay.ErrNotKept, err)
	case err != nil:
		return nil, fmt.Errorf("asking for the law %.12s: %w", name, err)
	}
	b, err := policy.LoadArchive(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("opening the law %.12s: %w", name, err)
	}
	// The revision is computed of what came. A gateway that gives another law gives one of another name.
	if wanted := strings.Trim(said.Tag, `"`); b.Revision() != wanted || RevisionLike(name) && !strings.HasPrefix(b.Revision(), name) {
		return nil, fmt.Errorf("the law %.12s came under the name %.12s: the gateway, or its database, was changed", b.Revision(), name)
	}
	return b, nil
}
