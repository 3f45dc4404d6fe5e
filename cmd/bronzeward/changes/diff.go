package changes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

type changesDiffCmd struct {
	clientFlags
	ID string `arg:"" help:"Change id, chg_…"`
}

func (d *changesDiffCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := d.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	diff, _, err := ask.Received[api.ChangeDiff](a.GetChangeDiff(ctx, d.ID))
	if err != nil {
		return err
	}
	if g.Output != "table" {
		return g.Print(diff, nil, nil)
	}
	fmt.Fprintf(g.Out, "change %s, digest %s\n", diff.ID, diff.Digest)
	would := wouldChange
	if !diff.Compared {
		would = wouldBeTaken // only an adoption is not compared
	}
	showDiff(g.Out, &diff, would)
	return nil
}

// What stands over the differences of a change.
const (
	wouldChange  = "would change"
	wouldBeTaken = "would be taken as applied, and nothing is sent"
)

// wouldOf is what stands over those of this one.
func wouldOf(c *api.Change) string {
	if c.Kind == api.Adopt {
		return wouldBeTaken
	}
	return wouldChange
}

// valuesChanged is how many values a change changes, or what stands for it where nobody knows.
func valuesChanged(c *api.Change, unknown string) string {
	if c.ChangesCount == nil {
		return unknown
	}
	return strconv.Itoa(*c.ChangesCount)
}

// showDiff prints all of a diff: who approves it must have seen it whole.
func showDiff(w io.Writer, d *api.ChangeDiff, would string) {
	if len(d.Discards) > 0 {
		fmt.Fprintln(w, "\nwould be lost: what is staged on the machine now")
		showConfigChanges(w, d.Discards)
	}
	fmt.Fprintf(w, "\n%s (values that may be secret are fingerprints)\n", would)
	showValues(w, d.Changes, d.Compared, "what was applied before")
}

// showValues prints what changed, where that could be compared with a copy of what was.
func showValues(w io.Writer, changes []api.ConfigChange, compared bool, was string) {
	showConfigChanges(w, changes)
	switch {
	case !compared:
		fmt.Fprintf(w, "  not known: no copy of %s could be compared with\n", was)
	case len(changes) == 0:
		fmt.Fprintln(w, "  no value: only spelling, order or comments differ")
	}
}

func showConfigChanges(w io.Writer, changes []api.ConfigChange) {
	for _, c := range changes {
		reboot := ""
		if c.Reboot {
			reboot = "  (Talos asks for a reboot)"
		}
		fmt.Fprintf(w, "  %s %s: %s -> %s%s\n", cli.ASCII(c.Document), cli.ASCII(c.Path), configValue(c.Before), configValue(c.After), reboot)
	}
}

// configValue is a value as it stands in JSON, so that a text is told from a number, with
// letters that look alike escaped; a fingerprint stands as it is.
func configValue(v any) string {
	switch v := v.(type) {
	case nil:
		return "(none)"
	case string:
		if strings.HasPrefix(v, "fp:") {
			return cli.ASCII(v)
		}
		return strconv.QuoteToASCII(v)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return cli.ASCII(fmt.Sprint(v))
	}
	return cli.ASCII(string(raw))
}
