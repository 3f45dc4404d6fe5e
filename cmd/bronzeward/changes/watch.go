package changes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/exitcode"
	"bronzeward/gateway/httpapi/api"
)

const (
	// longPoll is how long the gateway is asked to wait for news.
	longPoll = 50 * time.Second
	// lookEveryAtLeast keeps a gateway that does not wait from being asked without pause.
	lookEveryAtLeast = time.Second
	// patience is how long a gateway that has answered may be away before a wait gives up.
	patience = 2 * time.Minute
)

// look asks for changes. tag is what the last answer was named, empty at first.
type look func(ctx context.Context, tag string) ([]api.Change, ask.Answer, error)

// unlessKnown asks the gateway to answer when there is something else than tag names.
func unlessKnown(tag string) func(context.Context, *http.Request) error {
	return func(_ context.Context, r *http.Request) error {
		if tag != "" {
			r.Header.Set("If-None-Match", tag)
			r.Header.Set("Prefer", fmt.Sprintf("wait=%d", int(longPoll/time.Second)))
		}
		return nil
	}
}

// lookAtPage looks at one page of the list.
func (a *apiClient) lookAtPage(params api.ListChangesParams) look {
	return func(ctx context.Context, tag string) ([]api.Change, ask.Answer, error) {
		page, said, err := ask.Received[api.ChangeList](a.ListChanges(ctx, &params, unlessKnown(tag)))
		return page.Items, said, err
	}
}

// lookAtOne looks at one change.
func (a *apiClient) lookAtOne(id string) look {
	return func(ctx context.Context, tag string) ([]api.Change, ask.Answer, error) {
		one, said, err := ask.Received[api.Change](a.GetChange(ctx, id, nil, unlessKnown(tag)))
		return []api.Change{one}, said, err
	}
}

// follow looks again and again, and shows what is new to see, until that says that it is
// done or ctx ends.
func (a *apiClient) follow(ctx context.Context, look look, see func([]api.Change, ask.Answer) (done bool, err error)) error {
	every := a.Pause
	if every == 0 {
		every = lookEveryAtLeast
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var answered time.Time
	for tag := ""; ; {
		changes, said, err := look(ctx, tag)
		switch {
		case err != nil && exitcode.Of(err) == cli.ExitUnavailable && time.Since(answered) < patience:
		case err != nil:
			return err
		case said.Status == http.StatusNotModified:
			answered = time.Now()
		default:
			answered = time.Now()
			if done, err := see(changes, said); done || err != nil {
				return err
			}
			tag = said.Tag
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// watch prints a page of changes, and then each change again when it is new or moved, until
// ctx ends.
func (a *apiClient) watch(ctx context.Context, params api.ListChangesParams, limit int) error {
	params.Limit = &limit
	s := &stream{Globals: a.Globals}
	known := map[string]api.Change{}
	defer a.Asker.Progress.Hide()()
	err := a.follow(ctx, a.lookAtPage(params), func(page []api.Change, said ask.Answer) (bool, error) {
		there := map[string]bool{}
		var moved []api.Change
		for i := len(page) - 1; i >= 0; i-- { // oldest first, as they come
			there[page[i].ID] = true
			moved = append(moved, page[i])
		}
		for id := range known {
			if there[id] {
				continue
			}
			// It left the page: the last thing said about it is what became of it.
			one, _, err := ask.Received[api.Change](a.GetChange(ctx, id, nil))
			if err != nil && !ask.IsProblem(err, "BW-CHANGE-001") {
				return false, err
			}
			if err == nil {
				moved = append(moved, one)
			}
		}
		moved = slices.DeleteFunc(moved, func(c api.Change) bool {
			before, seen := known[c.ID]
			return seen && standing(&before) == standing(&c)
		})
		if err := s.show(moved, said.Now); err != nil {
			return false, err
		}
		clear(known)
		for _, c := range page {
			known[c.ID] = c
		}
		return false, nil
	})
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil // Ctrl-C is how a watch ends
	}
	return err
}

// standing is what of a change moves; the rest of it, and what is told by the clock, does not.
func standing(c *api.Change) string {
	by := ""
	if c.UseBy != nil {
		by = c.UseBy.String()
	}
	return fmt.Sprint(c.State, " ", c.ApprovalsCounting, " ", by, " ", c.AttemptID, " ", c.Reason)
}

// stream prints changes as they come. Columns grow with what comes and never shrink.
type stream struct {
	*cli.Globals
	widths []int
}

func (s *stream) show(changes []api.Change, now time.Time) error {
	if s.Output == "table" {
		return s.table(changes, now)
	}
	for i := range changes {
		if s.Output == "yaml" {
			fmt.Fprintln(s.Out, "---")
		}
		if err := s.Print(&changes[i], nil, nil); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) table(changes []api.Change, now time.Time) error {
	var rows [][]string
	if s.widths == nil {
		s.widths = make([]int, len(changeColumns()))
		s.widths[1] = len(api.ChangeStateSuperseded) // the longest state, so that columns stay where they are
		rows = append(rows, changeColumns())
	}
	for i := range changes {
		rows = append(rows, changeRow(&changes[i], now))
	}
	for _, cells := range rows {
		for i, c := range cells {
			cells[i] = cli.OneLine(cmp.Or(c, "-"))
			s.widths[i] = max(s.widths[i], utf8.RuneCountInString(cells[i]))
		}
	}
	for _, cells := range rows {
		var line strings.Builder
		for i, c := range cells {
			fmt.Fprintf(&line, "%-*s   ", s.widths[i], c)
		}
		if _, err := fmt.Fprintln(s.Out, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}
