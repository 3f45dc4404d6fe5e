package law

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/book"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway"
	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/policy"
)

// try tries a law, and says that it does: it takes a while.
func try(ctx context.Context, g *cli.Globals, name string, b *policy.Bundle) (policy.Tried, error) {
	fmt.Fprintln(g.ErrOut, "trying the law: compiled strictly, its own tests, the sample calls …")
	began := time.Now()
	tried, err := policy.Trial(ctx, b)
	if err != nil {
		return tried, fmt.Errorf("the law in %s does not pass its trial, and the live one stays:\n%w", name, err)
	}
	fmt.Fprintf(g.ErrOut, "trial passed after %s\n", time.Since(began).Round(time.Millisecond))
	return tried, nil
}

type policySaveCmd struct {
	WayFlags
	Law string `arg:"" help:"Directory with the law, or a .tar.gz of one."`
}

func (p *policySaveCmd) Run(ctx context.Context, g *cli.Globals) error {
	b, err := loadBundle(p.Law)
	if err != nil {
		return err
	}
	if _, err := requestOf(p.CredentialFlags); err != nil { // before the trial, which takes a while
		return err
	}
	tried, err := try(ctx, g, p.Law, b)
	if err != nil {
		return err
	}
	decision, err := p.save(ctx, g, gateway.Draft{Bundle: b, Tried: tried})
	if err != nil {
		return err
	}
	fmt.Fprintf(g.Out, "revision %s is saved and not live (decision %s)\nanother policy-admin: bronzeward policy approve %.12s\nthen: bronzeward policy activate %.12s\n",
		b.Revision(), decision, b.Revision(), b.Revision())
	return nil
}

func (p *policySaveCmd) save(ctx context.Context, g *cli.Globals, draft gateway.Draft) (decision string, err error) {
	if asks, err := p.asks(); err != nil || asks {
		if err != nil {
			return "", err
		}
		client, err := p.Open(g)
		if err != nil {
			return "", err
		}
		defer client.Close()
		return asked{client}.bring(ctx, draft.Bundle)
	}
	d, err := openDesk(ctx, g, p.CredentialFlags)
	if err != nil {
		return "", err
	}
	defer d.close()
	receipt, err := d.acts.SavePolicy(ctx, d.actor, draft, nil)
	return receipt.ID.String(), err
}

type policyApproveCmd struct {
	WayFlags
	Revision string `arg:"" help:"Revision of the saved law; its first eight digits are enough."`
}

func (p *policyApproveCmd) Run(ctx context.Context, g *cli.Globals) error {
	revision, decision, err := p.approve(ctx, g)
	if err != nil {
		return err
	}
	fmt.Fprintf(g.Out, "you agree that revision %s becomes live (decision %s); it counts until another law does\nsomebody else: bronzeward policy activate %.12s\n", revision, decision, revision)
	return nil
}

func (p *policyApproveCmd) approve(ctx context.Context, g *cli.Globals) (revision, decision string, err error) {
	if asks, err := p.asks(); err != nil || asks {
		if err != nil {
			return "", "", err
		}
		client, err := p.Open(g)
		if err != nil {
			return "", "", err
		}
		defer client.Close()
		done, said, err := ask.Received[api.PolicyAct](client.ApprovePolicy(ctx, p.Revision, nil, api.Nothing{}))
		return done.Revision, said.Decision, err
	}
	d, err := openDesk(ctx, g, p.CredentialFlags)
	if err != nil {
		return "", "", err
	}
	defer d.close()
	revision, receipt, err := d.acts.ApproveLaw(ctx, d.actor, p.Revision, nil)
	return revision, receipt.ID.String(), err
}

type policyActivateCmd struct {
	WayFlags
	GateFlags
	Law string `arg:"" help:"Directory with the law, a .tar.gz of one, or the revision of a saved law."`
}

func (p *policyActivateCmd) Run(ctx context.Context, g *cli.Globals) error {
	if _, err := os.Stat(p.Law); err != nil && book.RevisionLike(p.Law) {
		return p.live(ctx, g, p.WayFlags, p.Law, nil, (*gateway.Acts).Activate, false)
	}
	b, err := loadBundle(p.Law)
	if err != nil {
		return fmt.Errorf("%w\nthe live one stays", err)
	}
	return p.live(ctx, g, p.WayFlags, p.Law, b, (*gateway.Acts).Activate, false)
}

type policyRollbackCmd struct {
	WayFlags
	GateFlags
	Revision string `arg:"" help:"Revision of a law that was live, its first eight digits or more, or: previous."`
}

