package replay

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/policy"
)

// Row is one entry as the book has it.
type Row struct {
	ID         uuid.UUID
	RecordedAt time.Time // the database's clock, in UTC
	Record     []byte
}

// Pages gives the entries, oldest first; an empty page is the end. It is called by one goroutine,
// and the rows it gives are not touched again.
type Pages func(ctx context.Context) ([]Row, error)

// ErrNotKept means that a law is not among those that were kept.
var ErrNotKept = errors.New("the law is not kept")

// Laws gives the law that judges what was decided by a revision: a draft for all of them, or their
// own. ErrNotKept leaves that decision unjudged; any other error ends the replay. It is safe for
// concurrent use.
type Laws func(ctx context.Context, revision string) (*policy.Engine, error)

// Config says what is replayed. Pages and Laws are required.
type Config struct {
	Pages Pages
	Laws  Laws
	// Draft is the revision of the law that judges all; empty when each decision is judged by its own.
	// By its own a decision has to come out the same to the word.
	Draft string
	// Workers judge at the same time; zero takes one for each processor.
	Workers int
	// Tell is told how many entries are done; null tells nobody.
	Tell func(done int64)
}

// sheet is a page of entries and what it came to.
type sheet struct {
	rows   []Row
	report Report
	done   chan struct{} // closed when the page is judged, or err says why not
	err    error
}

// Run judges the entries again. It holds a few pages and a bounded report, however many entries
// there are, and reads and judges at the same time.
func Run(ctx context.Context, c Config) (Report, error) {
	workers := c.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	todo, ordered := make(chan *sheet), make(chan *sheet, workers+1)
	failed := make(chan error, 1)
	for range workers {
		go func() {
			for s := range todo {
				s.judge(ctx, &c)
				close(s.done)
			}
		}()
	}
	go func() {
		defer close(ordered)
		defer close(todo)
		for {
			rows, err := c.Pages(ctx)
			if err != nil || len(rows) == 0 {
				failed <- err
				return
			}
			s := &sheet{rows: rows, report: newReport(), done: make(chan struct{})}
			select {
			case todo <- s:
				ordered <- s // has room, or is emptied below
			case <-ctx.Done():
				failed <- context.Cause(ctx)
				return
			}
		}
	}()
	total := newReport()
	total.Law = c.Draft
	var err error
	for s := range ordered {
		<-s.done
		if err == nil && s.err != nil {
			err = s.err
			stop()
		}
		if err != nil {
			continue // what is on its way ends before this does
		}
		total.add(&s.report)
		if c.Tell != nil {
			c.Tell(total.Decisions)
		}
	}
	if readErr := <-failed; err == nil {
		err = readErr
	}
	return total, err
}

// judged is a decision made again, and the facts it was made on.
type judged struct {
	facts    *policy.Recorded
	decision policy.Decision
}

// memo has what was judged of a page. Within a second a dashboard asks the same many times, and equal
// facts are judged to equal decisions by one law; a gateway makes use of it in the same way.
type memo map[string]judged

func (s *sheet) judge(ctx context.Context, c *Config) {
	known := memo{}
	for i := range s.rows {
		if err := ctx.Err(); err != nil {
			s.err = context.Cause(ctx)
			return
		}
		if s.err = s.report.judge(ctx, c, known, &s.rows[i]); s.err != nil {
			return
		}
	}
	s.rows = nil
}

// judge judges one entry.
func (r *Report) judge(ctx context.Context, c *Config, known memo, row *Row) error {
	r.Decisions++
	e, err := audit.ParseEntry(row.Record)
	if err != nil {
		r.Unjudged["the record does not read as one: bronzeward decisions verify tells whether it was changed"]++
		return nil
	}
	if e.PolicyRevision == "" || len(e.Facts) == 0 {
		r.ByGateway++
		return nil
	}
	law, gateway := split(e.Reasons)
	switch {
	case lawUnknown(law, gateway):
		r.ByGateway++
		return nil
	case len(law) == 1 && policy.EngineGaveUp(law[0]):
		r.Unjudged[fmt.Sprintf("the law was not heard then (%s)", law[0].Code)]++
		return nil
	}
	again, why, err := known.judge(ctx, c, &e)
	if err != nil {
		return err
	}
	if why != "" {
		r.Unjudged[why]++
		return nil
	}
	facts := again.facts
	was := recorded(&e, law)
	now, complete := told(&e, facts, law, gateway, again.decision)
	if !complete {
		r.Unjudged["it was refused before its change was looked up, and the law now asks for that"]++
		return nil
	}
	for _, name := range facts.Lacking {
		r.Lacking[name]++
	}
	if kind := differ(was, now, facts.Act != nil, c.Draft == ""); kind != Same {
		r.changed(&e, row.RecordedAt, kind, was, now, facts.Lacking)
	} else {
		r.Same++
	}
	return nil
}

// judge judges an entry's facts, or knows how they were judged. why is the cause when they cannot be.
func (m memo) judge(ctx context.Context, c *Config, e *audit.Entry) (j judged, why string, err error) {
	key := e.PolicyRevision + string(e.Facts)
	if j, ok := m[key]; ok {
		return j, "", nil
	}
	if j.facts, err = policy.ReadRecorded(e.Facts); err != nil {
		return j, err.Error(), nil
	}
	engine, err := c.Laws(ctx, e.PolicyRevision)
	if errors.Is(err, ErrNotKept) {
		return j, fmt.Sprintf("the law of revision %.12s is not kept", e.PolicyRevision), nil
	}
	if err != nil {
		return j, "", err
	}
	j.decision = engine.DecideRecorded(ctx, j.facts)
	if ctx.Err() != nil {
		return j, "", context.Cause(ctx)
	}
	m[key] = j
	return j, "", nil
}
