package book

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/cli"
)

// lookAgain is between two looks for what is new.
const lookAgain = time.Second

type tailCmd struct {
	SourceFlags
	filterFlags
	Lines  int    `short:"n" default:"10" help:"Show so many of the newest decisions, up to 1000."`
	Follow bool   `short:"f" help:"Go on with those to come, until interrupted."`
	After  string `placeholder:"ID" help:"Show all behind this decision instead."`
}

// Formats are what this prints beside table, json and yaml.
func (*tailCmd) Formats() []string { return nil }

// follower prints decisions in the order of the tree. The tree's order is final, so that what was
// printed is never overtaken by a row that is committed later.
type follower struct {
	g      *cli.Globals
	where  source
	filter audit.Filter
	// at is where to go on, last the newest decision printed.
	at, last string
	after    string // where it began, empty for the newest
	page     int
	headed   bool
	away     bool // it was said that the book does not answer
}

// Run shows the newest decisions and follows.
func (t *tailCmd) Run(ctx context.Context, g *cli.Globals, from Settings) error {
	if t.Lines < 1 || t.Lines > audit.MaxLimit {
		return cli.Usage(fmt.Errorf("--lines %d is not between 1 and %d", t.Lines, audit.MaxLimit))
	}
	if g.Output == "yaml" {
		return cli.Usage(errors.New("-o yaml: a list that goes on has no end to write; -o json prints one decision a line"))
	}
	if t.After != "" {
		if _, err := cli.ParseID(t.After); err != nil {
			return err
		}
	}
	wanted, err := t.filter()
	if err != nil {
		return err
	}
	if err := t.ownOnly(t.Own); err != nil {
		return err
	}
	if err := t.digests(ctx, g, t.Flags, &wanted); err != nil {
		return err
	}
	where, done, err := t.open(ctx, g, from)
	if err != nil {
		return err
	}
	defer done()
	f := &follower{g: g, where: where, filter: wanted, at: t.After, last: t.After, after: t.After, page: t.Lines}
	if t.After != "" {
		f.page = audit.MaxLimit
	}
	return f.run(ctx, t.Follow)
}

// run prints what there is, and follows until ctx ends.
func (f *follower) run(ctx context.Context, follow bool) error {
	for {
		more, err := f.look(ctx)
		f.page = audit.MaxLimit
		switch {
		case ctx.Err() != nil:
			return f.interrupted(ctx)
		case err != nil && (!follow || !cli.IsUnavailable(err)):
			return err
		case err != nil:
			f.sayAway(err)
		case f.away:
			f.away = false
			fmt.Fprintln(f.g.ErrOut, "the book answers again")
		}
		switch {
		case more:
		case !follow:
			f.sayNone()
			return nil
		case !pause(ctx, f.g.Pause):
			return f.interrupted(ctx)
		}
	}
}

// look prints what is new, and says whether there is more at once.
func (f *follower) look(ctx context.Context) (more bool, err error) {
	list, next, more, err := f.where.follow(ctx, f.filter, f.at, f.page)
	if err != nil {
		return false, err
	}
	f.at = next
	return more, f.print(list)
}

func (f *follower) print(list []decision) error {
	if len(list) == 0 {
		return nil
	}
	if f.g.Output == "json" {
		out := json.NewEncoder(f.g.Out)
		for i := range list {
			if err := out.Encode(&list[i]); err != nil {
				return err
			}
			f.last = list[i].ID
		}
		return nil
	}
	// Columns are as wide as usual, because the rows to come are not known.
	w := tabwriter.NewWriter(f.g.Out, 12, 0, 3, ' ', 0)
	if !f.headed {
		f.headed = true
		cli.WriteRow(w, tailRow(tableHeader())...)
	}
	for _, v := range list {
		cli.WriteRow(w, tailRow(tableRow(v))...)
		f.last = v.ID
	}
	return w.Flush()
}

// tailRow leaves out what becomes of a decision later: a row is printed once.
func tailRow(cells []string) []string { return append(cells[:6:6], cells[7]) }

// sayNone says that nothing was shown, so that silence is not taken for an answer about the whole book.
func (f *follower) sayNone() {
	switch {
	case f.headed || f.last != f.after:
	case f.after == "":
		fmt.Fprintln(f.g.ErrOut, "none of the newest decisions matches: --lines looks through more, bronzeward decisions list through all")
	default:
		fmt.Fprintln(f.g.ErrOut, "no decision behind that one matches")
	}
}

func (f *follower) sayAway(err error) {
	if !f.away {
		f.away = true
		fmt.Fprintf(f.g.ErrOut, "the book does not answer: %s; trying again until it does\n", cli.OneLine(err.Error()))
	}
}

// interrupted says where to go on.
func (f *follower) interrupted(ctx context.Context) error {
	if f.last == "" {
		fmt.Fprintln(f.g.ErrOut, "no decision was shown")
	} else {
		fmt.Fprintf(f.g.ErrOut, "to go on: bronzeward decisions tail --follow --after %s\n", f.last)
	}
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return nil // this is how it ends
	}
	return context.Cause(ctx)
}

// pause is false when ctx ended meanwhile.
func pause(ctx context.Context, given time.Duration) bool {
	if given == 0 {
		given = lookAgain
	}
	t := time.NewTimer(given)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
