package main

import (
	"context"
	"fmt"
	"runtime/debug"

	"bronzeward/audit"
	"bronzeward/gateway/facts"
	"bronzeward/policy"
)

type identitiesCmd struct {
	Revoke identitiesRevokeCmd `cmd:"" help:"Revoke a person for good: there is no undo."`
	List   identitiesListCmd   `cmd:"" help:"List revoked people." aliases:"ls"`
}

type identitiesRevokeCmd struct {
	credentialFlags
	Issuer  string `required:"" help:"The person's issuer, as decisions show it."`
	Subject string `required:"" help:"The person's subject, as decisions show it."`
	Reason  string `required:"" help:"Why; it stays in the record."`
}

func (i *identitiesRevokeCmd) Run(ctx context.Context, g *globals) error {
	d, err := g.openDesk(ctx, i.credentialFlags)
	if err != nil {
		return err
	}
	defer d.close()
	receipt, err := d.acts.Revoke(ctx, d.actor, policy.Person{Issuer: i.Issuer, Subject: i.Subject}, i.Reason)
	if err != nil {
		return err
	}
	// Somebody nobody has seen can be revoked, and so can a misspelling.
	seen, _, err := audit.NewReader(d.store.Pool()).List(ctx, audit.Filter{Issuer: i.Issuer, Subject: i.Subject}, audit.Page{Limit: 1})
	if err == nil && len(seen) == 0 {
		fmt.Fprintf(g.errOut, "warning: the book has no call of that person; check the spelling: bronzeward decisions list\n")
	}
	fmt.Fprintf(g.out, "%q of %q is revoked for good (decision %s)\n", i.Subject, i.Issuer, receipt.ID)
	return nil
}

type identitiesListCmd struct{}

func (i *identitiesListCmd) Run(ctx context.Context, g *globals) error {
	store, done, err := g.openStore(ctx)
	if err != nil {
		return err
	}
	defer done()
	all, err := store.Revocations(ctx)
	if err != nil {
		return err
	}
	type view struct {
		Issuer    string `json:"issuer"`
		Subject   string `json:"subject"`
		Reason    string `json:"reason"`
		RevokedAt string `json:"revoked_at"`
	}
	views := []view{}
	for _, r := range all {
		views = append(views, view{r.Issuer, r.Subject, r.Reason, stamp(&r.RevokedAt)})
	}
	return g.print(views, []string{"ISSUER", "SUBJECT", "REVOKED", "REASON"}, func(row func(...string)) {
		for _, v := range views {
			row(v.Issuer, v.Subject, v.RevokedAt, v.Reason)
		}
	})
}

type configCmd struct {
	Check configCheckCmd `cmd:"" help:"Read the configuration file and name every problem."`
}

type configCheckCmd struct{}

func (c *configCheckCmd) Run(g *globals) error {
	if _, err := loadConfig(g.ConfigFile); err != nil {
		return err
	}
	fmt.Fprintln(g.out, "the configuration is fine")
	return nil
}

type versionCmd struct{}

func (v *versionCmd) Run(g *globals) error {
	built := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		built = info.GoVersion
	}
	return g.print(map[string]string{
		"bronzeward": buildVersion(), "talos": facts.SupportedMinor, "opa": policy.OPAVersion(), "go": built,
	}, []string{"PART", "VERSION"}, func(row func(...string)) {
		row("bronzeward", buildVersion())
		row("talos served", facts.SupportedMinor)
		row("opa", policy.OPAVersion())
		row("go", built)
	})
}
