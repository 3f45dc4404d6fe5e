package changes

import (
	"context"
	"errors"
	"fmt"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// Attempts are the commands about applies that were sent.
type Attempts struct {
	List    attemptsListCmd    `cmd:"" help:"List attempts, newest first." aliases:"ls"`
	Show    attemptsShowCmd    `cmd:"" help:"Show one attempt."`
	Account attemptsAccountCmd `cmd:"" help:"Say what became of an unresolved attempt, and free its machine."`
}

type attemptsListCmd struct {
	clientFlags
	Held    bool   `help:"Only attempts that hold their machine: open and unresolved ones."`
	Machine string `short:"m" help:"Only attempts on this machine."`
	Limit   int    `default:"50" help:"At most this many."`
	After   string `help:"Continue after this cursor, as printed by the page before."`
}

func (l *attemptsListCmd) Run(ctx context.Context, g *cli.Globals) error {
	if err := cli.CheckLimit(l.Limit); err != nil {
		return err
	}
	a, err := l.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	params := api.ListAttemptsParams{Machine: cli.Given(l.Machine)}
	if l.Held {
		params.Held = &l.Held
	}
	all, next, err := ask.Collect(l.Limit, l.After, func(limit int, cursor *string) ([]api.Attempt, string, error) {
		params.Limit, params.Cursor = &limit, cursor
		page, _, err := ask.Received[api.AttemptList](a.ListAttempts(ctx, &params))
		return page.Items, page.Next, err
	})
	if err != nil {
		return err
	}
	err = g.Print(all, []string{"ID", "MACHINE", "STATE", "BY", "OPENED", "DIGEST"}, func(row func(...string)) {
		for i := range all {
			v := &all[i]
			row(v.ID, v.Machine, string(v.State), ask.Subject(v.Caller), cli.Stamp(&v.OpenedAt), v.Digest)
		}
	})
	g.More(len(all), "no attempt matches", next)
	return err
}

type attemptsShowCmd struct {
	clientFlags
	ID string `arg:"" help:"Attempt id."`
}

func (s *attemptsShowCmd) Run(ctx context.Context, g *cli.Globals) error {
	if _, err := cli.ParseID(s.ID); err != nil {
		return err
	}
	a, err := s.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	attempt, _, err := ask.Received[api.Attempt](a.GetAttempt(ctx, s.ID))
	if err != nil {
		return err
	}
	if err := g.Print(attempt, []string{"FIELD", "VALUE"}, func(row func(...string)) {
		for _, f := range attemptFields(&attempt) {
			row(f[0], f[1])
		}
	}); err != nil || g.Output != "table" {
		return err
	}
	if attempt.State == api.AttemptStateUnresolved {
		fmt.Fprintf(g.Out, "\n%s", heldText(&attempt))
	}
	return nil
}

// heldText says what an unresolved attempt means and who can end it.
func heldText(a *api.Attempt) string {
	if a.Retired {
		return "Its machine is retired: the attempt stays unresolved for good, and holds nobody.\n"
	}
	return fmt.Sprintf("The machine is held. It is observed every few seconds and freed if the configuration shows up.\n"+
		"After %s a recovery-admin may decide, on a fresh observation:\n"+
		"  bronzeward attempts account %s --landed|--not-landed --reason TEXT\n", cli.Stamp(&a.SettleAfter), a.ID)
}

type attemptsAccountCmd struct {
	clientFlags
	ID        string `arg:"" help:"Attempt id."`
	Landed    bool   `xor:"what" help:"The node took the configuration. One of the two is needed."`
	NotLanded bool   `xor:"what" help:"The node did not take it."`
	Reason    string `required:"" help:"How you know."`
}

func (c *attemptsAccountCmd) Run(ctx context.Context, g *cli.Globals) error {
	if _, err := cli.ParseID(c.ID); err != nil {
		return err
	}
	if c.Landed == c.NotLanded {
		return cli.Usage(errors.New("say one of --landed and --not-landed"))
	}
	a, err := c.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	after, said, err := ask.Received[api.Attempt](a.AccountAttempt(ctx, c.ID, nil, api.NewAccounting{Landed: c.Landed, Reason: c.Reason}))
	if err != nil {
		return err
	}
	return g.Done(after, "attempt %s is %s%s; machine %s is free (decision %s)\n", c.ID, after.State, contradicted(&after), after.Machine, said.Decision)
}

// contradicted says that what a person judged is not what was seen; empty else.
func contradicted(a *api.Attempt) string {
	if a.State == api.AttemptStateFailed && a.Landed != nil && *a.Landed {
		return ", because the machine holds what it held before, and not what was judged landed"
	}
	return ""
}

// attemptFields are the rows of one attempt: those that say nothing of it are left out.
func attemptFields(a *api.Attempt) [][2]string {
	credential := ""
	if a.CredentialVersion != nil {
		credential = fmt.Sprintf("version %d", *a.CredentialVersion)
	}
	rows := [][2]string{
		{"id", a.ID},
		{"state", string(a.State)},
		{"why", a.Reason},
		{"machine", a.Machine},
		{"cluster", a.Cluster},
		{"by", ask.Person(a.Caller)},
		{"change", a.ChangeID},
		{"decision", a.DecisionID},
		{"mode", a.Mode},
		{"digest sent", a.Digest},
		{"digest before", a.Base.Active},
		{"on disk before", a.Base.Persistent},
		{"digest read back", a.Read.Active},
		{"on disk read back", a.Read.Persistent},
		{"opened", cli.Stamp(&a.OpenedAt)},
		{"gateway", a.Instance},
		{"talos credential", credential},
		{"closed", cli.Stamp(a.ClosedAt)},
		{"closed by", a.ClosedBy},
	}
	if a.State == api.AttemptStateNotSent {
		rows[9][0] = "digest not sent"
	}
	if a.Landed != nil {
		rows = append(rows, [2]string{"landed", judged(a)})
	}
	if a.LateAt != nil {
		rows = append(rows, [2]string{"seen later", cli.Stamp(a.LateAt) + ": the machine holds what was sent, " + a.Digest})
	}
	if a.State == api.AttemptStateUnresolved && !a.Retired {
		rows = append(rows, [2]string{"may be accounted from", cli.Stamp(&a.SettleAfter)})
	}
	return rows
}

// judged is what a person said of an attempt, and what was seen then.
func judged(a *api.Attempt) string {
	text := "judged not landed by " + cli.ASCII(a.ClosedBy)
	if *a.Landed {
		text = "judged landed by " + cli.ASCII(a.ClosedBy)
	}
	switch a.State {
	case api.AttemptStateCompleted:
		return text + ", and the machine held what was sent"
	case api.AttemptStateFailed:
		return text + ", and the machine held what it held before"
	}
	return text
}
