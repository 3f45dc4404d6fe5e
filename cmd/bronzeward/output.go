package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"go.yaml.in/yaml/v4"
)

// print writes a value as JSON or YAML, or as the table that rows fills.
func (g *globals) print(value any, header []string, rows func(row func(cells ...string))) error {
	switch g.Output {
	case "json":
		enc := json.NewEncoder(g.out)
		enc.SetIndent("", "  ")
		return enc.Encode(value)
	case "yaml":
		return printYAML(g.out, value)
	}
	w := tabwriter.NewWriter(g.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	rows(func(cells ...string) {
		for i, c := range cells {
			if c == "" {
				c = "-"
			}
			cells[i] = oneLine(c)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	})
	return w.Flush()
}

// printYAML goes through JSON, so that both formats have the same names.
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

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// stamp is a time in the reader's own zone.
func stamp(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}

// ago is how long ago something was, as kubectl shows ages.
func ago(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return span(time.Since(*t))
}

// span is a length of time in one number.
func span(d time.Duration) string {
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

// done prints what an act did: its sentences, or with -o json and yaml what the gateway
// answered.
func (g *globals) done(value any, format string, args ...any) error {
	if g.Output != "table" {
		return g.print(value, nil, nil)
	}
	_, err := fmt.Fprintf(g.out, format, args...)
	return err
}
