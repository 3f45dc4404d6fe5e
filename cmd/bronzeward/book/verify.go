package book

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"bronzeward/audit/verify"
	"bronzeward/cmd/bronzeward/cli"
)

type verifyCmd struct {
	DatabaseFlags
	Since      string   `help:"Read only rows recorded from this time on: a time, a day in your zone, or so long ago, such as 24h or 7d. The tree and its checkpoints are verified whole all the same."`
	Until      string   `help:"Read only rows recorded before this time, written like --since."`
	Checkpoint []string `placeholder:"FILE" sep:"none" help:"Hold the book to a checkpoint you kept, as \"bronzeward decisions checkpoint --keep\" writes it; may be given again."`
	PublicKey  string   `placeholder:"FILE" help:"Public keys of the checkpoints, as \"bronzeward openbao checkpoint-key --public-key\" prints them. Without them no signature is checked."`
	Detached   []string `placeholder:"YYYY-MM" help:"Accept that the records of this month (UTC) are not here; may be given again."`
	Limit      int      `default:"100" help:"List at most so many findings of each kind; all are counted."`
}

// Run verifies the book and prints the report.
func (v *verifyCmd) Run(ctx context.Context, g *cli.Globals, from Settings) error {
	s, err := rangeOf(v.Since, v.Until)
	if err != nil {
		return err
	}
	if err := cli.CheckLimit(v.Limit); err != nil {
		return err
	}
	o := verify.Options{Since: s.from, Until: s.until, Detached: v.Detached, Limit: v.Limit}
	if o.Keys, err = publicKeys(g, v.PublicKey); err != nil {
		return err
	}
	for _, file := range v.Checkpoint {
		text, err := readOwn(g, "a kept checkpoint (--checkpoint)", file)
		if err != nil {
			return err
		}
		o.Kept = append(o.Kept, verify.Kept{Name: file, Note: text})
	}
	pool, err := v.OpenBook(ctx, from)
	if err != nil {
		return err
	}
	config := pool.Config().ConnConfig
	pool.Close()

	progress := g.NewProgress()
	end := progress.Begin("verifying the book")
	o.Progress = func(done, total int64) { progress.Note(cli.Bar("verifying the book", done, total)) }
	report, err := verify.Book(ctx, config, o)
	end()
	switch {
	case errors.Is(err, verify.ErrKept), errors.Is(err, verify.ErrMonth):
		return cli.Usage(err)
	case errors.Is(err, verify.ErrUnavailable):
		return cli.Unavailable(err)
	case err != nil:
		return err
	}
	if err := printReport(g, &report, len(v.Checkpoint)); err != nil {
		return err
	}
	if !report.Whole {
		return cli.NotWhole(fmt.Errorf("the book is not whole: %s", countsText(report.Counts)))
	}
	if rolledBack(&report) {
		return cli.NotWhole(errors.New("the book is not whole: rows of it are lost, as the gateways found; bronzeward recovery status says more"))
	}
	return nil
}

// rolledBack is whether the gateways found this very book to be older than what they had signed.
func rolledBack(r *verify.Report) bool { return r.Mark != nil && r.Mark.State == "rolled-back" }

func printReport(g *cli.Globals, r *verify.Report, kept int) error {
	if g.Output != "table" {
		return g.Print(r, nil, nil)
	}
	if len(r.Findings) > 0 {
		err := g.Print(nil, []string{"FINDING", "WHERE", "ROW", "RECORDED", "DIFFERS", "WHAT"}, func(row func(...string)) {
			for _, f := range r.Findings {
				row(string(f.Kind), placeText(&f), idText(&f), cli.Stamp(&f.RecordedAt), strings.Join(f.Differs, ","), findingText(&f))
			}
		})
		if err != nil {
			return err
		}
		var all int64
		for _, n := range r.Counts {
			all += n
		}
		if more := all - int64(len(r.Findings)); more > 0 {
			g.Say("… and %d more: --limit lists more of each kind", more)
		}
		g.Say("")
	}
	for _, t := range r.Trees {
		line := fmt.Sprintf("tree %d, epoch %s: %d leaves, %d tiles, %d of %d checkpoints agree", t.Tree, t.Epoch, t.Leaves, t.Tiles, t.Agreed, t.Checkpoints)
		if t.Unknown > 0 {
			line += fmt.Sprintf(", %d could not be compared", t.Unknown)
		}
		if t.KeptAgreed > 0 {
			line += fmt.Sprintf(", %d you kept agree", t.KeptAgreed)
		}
		g.Say("%s", line)
	}
	g.Say("%d entries and %d outcomes read as of %s, in %s", r.Entries, r.Outcomes, cli.Stamp(&r.At), r.Took.Round(time.Millisecond))
	if r.Waiting > 0 {
		g.Say("%d of them have no leaf yet: they wait for the sequencer", r.Waiting)
	}
	if !r.Since.IsZero() || !r.Until.IsZero() {
		g.Say("rows outside of the range were not read; leaves, tiles and checkpoints were, all of them")
	}
	if r.Away > 0 {
		g.Say("%d leaves are of months whose records are not here, as you said (--detached)", r.Away)
	}
	if !r.SignaturesChecked {
		g.Say("signatures were NOT checked: give --public-key FILE")
	}
	if n := r.Counts[verify.Signature]; n > 0 && n >= checkpointsOf(r) {
		g.Say("no checkpoint is signed by a key of the public key file: is it this book's?")
	}
	if kept == 0 {
		g.Say("the book was held to no checkpoint of yours: --checkpoint FILE finds a book that was rolled back or forked as a whole")
	}
	sayRecoveries(g, r)
	sayWhole(g, r)
	return nil
}

