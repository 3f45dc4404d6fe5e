package changes

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	views := make([]attemptView, 0, len(all))
	for i := range all {
		views = append(views, viewAttempt(&all[i]))
	}
	err = g.Print(views, []string{"ID", "MACHINE", "STATE", "BY", "OPENED", "DIGEST"}, func(row func(...string)) {
		for i, v := range views {
			row(v.ID, v.Machine, v.State, ask.Subject(all[i].Caller), cli.Stamp(&v.OpenedAt), v.Digest)
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
	v := viewAttempt(&attempt)
	if err := g.Print(v, []string{"FIELD", "VALUE"}, func(row func(...string)) {
		for _, f := range v.fields() {
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
	return fmt.Sprintf("The machine is held. It is observed every few seconds and freed if the configuration shows up.\n"+
		"After %s a recovery-admin may decide, on a fresh observation:\n"+
		"  bronzeward attempts account %s --landed|--not-landed --reason TEXT\n", cli.Stamp(&a.SettleAfter), a.ID)
}

type attemptsAccountCmd struct {
	clientFlags
	ID        string `arg:"" help:"Attempt id."`
	Landed    bool   `xor:"what" required:"" help:"The node took the configuration."`
	NotLanded bool   `xor:"what" required:"" help:"The node did not take it."`
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
	return g.Done(viewAttempt(&after), "attempt %s is %s; machine %s is free (decision %s)\n", c.ID, after.State, after.Machine, said.Decision)
}

// attemptView is an attempt as commands print it.
type attemptView struct {
	ID             string     `json:"id"`
	Decision       string     `json:"decision"`
	Change         string     `json:"change"`
	Machine        string     `json:"machine"`
	Cluster        string     `json:"cluster"`
	State          string     `json:"state"`
	Issuer         string     `json:"issuer"`
	Subject        string     `json:"subject"`
	Mode           string     `json:"mode"`
	Digest         string     `json:"digest"`
	Base           string     `json:"base"`
	Persistent     string     `json:"persistent"`
	ReadActive     string     `json:"read_active"`
	ReadPersistent string     `json:"read_persistent"`
	OpenedAt       time.Time  `json:"opened_at"`
	SendBy         time.Time  `json:"send_by"`
	Deadline       time.Time  `json:"transport_deadline"`
	Instance       string     `json:"instance"`
	ClosedBy       string     `json:"closed_by"`
	SettleAfter    time.Time  `json:"settle_after"`
	ClosedAt       *time.Time `json:"closed_at"`
	Reason         string     `json:"reason"`
	Landed         *bool      `json:"landed"`
	LateAt         *time.Time `json:"late_at"`
	Credential     *int64     `json:"credential_version"`
}

func viewAttempt(a *api.Attempt) attemptView {
	return attemptView{
		ID: a.ID, Decision: a.DecisionID, Change: a.ChangeID, Machine: a.Machine, Cluster: a.Cluster, State: string(a.State),
		Issuer: a.Caller.Issuer, Subject: a.Caller.Subject, Mode: a.Mode, Digest: a.Digest, Base: a.Base.Active, Persistent: a.Base.Persistent,
		ReadActive: a.Read.Active, ReadPersistent: a.Read.Persistent, OpenedAt: a.OpenedAt, SettleAfter: a.SettleAfter,
		SendBy: a.SendBy, Deadline: a.TransportDeadline, Instance: a.Instance, ClosedBy: a.ClosedBy,
		ClosedAt: a.ClosedAt, Reason: a.Reason, Landed: a.Landed, LateAt: a.LateAt, Credential: a.CredentialVersion,
	}
}

func (v attemptView) fields() [][2]string {
	landed, credential := "", ""
	if v.Credential != nil {
		credential = fmt.Sprintf("version %d", *v.Credential)
	}
	if v.Landed != nil {
		landed = cli.YesNo(*v.Landed)
	}
	return [][2]string{
		{"id", v.ID},
		{"state", v.State},
		{"why", v.Reason},
		{"machine", v.Machine},
		{"cluster", v.Cluster},
		{"by", ask.Person(api.Person{Issuer: v.Issuer, Subject: v.Subject})},
		{"change", v.Change},
		{"decision", v.Decision},
		{"mode", v.Mode},
		{"digest sent", v.Digest},
		{"digest before", v.Base},
		{"on disk before", v.Persistent},
		{"digest read back", v.ReadActive},
		{"on disk read back", v.ReadPersistent},
		{"opened", cli.Stamp(&v.OpenedAt)},
		{"gateway", v.Instance},
		{"talos credential", credential},
		{"closed", cli.Stamp(v.ClosedAt)},
		{"closed by", v.ClosedBy},
		{"landed", landed},
		{"landed late, seen", cli.Stamp(v.LateAt)},
		{"may be accounted from", cli.Stamp(&v.SettleAfter)},
	}
}
