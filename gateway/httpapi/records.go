package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/gateway/httpapi/api"
)

const (
	// linesType is the type of JSON texts, one a line.
	linesType     = "application/x-ndjson"
	listOfRecords = "records"
	// countWithin bounds counting a reading, which looks at all of it.
	countWithin = 5 * time.Second
)

// listDecisionRecords is a page of whole records, oldest first. What is recorded after the entry of the reading is
// none of it, so that a reading ends however fast the book grows.
func (d *door) listDecisionRecords(c *call) (answer, error) {
	q := c.query("machine", "since", "until", "reasoned", "after", "count", "limit", "cursor")
	rd := q.recordsReading()
	after, count, limit, cursor := q.id("after"), q.flag("count"), q.limit(), q.values.Get("cursor")
	switch {
	case q.err != nil:
		return nil, q.err
	case q.values.Has("after") && cursor != "":
		return nil, malformed("the parameter after begins a reading, and cursor goes on with one: give one of them")
	case count && cursor != "":
		return nil, malformed("the parameter count is of a reading that begins, and cursor goes on with one: give one of them")
	}
	if err := rd.filter.Validate(); err != nil {
		return nil, malformed("%s", err.Error())
	}
	place := ""
	var err error
	if cursor == "" {
		err = c.begin(&rd)
	} else {
		place, err = c.resume(&rd, listOfRecords, cursor)
	}
	if err != nil {
		return nil, err
	}
	if err := d.knownMachine(c, &rd, q.values.Get("machine")); err != nil {
		return nil, err
	}
	began := c.entry.get().RecordedAt
	if began.IsZero() {
		return nil, errors.New("the entry of a reading has no time")
	}
	if rd.filter.Until.IsZero() || rd.filter.Until.After(began) {
		rd.filter.Until = began
	}
	if !rd.filter.Since.IsZero() && !rd.filter.Since.Before(rd.filter.Until) {
		return recordLines(nil, api.DecisionRecordsEnd{Until: rd.filter.Until, Total: new(int64)}), nil
	}
	return d.recordPage(c, &rd, place, after, limit, count)
}

// recordsReading is what the parameters ask of the records. Its entry says that they are read whole.
func (q *query) recordsReading() reading {
	rd := reading{act: actDecisionsRead, order: audit.OldestFirst, whole: true, asked: maps.Clone(q.values)}
	for _, name := range []string{"limit", "cursor", "after", "count"} {
		rd.asked.Del(name)
	}
	if rd.asked == nil {
		rd.asked = url.Values{}
	}
	rd.asked.Set("records", "whole")
	q.text("machine", mostWord)
	rd.filter = audit.Filter{Since: q.time("since"), Until: q.time("until"), Reasoned: q.flag("reasoned")}
	return rd
}

func (d *door) recordPage(c *call, rd *reading, place string, after uuid.UUID, limit int, count bool) (answer, error) {
	ctx, cancel := context.WithTimeout(c.ctx, readWithin)
	defer cancel()
	p := audit.Page{Limit: limit, Order: rd.order, Records: true}
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
	end := api.DecisionRecordsEnd{Until: rd.filter.Until}
	if count {
		end.Total = d.counted(ctx, rd.filter)
	}
	rows, next, err := d.Decisions.List(ctx, rd.filter, p)
	if err != nil {
		return nil, unread(err)
	}
	if !next.IsZero() {
		end.Next = c.cursor(listOfRecords, next.String())
	}
	return recordLines(rows, end), nil
}

// counted is how many entries there are; null when that takes too long. The page says what else fails.
func (d *door) counted(ctx context.Context, f audit.Filter) *int64 {
	ctx, cancel := context.WithTimeout(ctx, countWithin)
	defer cancel()
	n, err := d.Decisions.Count(ctx, f)
	if err != nil {
		return nil
	}
	return &n
}

func recordLines(rows []audit.Row, end api.DecisionRecordsEnd) answer {
	end.Until = end.Until.UTC()
	return func(w http.ResponseWriter) error {
		w.Header().Set("Content-Type", linesType)
		w.WriteHeader(http.StatusOK)
		lines := json.NewEncoder(w)
		lines.SetEscapeHTML(false)
		for i := range rows {
			r := &rows[i]
			if err := lines.Encode(api.DecisionRecord{ID: r.ID.String(), RecordedAt: r.RecordedAt.UTC(), Record: string(r.Record)}); err != nil {
				return err
			}
		}
		return lines.Encode(end)
	}
}
