package machines

import (
	"context"
	"fmt"
	"strings"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

type machinesRetireCmd struct {
	ask.Flags
	Name   string `arg:"" help:"Machine name."`
	Reason string `required:"" help:"Why it never comes back."`
	Yes    bool   `short:"y" help:"Do not ask."`
}

func (m *machinesRetireCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := m.Open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	if err := g.ForGood(ctx, m.Yes, "retiring a machine is for good", func() string {
		return "Machine " + cli.ASCII(m.Name) + " never takes a call again, its live changes end, and its name stays taken. Nothing undoes it."
	}); err != nil {
		return err
	}
	retired, said, err := ask.Received[api.Machine](a.RetireMachine(ctx, m.Name, nil, api.NewRetirement{Reason: m.Reason}))
	if err != nil {
		return err
	}
	left := ""
	if g.Output == "table" {
		left = leftBehind(ctx, a, retired.Name)
	}
	return g.Done(viewMachine(&retired), "machine %s is retired for good; another one may have its addresses (decision %s)\n%s", retired.Name, said.Decision, left)
}

// leftBehind says what the retirement ended, and what nobody can find out any more. The machine is
// retired whatever can be read of that.
func leftBehind(ctx context.Context, a *ask.Client, machine string) string {
	var b strings.Builder
	superseded := []api.ChangeStateFilter{api.ChangeStateFilterSuperseded}
	changes, _, err := ask.Collect(0, "", func(limit int, cursor *string) ([]api.Change, string, error) {
		page, _, err := ask.Received[api.ChangeList](a.ListChanges(ctx, &api.ListChangesParams{Machine: &machine, State: &superseded, Limit: &limit, Cursor: cursor}))
		return page.Items, page.Next, err
	})
	if err != nil {
		fmt.Fprintf(&b, "which changes it superseded could not be read: bronzeward changes list -m %s\n", cli.ShellWord(machine))
	}
	for i := range changes {
		if strings.HasPrefix(changes[i].Reason, "the machine was retired") {
			fmt.Fprintf(&b, "superseded: change %s of %s\n", changes[i].ID, ask.Subject(changes[i].Requester))
		}
	}
	attempts, _, err := ask.Collect(0, "", func(limit int, cursor *string) ([]api.Attempt, string, error) {
		page, _, err := ask.Received[api.AttemptList](a.ListAttempts(ctx, &api.ListAttemptsParams{Machine: &machine, Limit: &limit, Cursor: cursor}))
		return page.Items, page.Next, err
	})
	if err != nil {
		fmt.Fprintf(&b, "which attempts it leaves unresolved could not be read: bronzeward attempts list -m %s\n", cli.ShellWord(machine))
	}
	for i := range attempts {
		if attempts[i].State == api.AttemptStateUnresolved {
			fmt.Fprintf(&b, "stays unresolved for good: attempt %s of %s\n", attempts[i].ID, ask.Subject(attempts[i].Caller))
		}
	}
	return b.String()
}
