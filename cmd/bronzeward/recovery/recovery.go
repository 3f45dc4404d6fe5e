// Package recovery is the commands that bring the house back after a restore.
package recovery

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// Commands are the commands about recovery.
type Commands struct {
	Status  statusCmd  `cmd:"" help:"Say whether the house is in recovery, and what is left to do."`
	Enter   enterCmd   `cmd:"" help:"Begin a new epoch: old approvals are void, and every machine is held until it was observed and released."`
	Release releaseCmd `cmd:"" help:"Let go of a machine that was observed since recovery was entered."`
	Exit    exitCmd    `cmd:"" help:"End the recovery, when nothing on its list is open."`
}

type statusCmd struct{ ask.Flags }

// Run prints the list: what it says stands first is to be done first.
func (s *statusCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := s.Open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	now, _, err := ask.Received[api.RecoveryStatus](a.GetRecovery(ctx))
	if err != nil {
		return err
	}
	return show(g, &now)
}

// show prints how a recovery stands.
func show(g *cli.Globals, r *api.RecoveryStatus) error {
	if g.Output == "table" {
		for _, line := range head(r) {
			fmt.Fprintf(g.Out, "%-10s  %s\n", line[0], line[1])
		}
		if len(r.Items) == 0 {
			return nil
		}
		fmt.Fprintln(g.Out)
	}
	return g.Print(r, []string{"ITEM", "STANDS", "WHAT", "DO"}, func(row func(...string)) {
		for _, i := range r.Items {
			stands := "ok"
			if i.Open {
				stands = "OPEN"
			}
			row(i.Name, stands, i.Text, i.Do)
		}
	})
}

// head is what the list is of.
func head(r *api.RecoveryStatus) [][2]string {
	out := [][2]string{{"state", string(r.State)}, {"epoch", r.Epoch}}
	if r.Message != "" {
		out = append(out, [2]string{"found", cli.OneLine(r.Message)}, [2]string{"since", cli.Stamp(r.Since)})
	}
	if e := r.Entered; e != nil {
		out = append(out,
			[2]string{"entered", fmt.Sprintf("%s by %s: %s (decision %s)", cli.Stamp(&e.EnteredAt), ask.Subject(e.By), cli.OneLine(e.Reason), e.DecisionID)},
			[2]string{"old epoch", fmt.Sprintf("%s, whose last head has size %d", e.OldEpoch, e.OldSize)})
		if e.EndedAt != nil {
			out = append(out, [2]string{"ended", cli.Stamp(e.EndedAt)})
		}
	}
	return out
}

type enterCmd struct {
	ask.Flags
	Reason string `required:"" help:"Why; it stays in the record, and the new tree begins with it."`
	Yes    bool   `short:"y" help:"Do not ask."`
}

func (e *enterCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := e.Open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	if err := g.ForGood(ctx, e.Yes, "entering recovery ends every approval there is", func() string {
		return "Every approval becomes void, live changes end, and nothing is applied until each machine was observed and released. Nothing undoes it."
	}); err != nil {
		return err
	}
	return done(g, func() (*http.Response, error) { return a.EnterRecovery(ctx, nil, api.Reason{Reason: e.Reason}) },
		"recovery is entered", "bronzeward recovery status")
}

type releaseCmd struct {
	ask.Flags
	Name []string `arg:"" help:"Machine names."`
}

func (r *releaseCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := r.Open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	for _, name := range r.Name {
		err := done(g, func() (*http.Response, error) { return a.ReleaseMachine(ctx, name, nil, api.Nothing{}) },
			"machine "+name+" is released", "bronzeward recovery status")
		if err != nil {
			return err
		}
	}
	return nil
}

type exitCmd struct {
	ask.Flags
	RevocationsSettled bool   `help:"Say that lost revocations need not be made again; with --reason."`
	Reason             string `help:"Why they need not; it stays in the record."`
}

func (e *exitCmd) Run(ctx context.Context, g *cli.Globals) error {
	if e.RevocationsSettled != (e.Reason != "") {
		return cli.Usage(errors.New("--revocations-settled and --reason go together: say why lost revocations need not be made again"))
	}
	a, err := e.Open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	body := api.NewRecoveryEnding{Reason: cli.Given(e.Reason)}
	if e.RevocationsSettled {
		body.RevocationsSettled = &e.RevocationsSettled
	}
	return done(g, func() (*http.Response, error) { return a.ExitRecovery(ctx, nil, body) }, "recovery has ended", "bronzeward changes list")
}

// done does an act and says what is next.
func done(g *cli.Globals, act func() (*http.Response, error), what, next string) error {
	now, said, err := ask.Received[api.RecoveryStatus](act())
	if err != nil {
		return err
	}
	open := 0
	for _, i := range now.Items {
		if i.Open {
			open++
		}
	}
	left := "nothing is left to do"
	if open > 0 {
		left = fmt.Sprintf("open on the list: %s", cli.Plural(open, "item"))
	} else if now.State == api.Entered {
		left, next = "nothing of the list is open", "bronzeward recovery exit"
	}
	return g.Done(now, "%s (decision %s); %s\nnext: %s\n", what, said.Decision, left, next)
}
