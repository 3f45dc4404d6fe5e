package people

import (
	"context"
	"fmt"
	"strings"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// Identities are the commands about revoked people.
type Identities struct {
	Revoke identitiesRevokeCmd `cmd:"" help:"Revoke a person for good: there is no undo."`
	List   identitiesListCmd   `cmd:"" help:"List revoked people." aliases:"ls"`
}

type identitiesRevokeCmd struct {
	ask.Flags
	Issuer  string `required:"" help:"The person's issuer, as decisions show it."`
	Subject string `required:"" help:"The person's subject, as decisions show it."`
	Reason  string `required:"" help:"Why; it stays in the record."`
	Yes     bool   `short:"y" help:"Do not ask."`
}

func (i *identitiesRevokeCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := i.Open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	if err := g.ForGood(ctx, i.Yes, "nothing undoes a revocation", func() string {
		question := fmt.Sprintf("%s loses all authority, for good: every call, approval and waiting change of theirs. Nothing undoes it.",
			ask.Person(api.Person{Issuer: i.Issuer, Subject: i.Subject}))
		if me, _, err := ask.Received[api.Caller](a.Whoami(ctx)); err == nil && me.Issuer == i.Issuer && me.Subject == i.Subject {
			question += "\nThis is you: who else may revoke, account for attempts and recover?"
		}
		return question
	}); err != nil {
		return err
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

type identitiesListCmd struct{ ask.Flags }

func (i *identitiesListCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := i.Open(g)
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

// Whoami says who the caller is to the gateway.
type Whoami struct{ ask.Flags }

func (w *Whoami) Run(ctx context.Context, g *cli.Globals) error {
	a, err := w.Open(g)
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
		row("proof ends", proofEnds(a, &me))
		row("revoked", cli.YesNo(me.Revoked))
		row("seen at", me.Address)
		row("gateway", a.Asker.Settings.Server)
	})
}

// proofEnds is until when the proof is taken. A token is for longer than it says itself, because
// its issuer's clock may differ from the gateway's; login and issuer name its own end.
func proofEnds(a *ask.Client, me *api.Caller) string {
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