// sayRecoveries tells what the database itself says was lost: what is gone is nowhere to be compared with.
func sayRecoveries(g *cli.Globals, r *verify.Report) {
	for _, one := range r.Recoveries {
		tree := "the tree of epoch " + one.OldEpoch.String() + " ended"
		for _, t := range r.Trees {
			if t.Epoch == one.OldEpoch {
				tree = fmt.Sprintf("tree %d ended at %s", t.Tree, cli.Count(t.Leaves, "leaf", "leaves"))
			}
		}
		g.Say("%s; the recovery of %s says that %s", tree, cli.Stamp(&one.EnteredAt), lostText(&one))
	}
	if m := r.Mark; m != nil {
		g.Say("the house is %s since %s: %s", m.State, cli.Stamp(&m.Since), cli.OneLine(m.Message))
	}
}

// lostText is what was lost, as the recovery that was entered says.
func lostText(r *verify.Recovery) string {
	if r.LostRows == 0 {
		return "no signed row of it is known to be lost"
	}
	return fmt.Sprintf("up to %s of it were lost", cli.Count(r.LostRows, "signed row", "signed rows"))
}

// sayWhole says what was compared, and what follows from that and no more.
func sayWhole(g *cli.Globals, r *verify.Report) {
	if !r.Whole {
		return
	}
	g.Say("every checkpoint is the head of the first leaves of its one tree, so that any two are consistent")
	lost := rolledBack(r)
	for i := range r.Recoveries {
		lost = lost || r.Recoveries[i].LostRows > 0
	}
	if lost {
		g.Say("what is in this database is whole: its rows, leaves, tiles and checkpoints agree with each other. Whether that is all of the book it cannot tell, as rows may be lost: see above")
		return
	}
	g.Say("the book is whole, as far as this database tells: its rows, leaves, tiles and checkpoints agree with each other")
}

// checkpointsOf is how many checkpoints the book has.
func checkpointsOf(r *verify.Report) (n int64) {
	for i := range r.Trees {
		n += r.Trees[i].Checkpoints
	}
	return n
}

// countsText is how many findings there are of each kind.
func countsText(counts map[verify.Kind]int64) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[k], k))
	}
	return strings.Join(parts, ", ")
}

func placeText(f *verify.Finding) string {
	text := f.Table
	if f.Tree > 0 && f.Indexes != nil {
		text += fmt.Sprintf(" %d/%d", f.Tree, f.Indexes[0])
		if f.Indexes[0] != f.Indexes[1] {
			text += fmt.Sprintf("-%d", f.Indexes[1])
		}
	}
	return text
}

func idText(f *verify.Finding) string {
	if f.ID == [16]byte{} {
		return ""
	}
	return f.ID.String()
}

func findingText(f *verify.Finding) string {
	text := f.Text
	if f.Field != "" {
		text += fmt.Sprintf(": %s %q", f.Field, f.Term)
	}
	if f.Rows > 0 {
		text += fmt.Sprintf(" (%d)", f.Rows)
	}
	if f.Kind == verify.Tile && len(f.Others) == 2 {
		a, b := f.Others[0], f.Others[1]
		return text + fmt.Sprintf("; they are %s of %s to %s of %s", a.ID, cli.Stamp(&a.RecordedAt), b.ID, cli.Stamp(&b.RecordedAt))
	}
	for _, p := range f.Others {
		text += fmt.Sprintf("; the other is %s at %d", p.ID, p.Index)
	}
	return text
}
