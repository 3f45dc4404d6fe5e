package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"go.yaml.in/yaml/v4"
	"golang.org/x/term"
)

// Print writes a value as JSON or YAML, or as the table that rows fills.
func (g *Globals) Print(value any, header []string, rows func(row func(cells ...string))) error {
	switch g.Output {
	case "json":
		enc := json.NewEncoder(g.Out)
		enc.SetIndent("", "  ")
		return enc.Encode(value)
	case "yaml":
		return printYAML(g.Out, value)
	}
	return g.Table(header, rows)
}

// Table writes a table, whatever the format asked for.
func (g *Globals) Table(header []string, rows func(row func(cells ...string))) error {
	w := tabwriter.NewWriter(g.Out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	rows(func(cells ...string) { WriteRow(w, cells...) })
	return w.Flush()
}

// WriteRow writes cells as one row of a table, with a dash for nothing. Errors are the writer's,
// which says them when it is flushed.
func WriteRow(w *tabwriter.Writer, cells ...string) {
	line := make([]string, len(cells))
	for i, c := range cells {
		if c == "" {
			c = "-"
		}
		line[i] = OneLine(c)
	}
	fmt.Fprintln(w, strings.Join(line, "\t"))
}

// PrintYAML goes through JSON, so that both formats have the same names.
func printYAML(w io.Writer, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var plain any
	if err := yaml.Load(raw, &plain); err != nil {
		return err
	}
	out, err := yaml.Dump(plain)
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Stamp is a time in the reader's own zone.
func Stamp(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}

// Ago is how long ago something was, as kubectl shows ages.
func Ago(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return Span(time.Since(*t))
}

// Span is a length of time in one number.
func Span(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Done prints what an act did: its sentences, or with -o json and yaml what the gateway
// answered.
func (g *Globals) Done(value any, format string, args ...any) error {
	if g.Output != "table" {
		return g.Print(value, nil, nil)
	}
	_, err := fmt.Fprintf(g.Out, format, args...)
	return err
}

// Say prints a sentence for people.
func (g *Globals) Say(format string, args ...any) {
	if g.Output == "table" {
		fmt.Fprintf(g.Out, format+"\n", args...)
	}
}

// More says beside a list that it is empty, or how it goes on.
func (g *Globals) More(n int, none, next string) {
	if n == 0 {
		fmt.Fprintln(g.ErrOut, none)
	}
	if next != "" {
		fmt.Fprintf(g.ErrOut, "more: --after %s\n", ShellWord(next))
	}
}

// Raw is standard output for what another program reads byte for byte. It is Out itself where a
// terminal shows it, because a terminal obeys some of what cannot be seen.
func (c *Console) Raw() io.Writer {
	safe, ok := c.Out.(plainWriter)
	if !ok {
		return c.Out
	}
	if file, ok := safe.w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return c.Out
	}
	return safe.w
}