func (p *policyRollbackCmd) Run(ctx context.Context, g *cli.Globals) error {
	if p.Revision != "previous" && !book.RevisionLike(p.Revision) {
		return cli.Usage(fmt.Errorf("%q is no revision of a law that was live, and not previous: bronzeward policy history", p.Revision))
	}
	return p.live(ctx, g, p.WayFlags, p.Revision, nil, (*gateway.Acts).Rollback, true)
}

// live tries a law and makes it live; without a law given it is the saved one of that name.
func (f GateFlags) live(ctx context.Context, g *cli.Globals, way WayFlags, name string, b *policy.Bundle,
	do func(*gateway.Acts, context.Context, gateway.Actor, gateway.Draft, *control.Once) (audit.Receipt, error), back bool,
) error {
	if asks, err := way.asks(); err != nil || asks {
		if err != nil {
			return err
		}
		return f.askLive(ctx, g, way, name, b, back)
	}
	who := way.CredentialFlags
	since, limited, err := f.span()
	if err != nil {
		return err
	}
	if _, err := requestOf(who); err != nil { // before the trial, which takes a while
		return err
	}
	var tried policy.Tried
	if b != nil {
		if tried, err = try(ctx, g, name, b); err != nil {
			return err
		}
	}
	d, err := openDesk(ctx, g, who)
	if err != nil {
		return err
	}
	defer d.close()
	if b == nil {
		if b, err = d.acts.SavedLaw(ctx, name); err != nil {
			return err
		}
		if tried, err = try(ctx, g, name, b); err != nil {
			return err
		}
	}
	draft := gateway.Draft{Bundle: b, Tried: tried}
	if limited {
		if _, draft.Replay, err = f.pass(ctx, g, book.PastOf(d.store.Pool()), since, b); err != nil {
			return err
		}
	}
	receipt, err := do(d.acts, ctx, d.actor, draft, nil)
	if untold := (*gateway.NotAnchoredError)(nil); errors.As(err, &untold) {
		return fmt.Errorf("revision %s is live: %w", b.Revision(), err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(g.Out, "revision %s is live (decision %s)\n", b.Revision(), receipt.ID)
	return nil
}

type policyHistoryCmd struct{ WayFlags }

func (p *policyHistoryCmd) Run(ctx context.Context, g *cli.Globals) error {
	past, err := p.past(ctx, g)
	if err != nil {
		return err
	}
	type row struct {
		Number        int64     `json:"number"`
		Revision      string    `json:"revision"`
		Way           string    `json:"way"`
		SignedCounter int64     `json:"signed_counter"`
		Required      int       `json:"required"`
		By            string    `json:"by"`
		Issuer        string    `json:"issuer"`
		At            time.Time `json:"at"`
		Decision      string    `json:"decision"`
	}
	out := make([]row, 0, len(past))
	for _, a := range past {
		out = append(out, row{a.Counter, a.Revision, a.Way, a.Signed, a.Required, a.Subject, a.Issuer, a.At, a.EntryID.String()})
	}
	return g.Print(out, []string{"NUMBER", "REVISION", "WAY", "COUNTER", "BY", "AT", "DECISION"}, func(line func(...string)) {
		for _, r := range out {
			counter := "-"
			if r.SignedCounter > 0 {
				counter = fmt.Sprint(r.SignedCounter)
			}
			line(fmt.Sprint(r.Number), fmt.Sprintf("%.12s", r.Revision), r.Way, counter, cli.ASCII(r.By), r.At.UTC().Format(time.RFC3339), r.Decision)
		}
	})
}

func (p *policyHistoryCmd) past(ctx context.Context, g *cli.Globals) ([]control.BundleActivation, error) {
	if asks, err := p.asks(); err != nil || asks {
		if err != nil {
			return nil, err
		}
		client, err := p.Open(g)
		if err != nil {
			return nil, err
		}
		defer client.Close()
		list, _, err := ask.Received[api.PolicyActivationList](client.ListPolicies(ctx))
		if err != nil {
			return nil, err
		}
		out := make([]control.BundleActivation, 0, len(list.Items))
		for _, a := range list.Items {
			one := control.BundleActivation{Counter: a.Counter, Revision: a.Revision, Way: string(a.Way), Signed: a.SignedCounter, Required: a.Required, At: a.At}
			if one.EntryID, err = uuid.Parse(a.DecisionID); err != nil {
				return nil, fmt.Errorf("reading what was live: %w", err)
			}
			if a.By != nil {
				one.Issuer, one.Subject = a.By.Issuer, a.By.Subject
			}
			out = append(out, one)
		}
		return out, nil
	}
	store, done, err := openStore(ctx, g)
	if err != nil {
		return nil, err
	}
	defer done()
	return store.BundleActivations(ctx)
}
