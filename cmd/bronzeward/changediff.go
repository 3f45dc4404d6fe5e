package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"bronzeward/gateway/httpapi/api"
)

type changesDiffCmd struct {
	clientFlags
	ID string `arg:"" help:"Change id, chg_…"`
}

func (d *changesDiffCmd) Run(ctx context.Context, g *globals) error {
	a, err := d.open(g)
	if err != nil {
		return err
	}
	defer a.close()
	diff, _, err := received[api.ChangeDiff](a.GetChangeDiff(ctx, d.ID))
	if err != nil {
		return err
	}
	if g.Output != "table" {
		return g.print(diff, nil, nil)
	}
	fmt.Fprintf(g.out, "change %s, digest %s\n", diff.ID, diff.Digest)
	showDiff(g.out, &diff)
	return nil
}

// showDiff prints all of a diff: who approves it must have seen it whole.
func showDiff(w io.Writer, d *api.ChangeDiff) {
	if len(d.Discards) > 0 {
		fmt.Fprintln(w, "\nwould be lost: what is staged on the machine now")
		showConfigChanges(w, d.Discards)
	}
	fmt.Fprintln(w, "\nwould change (values that may be secret are fingerprints)")
	showConfigChanges(w, d.Changes)
	if len(d.Changes) == 0 {
		fmt.Fprintln(w, "  no value: only spelling, order or comments differ")
	}
}

func showConfigChanges(w io.Writer, changes []api.ConfigChange) {
	for _, c := range changes {
		reboot := ""
		if c.Reboot {
			reboot = "  (Talos asks for a reboot)"
		}
		fmt.Fprintf(w, "  %s %s: %s -> %s%s\n", ascii(c.Document), ascii(c.Path), configValue(c.Before), configValue(c.After), reboot)
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
			return ascii(v)
		}
		return strconv.QuoteToASCII(v)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return ascii(fmt.Sprint(v))
	}
	return ascii(string(raw))
}
