package book

import (
	"context"
	"fmt"
	"path"
	"strings"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/cli"
)

type timelineCmd struct {
	SourceFlags
	Machine string `arg:"" help:"Machine, by its name at that time."`
	Since   string `help:"Only from this time on: a time, a day in your zone, or so long ago, such as 24h or 7d."`
	Until   string `help:"Only before this time, written like --since."`
	Reads   bool   `help:"Reads that were allowed, too."`
	Limit   int    `default:"200" help:"At most this many, up to 1000."`
	After   string `help:"Continue after this cursor, as printed by the page before."`
}

// event is one thing that happened to a machine.
type event struct {
	decision
	What string `json:"what"`
}

// Run tells what the book has about a machine. Its states, as the gateway keeps them, are in
// `machines timeline`.
func (t *timelineCmd) Run(ctx context.Context, g *cli.Globals, from Settings) error {
	s, err := rangeOf(t.Since, t.Until)
	if err != nil {
		return err
	}
	if t.Limit < 1 || t.Limit > audit.MaxLimit {
		return cli.Usage(fmt.Errorf("--limit %d is not between 1 and %d; --after continues where a page ended", t.Limit, audit.MaxLimit))
	}
	if err := t.checkCursor(from, t.After); err != nil {
		return err
	}
	where, done, err := t.open(ctx, g, from)
	if err != nil {
		return err
	}
	defer done()
	end := g.NewProgress().Begin("reading the life of " + t.Machine)
	events, next, err := t.events(ctx, where, s)
	end()
	if err != nil {
		return err
	}
	if err := g.Print(events, []string{"TIME", "WHO", "WHAT", "ID"}, func(row func(...string)) {
		for _, v := range events {
			row(cli.Stamp(&v.Time), cli.ASCII(v.Subject), v.What, v.ID)
		}
	}); err != nil {
		return err
	}
	g.More(len(events), "the book has nothing about a machine of that name", next)
	return nil
}

// events are the machine's, until there are enough of them.
func (t *timelineCmd) events(ctx context.Context, where source, s span) (out []event, next string, err error) {
	out = []event{}
	q := question{Filter: audit.Filter{Machine: t.Machine, Since: s.from, Until: s.until}, limit: t.Limit, oldest: true, after: t.After}
	for {
		var list []decision
		if list, next, err = where.list(ctx, q); err != nil {
			return nil, "", err
		}
		for _, v := range list {
			if t.Reads || v.Class != "read" || v.Verdict != string(audit.Allowed) {
				out = append(out, event{v, happened(v)})
			}
		}
		if next == "" || len(out) >= t.Limit {
			return out, next, nil
		}
		q.after, q.limit = next, min(audit.MaxLimit, max(1, t.Limit-len(out)))
	}
}

// happened says what a decision was to the machine.
func happened(v decision) string {
	text := act(v)
	switch audit.Verdict(v.Verdict) {
	case audit.Denied:
		return words("denied: "+text, strings.Join(v.Codes, " "))
	case audit.Refused:
		return words("refused: "+text, strings.Join(v.Codes, " "))
	}
	if v.Change != "" && !strings.Contains(text, v.Change) {
		text += " of " + v.Change
	}
	if v.Outcome != "" {
		text += ": " + v.Outcome
	}
	return text
}

// act is what was asked, in words where there are some.
func act(v decision) string {
	said := map[string]string{
		"machines.add": "registered", "machines.import": "registered", "machines.update": "addresses and labels replaced",
		"machines.pin": "pinned to the identity it showed", "machines.observe": "observed",
		"attempts.account": "an unresolved apply accounted for", "changes.submit": "a change proposed", "changes.approve": "a change approved",
		"changes.reject": "a change rejected", "changes.cancel": "a change taken back", "approvals.revoke": "an approval taken back",
	}
	if text, ok := said[v.Method]; ok {
		return text
	}
	if path.Base(v.Method) == "ApplyConfiguration" || v.Method == "changes.apply" {
		return words("apply", v.Mode, dryRun(v))
	}
	return methodText(v)
}

func dryRun(v decision) string {
	if v.DryRun {
		return "dry run"
	}
	return ""
}
