package law

import (
	"context"
	"fmt"
	"strings"

	"bronzeward/cmd/bronzeward/book"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/policy"
	"bronzeward/policytest/replay"
)

// GateFlags are a limit on what a new law may change of the past.
type GateFlags struct {
	ReplaySince    string `placeholder:"7d" help:"Before that, judge the decisions from this time on again by the new law: a time, a day in your zone, or so long ago."`
	MaxNewlyDenied int64  `default:"0" placeholder:"N" help:"With --replay-since: leave the live law when more than so many past allows would be denied now."`
}

// span reads the flags; asked is false when there is no limit.
func (f GateFlags) span() (r book.Range, asked bool, err error) {
	switch {
	case f.MaxNewlyDenied < 0:
		return r, false, cli.Usage(fmt.Errorf("--max-newly-denied %d is less than none", f.MaxNewlyDenied))
	case f.ReplaySince == "" && f.MaxNewlyDenied > 0:
		return r, false, cli.Usage(fmt.Errorf("--max-newly-denied is a limit on a replay: give --replay-since, such as 7d"))
	case f.ReplaySince == "":
		return r, false, nil
	}
	r, err = book.SinceOnly("--replay-since", f.ReplaySince)
	if err != nil {
		err = cli.Usage(err)
	}
	return r, true, err
}

// pass replays the past by the new law, and refuses it when more is denied now than may be. What
// cannot be judged again is no pass: it is told. The report and its words are for the entry.
func (f GateFlags) pass(ctx context.Context, g *cli.Globals, past book.Past, r book.Range, b *policy.Bundle) (replay.Report, string, error) {
	laws, err := draft(ctx, b)
	if err != nil {
		return replay.Report{}, "", err
	}
	report, err := replayRange(ctx, g, past, r, replay.Config{Laws: laws, Draft: b.Revision()})
	if err != nil {
		return report, "", fmt.Errorf("the past could not be replayed, and the live law stays: %w", err)
	}
	fmt.Fprintf(g.ErrOut, "replay: %s\n", report.String())
	if report.NowDenied <= f.MaxNewlyDenied {
		return report, fmt.Sprintf("since %s, at most %d newly denied: %s", f.ReplaySince, f.MaxNewlyDenied, report.String()), nil
	}
	const examples = 3
	var ids []string
	for _, c := range report.Changed {
		if c.Kind == replay.NowDenied && len(ids) < examples {
			ids = append(ids, fmt.Sprintf("\n  %s %s %s", c.ID, strings.Join(c.New, ","), cli.ASCII(c.Subject)))
		}
	}
	return report, "", cli.Changed(fmt.Errorf("%d past allows would be denied now, more than the %d that --max-newly-denied lets pass, and the live law stays; for example:%s\nbronzeward policy replay --bundle DIR --since %s lists them",
		report.NowDenied, f.MaxNewlyDenied, strings.Join(ids, ""), f.ReplaySince))
}

// claim is what a replay came to, as it goes to a gateway.
func (f GateFlags) claim(r book.Range, report *replay.Report) *api.PolicyReplay {
	return &api.PolicyReplay{
		Since: r.Since().UTC(), MaxNewlyDenied: f.MaxNewlyDenied, Decisions: report.Decisions, Same: report.Same, NowDenied: report.NowDenied,
		NowAllowed: report.NowAllowed, OtherReasons: report.OtherReasons, ByGateway: report.ByGateway, Unjudged: report.CountUnjudged(),
	}
}
