package book

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"bronzeward/cmd/bronzeward/cli"
)

const (
	// exportPage is how many rows are asked for at once.
	exportPage = 2000
	// pagesAhead is how many pages may be read and not written yet: with the one being read and
	// the one being written, it bounds what is held.
	pagesAhead = 2
)

type exportCmd struct {
	DatabaseFlags
	Since  string `help:"Only rows recorded from this time on: a time, a day in your zone, or so long ago, such as 24h or 7d."`
	Until  string `help:"Only rows recorded before this time, written like --since."`
	Format string `enum:"jsonl,opa" default:"jsonl" help:"jsonl: every entry and outcome with its record as it was hashed. opa: decisions of the law, as OPA writes its decision log."`
	After  string `placeholder:"ID" help:"Continue after the row of this id."`
	File   string `short:"f" placeholder:"FILE" help:"Write to this file: to FILE.part until it is whole. A FILE.part that is there is continued."`
}

// rowPages are what an export reads: pages of rows in the order of the tree, and the records of each.
type rowPages interface {
	rows(ctx context.Context, after, last place, s span, entries bool, limit int) ([]row, error)
	addRecords(ctx context.Context, rows []row) error
}

// Run writes the rows of a range in the order of the tree.
func (e *exportCmd) Run(ctx context.Context, g *cli.Globals, from Settings) (err error) {
	var s span
	if s, err = rangeOf(e.Since, e.Until); err != nil {
		return err
	}
	var after uuid.UUID
	if e.After != "" {
		if after, err = cli.ParseID(e.After); err != nil {
			return err
		}
	}
	format := formats()[e.Format]
	out, finish := g.Raw(), func(error) error { return nil }
	if e.File != "" {
		part, err := openPart(e.File)
		if err != nil {
			return err
		}
		if part.last != nil && after != uuid.Nil {
			return errors.Join(cli.Usage(fmt.Errorf("%s is there, and is continued after its own last row: leave --after out, or remove it", part.path)), part.file.Close())
		}
		if part.last != nil {
			if after, err = format.idOf(part.last); err != nil {
				return errors.Join(cli.Usage(fmt.Errorf("%s was not begun by --format %s: %w; remove it, or name another file", part.path, e.Format, err)), part.file.Close())
			}
			fmt.Fprintf(g.ErrOut, "continuing %s after %s\n", cli.OneLine(part.path), after)
		}
		out, finish = part.file, part.finish
	}
	pool, err := e.OpenBook(ctx, from)
	if err != nil {
		return errors.Join(err, finish(err))
	}
	defer pool.Close()
	done, err := e.export(ctx, g, treeReader{pool}, s, after, format, out)
	if ended := finish(err); ended != nil {
		err = errors.Join(err, ended)
	}
	e.say(g, done, err)
	if ctx.Err() != nil {
		return fmt.Errorf("the export was interrupted: %w", context.Cause(ctx))
	}
	return err
}

// exported is what an export came to.
type exported struct {
	rows, written, lost int64
	// last is the row written last; it is zero when there was none.
	last uuid.UUID
}

func (e *exportCmd) export(ctx context.Context, g *cli.Globals, tree treeReader, s span, after uuid.UUID, format format, out io.Writer) (exported, error) {
	progress := g.NewProgress()
	if e.File == "" && g.Raw() == g.Out { // the lines themselves are on the terminal
		progress = &cli.Progress{}
	}
	defer progress.Begin("looking how much there is")()
	total, first, last, err := tree.bounds(ctx, s)
	if err != nil || total == 0 {
		return exported{last: after}, err
	}
	begin := place{first.tree, first.index - 1}
	var skipped int64
	if after != uuid.Nil {
		at, err := tree.behind(ctx, after)
		if err != nil {
			return exported{last: after}, err
		}
		if at.tree == begin.tree && at.index > begin.index {
			skipped = at.index - begin.index
		}
		begin = at
	}
	return copyRows(ctx, tree, begin, last, s, format, out, after, func(n int64) {
		progress.Note(cli.Bar("exporting", skipped+n, total))
	})
}

// say tells a person what was written, and how to go on after what ended it.
func (e *exportCmd) say(g *cli.Globals, done exported, err error) {
	fmt.Fprintf(g.ErrOut, "%d rows written\n", done.written)
	if done.lost > 0 {
		fmt.Fprintf(g.ErrOut, "warning: %d rows have no record that reads as one: their month was detached, or they were tampered with; bronzeward decisions verify tells which\n", done.lost)
	}
	switch {
	case err == nil:
	case e.File != "":
		fmt.Fprintf(g.ErrOut, "to go on, run this again: %s.part is continued\n", cli.OneLine(e.File))
	case done.last != uuid.Nil:
		fmt.Fprintf(g.ErrOut, "to go on: --after %s\n", done.last)
	}
}
