package law

import (
	"context"
	"fmt"
	"os"
	"time"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/policy"
)

type policyBenchCmd struct {
	Dir   string `arg:"" optional:"" help:"Directory with the law; the shipped one when left out."`
	Call  string `placeholder:"FILE" type:"existingfile" help:"YAML file with the facts of a call, instead of the sample calls."`
	Times int    `default:"1000" help:"How often each call is judged."`
}

// Run measures a law on this computer.
func (p *policyBenchCmd) Run(ctx context.Context, g *cli.Globals) error {
	if p.Times < 1 {
		return cli.Usage(fmt.Errorf("--times must be 1 or more"))
	}
	b, err := loadBundle(p.Dir)
	if err != nil {
		return err
	}
	var facts *policy.Facts
	if p.Call != "" {
		raw, err := os.ReadFile(p.Call)
		if err != nil {
			return cli.Usage(err)
		}
		if facts, err = policy.DecodeFacts(raw); err != nil {
			return cli.Usage(fmt.Errorf("%s: %w", p.Call, err))
		}
	}
	timings, err := policy.Bench(ctx, b, facts, p.Times)
	if err != nil {
		return err
	}
	return g.Print(timings, []string{"CALL", "TIMES", "P50", "P99", "ALLOCATIONS", "BYTES"}, func(row func(...string)) {
		for _, t := range timings {
			row(t.Call, fmt.Sprint(t.Times), t.P50.Round(time.Microsecond).String(), t.P99.Round(time.Microsecond).String(), fmt.Sprint(t.Allocations), fmt.Sprint(t.Bytes))
		}
	})
}
