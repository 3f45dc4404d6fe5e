package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

type identitiesCmd struct {
	Revoke identitiesRevokeCmd `cmd:"" help:"Revoke a person for good: there is no undo."`
	List   identitiesListCmd   `cmd:"" help:"List revoked people." aliases:"ls"`
}

type identitiesRevokeCmd struct {
	clientFlags
	Issuer  string `required:"" help:"The person's issuer, as decisions show it."`
	Subject string `required:"" help:"The person's subject, as decisions show it."`
	Reason  string `required:"" help:"Why; it stays in the record."`
	Yes     bool   `short:"y" help:"Do not ask."`
}

func (i *identitiesRevokeCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := i.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	switch {
	case i.Yes:
	case !g.Interactive:
		return cli.Usage(errors.New("nothing undoes a revocation, and there is no terminal to ask at: say --yes"))
	default:
		question := fmt.Sprintf("%s loses all authority, for good: every call, approval and waiting change of theirs. Nothing undoes it.",
			person(api.Person{Issuer: i.Issuer, Subject: i.Subject}))
		if me, _, err := ask.Received[api.Caller](a.Whoami(ctx)); err == nil && me.Issuer == i.Issuer && me.Subject == i.Subject {
			question += "\nThis is you: who else may revoke, account for attempts and recover?"
		}
		if err := g.Confirm(ctx, question); err != nil {
			return err
		}
	}
	done, said, err := ask.Received[api.IdentityRevocation](a.RevokeIdentity(ctx, nil, api.NewIdentityRevocation{Issuer: i.Issuer, Subject: i.Subject, Reason: i.Reason}))
	if err != nil {
		return err
	}
	if !done.Seen { // somebody nobody has seen can be revoked, and so can a misspelling
		fmt.Fprintln(g.ErrOut, "warning: nobody of that name has been seen yet; check the spelling: bronzeward decisions list")
	}
	return g.Done(done, "%+q of %+q is revoked for good (decision %s)\n", done.Subject, done.Issuer, said.Decision)
}

type identitiesListCmd struct{ clientFlags }

func (i *identitiesListCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := i.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	all, _, err := ask.Collect(0, "", func(limit int, cursor *string) ([]api.IdentityRevocation, string, error) {
		page, _, err := ask.Received[api.IdentityRevocationList](a.ListIdentityRevocations(ctx, &api.ListIdentityRevocationsParams{Limit: &limit, Cursor: cursor}))
		return page.Items, page.Next, err
	})
	if err != nil {
		return err
	}
	return g.Print(all, []string{"ISSUER", "SUBJECT", "REVOKED", "REASON"}, func(row func(...string)) {
		for _, r := range all {
			row(cli.ASCII(r.Issuer), cli.ASCII(r.Subject), cli.Stamp(&r.RevokedAt), r.Reason)
		}
	})
}

type whoamiCmd struct{ clientFlags }

func (w *whoamiCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := w.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	me, _, err := ask.Received[api.Caller](a.Whoami(ctx))
	if err != nil {
		return err
	}
	return g.Print(me, []string{"FIELD", "VALUE"}, func(row func(...string)) {
		row("name", me.Name)
		row("subject", cli.ASCII(me.Subject))
		row("issuer", cli.ASCII(me.Issuer))
		row("kind", string(me.Kind))
		row("groups", strings.Join(me.Groups, ", "))
		row("proof", string(me.Proof))
		row("proof ends", a.proofEnds(&me))
		row("revoked", cli.YesNo(me.Revoked))
		row("seen at", me.Address)
		row("gateway", a.Asker.Settings.Server)
	})
}

// proofEnds is until when the proof is taken. A token is for longer than it says itself, because
// its issuer's clock may differ from the gateway's; login and issuer name its own end.
func (a *apiClient) proofEnds(me *api.Caller) string {
	taken := cli.Stamp(&me.ProofEnds)
	token, err := a.Asker.Token()
	if err != nil || token == "" {
		return taken
	}
	said, err := claimsOf(token)
	if err != nil || said.ends.IsZero() || !said.ends.Before(me.ProofEnds) {
		return taken
	}
	return fmt.Sprintf("%s; the gateway takes it until %s, for clocks that differ", cli.Stamp(&said.ends), taken)
}

type approvalsCmd struct {
	Revoke approvalsRevokeCmd `cmd:"" help:"Take an approval back: it counts no more."`
}

type approvalsRevokeCmd struct {
	clientFlags
	ID     string `arg:"" help:"Approval id, apr_…, as changes show prints it."`
	Reason string `required:"" help:"Why; it stays in the record."`
}

func (r *approvalsRevokeCmd) Run(ctx context.Context, g *cli.Globals) error {
	if strings.HasPrefix(r.ID, "chg_") {
		return cli.Usage(errors.New("that is the id of a change; an approval's begins with apr_, and `bronzeward changes show` prints it"))
	}
	a, err := r.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	done, said, err := ask.Received[api.Approval](a.RevokeApproval(ctx, r.ID, nil, api.Reason{Reason: r.Reason}))
	if err != nil {
		return err
	}
	for _, note := range done.Notes {
		fmt.Fprintf(g.ErrOut, "warning: %s\n", cli.OneLine(note))
	}
	return g.Done(done, "approval %s of %s is revoked (decision %s)\nsee: bronzeward changes show %s\n",
		done.ID, person(done.Approver), said.Decision, done.ChangeID)
}

type noticesCmd struct {
	List noticesListCmd `cmd:"" help:"List notices to approvers, newest first." aliases:"ls"`
}

type noticesListCmd struct {
	clientFlags
	Dead  bool `help:"Only those that are given up."`
	Limit int  `default:"50" help:"At most this many, up to 500."`
}

func (n *noticesListCmd) Run(ctx context.Context, g *cli.Globals) error {
	if n.Limit < 1 || n.Limit > ask.MostPage {
		return cli.Usage(fmt.Errorf("--limit %d is not between 1 and %d", n.Limit, ask.MostPage))
	}
	a, err := n.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	params := api.ListNoticesParams{Limit: &n.Limit}
	if n.Dead {
		params.Dead = &n.Dead
	}
	page, _, err := ask.Received[api.NoticeList](a.ListNotices(ctx, &params))
	if err != nil {
		return err
	}
	err = g.Print(page.Items, []string{"ID", "CHANGE", "STATE", "TRIES", "CREATED", "NEXT", "ERROR"}, func(row func(...string)) {
		for _, one := range page.Items {
			next := ""
			if one.State == api.NoticeStateWaiting {
				next = cli.Stamp(&one.NextAt)
			}
			row(one.ID, one.ChangeID, string(one.State), fmt.Sprint(one.Tries), cli.Stamp(&one.CreatedAt), next, one.Error)
		}
	})
	g.More(len(page.Items), "no notice matches", "")
	return err
}
