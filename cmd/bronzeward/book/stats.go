package book

import (
	"context"
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"bronzeward/cmd/bronzeward/cli"
)

//go:embed queries/stats.sql
var statsSQL string

// mostCounted is how many rows of a kind may be asked for.
const mostCounted = 10_000

type statsCmd struct {
	DatabaseFlags
	Since string `help:"Only decisions from this time on: a time, a day in your zone, or so long ago, such as 24h or 7d."`
	Until string `help:"Only decisions before this time, written like --since."`
	Top   int    `default:"20" help:"At most so many reasons, machines and people, those with the most decisions first."`
}

// Formats are what this prints beside table, json and yaml.
func (*statsCmd) Formats() []string { return []string{"csv"} }

// counted is how many decisions have something in common.
type counted struct {
	// Kind is verdict, code, machine or person; Of a machine's cluster, a person's issuer.
	Kind string `json:"kind"`
	Name string `json:"name"`
	Of   string `json:"of"`
	// Decisions are entries, Counted what they stand for: refusals of strangers share entries.
	Decisions int64 `json:"decisions"`
	Counted   int64 `json:"counted"`
	// Refused are those with another verdict than allow.
	Refused int64 `json:"refused"`
}

// Run counts.
func (c *statsCmd) Run(ctx context.Context, g *cli.Globals, from Settings) error {
	s, err := rangeOf(c.Since, c.Until)
	if err != nil {
		return err
	}
	if c.Top < 1 || c.Top > mostCounted {
		return cli.Usage(fmt.Errorf("--top %d is not between 1 and %d", c.Top, mostCounted))
	}
	pool, err := c.OpenBook(ctx, from)
	if err != nil {
		return err
	}
	defer pool.Close()
	begin, end := s.ends()
	hide := g.NewProgress().Begin("counting")
	rows, err := pool.Query(ctx, statsSQL, begin, end, c.Top)
	var list []counted
	if err == nil {
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[counted])
	}
	hide()
	if err != nil {
		return fmt.Errorf("counting decisions: %w", away(err))
	}
	if g.Output == "csv" {
		return writeCounts(g, list)
	}
	if list == nil {
		list = []counted{} // a list in JSON, so that a script can walk it
	}
	if err := g.Print(list, []string{"KIND", "NAME", "OF", "DECISIONS", "COUNTED", "REFUSED"}, func(row func(...string)) {
		for _, n := range list {
			row(n.Kind, cli.ASCII(n.Name), cli.ASCII(n.Of), strconv.FormatInt(n.Decisions, 10), strconv.FormatInt(n.Counted, 10), strconv.FormatInt(n.Refused, 10))
		}
	}); err != nil {
		return err
	}
	g.More(len(list), "no decision matches", "")
	return nil
}

func writeCounts(g *cli.Globals, list []counted) error {
	out := csv.NewWriter(g.Out)
	_ = out.Write([]string{"kind", "name", "of", "decisions", "counted", "refused"}) // Error says it
	for _, n := range list {
		_ = out.Write([]string{csvCell(n.Kind), csvCell(n.Name), csvCell(n.Of), strconv.FormatInt(n.Decisions, 10), strconv.FormatInt(n.Counted, 10), strconv.FormatInt(n.Refused, 10)})
	}
	out.Flush()
	return out.Error()
}
