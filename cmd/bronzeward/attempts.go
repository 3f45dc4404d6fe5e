package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
)

type attemptsCmd struct {
	List    attemptsListCmd    `cmd:"" help:"List attempts, newest first." aliases:"ls"`
	Show    attemptsShowCmd    `cmd:"" help:"Show one attempt."`
	Account attemptsAccountCmd `cmd:"" help:"Say what became of an unresolved attempt, and free its machine."`
}

type attemptsListCmd struct {
	Held  bool `help:"Only attempts that hold their machine: open and unresolved ones."`
	Limit int  `default:"50" help:"At most this many."`
}

func (a *attemptsListCmd) Run(ctx context.Context, g *globals) error {
	store, done, err := g.openStore(ctx)
	if err != nil {
		return err
	}
	defer done()
	all, err := store.ListAttempts(ctx, control.AttemptFilter{Held: a.Held, Limit: a.Limit})
	if err != nil {
		return err
	}
	views := make([]attemptView, 0, len(all))
	for i := range all {
		views = append(views, viewAttempt(&all[i]))
	}
	return g.print(views, []string{"ID", "MACHINE", "STATE", "BY", "OPENED", "DIGEST"}, func(row func(...string)) {
		for _, v := range views {
			row(v.ID, v.Machine, v.State, v.Subject, stamp(&v.OpenedAt), v.Digest)
		}
	})
}

type attemptsShowCmd struct {
	ID string `arg:"" help:"Attempt id."`
}

func (a *attemptsShowCmd) Run(ctx context.Context, g *globals) error {
	id, err := parseID(a.ID)
	if err != nil {
		return err
	}
	store, done, err := g.openStore(ctx)
	if err != nil {
		return err
	}
	defer done()
	attempt, err := store.GetAttempt(ctx, id)
	if err != nil {
		return err
	}
	v := viewAttempt(&attempt)
	if err := g.print(v, []string{"FIELD", "VALUE"}, func(row func(...string)) {
		for _, f := range v.fields() {
			row(f[0], f[1])
		}
	}); err != nil || g.Output != "table" {
		return err
	}
	if attempt.State == control.StateUnresolved {
		fmt.Fprintf(g.out, "\nThe machine is held. It is observed every few seconds and freed if the configuration shows up.\n"+
			"After %s a recovery-admin may decide, on a fresh observation:\n"+
			"  bronzeward attempts account %s --landed|--not-landed --reason TEXT\n", stamp(&attempt.SettleAfter), attempt.ID)
	}
	return nil
}

type attemptsAccountCmd struct {
	credentialFlags
	ID        string `arg:"" help:"Attempt id."`
	Landed    bool   `xor:"what" required:"" help:"The node took the configuration."`
	NotLanded bool   `xor:"what" required:"" help:"The node did not take it."`
	Reason    string `required:"" help:"How you know."`
}

func (a *attemptsAccountCmd) Run(ctx context.Context, g *globals) error {
	id, err := parseID(a.ID)
	if err != nil {
		return err
	}
	if a.Landed == a.NotLanded {
		return usageError{errors.New("say one of --landed and --not-landed")}
	}
	d, err := g.openDesk(ctx, a.credentialFlags)
	if err != nil {
		return err
	}
	defer d.close()
	receipt, err := d.acts.Account(ctx, d.actor, id, a.Landed, a.Reason)
	if err != nil {
		return err
	}
	after, err := d.store.GetAttempt(ctx, id)
	if err != nil {
		return err
	}
	fmt.Fprintf(g.out, "attempt %s is %s; machine %s is free (decision %s)\n", id, after.State, after.MachineName, receipt.ID)
	return nil
}

func parseID(s string) (uuid.UUID, error) {
	id, err := uuid.Parse(s)
	if err != nil {
		return uuid.Nil, usageError{fmt.Errorf("%q is not an id; ids look like 019a5c3e-7b1d-7f00-8000-0123456789ab", s)}
	}
	return id, nil
}

// attemptView is an attempt as commands print it.
type attemptView struct {
	ID             string     `json:"id"`
	Decision       string     `json:"decision"`
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
	SettleAfter    time.Time  `json:"settle_after"`
	ClosedAt       *time.Time `json:"closed_at"`
	ClosedBy       string     `json:"closed_by"`
	Reason         string     `json:"reason"`
	Instance       string     `json:"instance"`
}

func viewAttempt(a *control.Attempt) attemptView {
	return attemptView{
		ID: a.ID.String(), Decision: a.EntryID.String(), Machine: a.MachineName, Cluster: a.Cluster, State: string(a.State),
		Issuer: a.Caller.Issuer, Subject: a.Caller.Subject, Mode: a.Mode, Digest: a.Digest, Base: a.Base, Persistent: a.Persistent,
		ReadActive: a.ReadActive, ReadPersistent: a.ReadPersistent, OpenedAt: a.OpenedAt, SendBy: a.SendBy,
		Deadline: a.TransportDeadline, SettleAfter: a.SettleAfter, ClosedAt: a.ClosedAt, ClosedBy: a.ClosedBy,
		Reason: a.Reason, Instance: a.Owner.Instance,
	}
}

func (v attemptView) fields() [][2]string {
	return [][2]string{
		{"id", v.ID},
		{"state", v.State},
		{"why", v.Reason},
		{"machine", v.Machine},
		{"cluster", v.Cluster},
		{"by", v.Subject + " (" + v.Issuer + ")"},
		{"decision", v.Decision},
		{"mode", v.Mode},
		{"digest sent", v.Digest},
		{"digest before", v.Base},
		{"on disk before", v.Persistent},
		{"digest read back", v.ReadActive},
		{"on disk read back", v.ReadPersistent},
		{"opened", stamp(&v.OpenedAt)},
		{"send by", stamp(&v.SendBy)},
		{"transport deadline", stamp(&v.Deadline)},
		{"closed", stamp(v.ClosedAt)},
		{"closed by", v.ClosedBy},
		{"gateway", v.Instance},
	}
}
