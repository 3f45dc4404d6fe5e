package bao

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/house"
	"bronzeward/gateway/upstream"
	"bronzeward/gateway/vault"
)

type openBaoPutCredentialCmd struct {
	tokenFlags
	Cluster     string `required:"" help:"Name of the cluster, as in machines add --cluster."`
	Certificate string `required:"" type:"existingfile" placeholder:"FILE" help:"Talos client certificate with the role os:impersonator and no other (PEM)."`
	Key         string `required:"" type:"existingfile" placeholder:"FILE" help:"Its key (PEM)."`
	CA          string `required:"" name:"ca" type:"existingfile" placeholder:"FILE" help:"The Talos CA of the cluster's machines (PEM)."`
	AnyCA       bool   `name:"any-ca" help:"Take a certificate that --ca has not signed: the machines accept its CA by machine.acceptedCAs."`
}

// Run checks the credential and writes it as a new version. What the caller gave and cannot be
// used is a usageError that names the flag.
func (p *openBaoPutCredentialCmd) Run(ctx context.Context, g *cli.Globals) error {
	cfg, client, err := operator(g, p.tokenFlags)
	if err != nil {
		return err
	}
	defer client.Close()
	if !vault.IsClusterName(p.Cluster) {
		return cli.Usage(fmt.Errorf("--cluster: %q is no name of a cluster: 1 to 63 of a-z, 0-9, dot, dash and underscore, beginning and ending with a letter or digit", p.Cluster))
	}
	var texts [3][]byte
	for i, path := range []string{p.Certificate, p.Key, p.CA} {
		if texts[i], err = os.ReadFile(path); err != nil {
			return cli.Usage(err)
		}
	}
	one, err := house.ParseCredential(texts[0], texts[1], texts[2])
	if err != nil {
		return cli.Usage(p.where(err))
	}
	if err := p.checkCA(one); err != nil {
		return cli.Usage(err)
	}
	people, err := cfg.ReadAllCertificates(cfg.Identity.CertificateAuthorities)
	if err != nil {
		return cli.Usage(fmt.Errorf("reading identity.certificate_authorities: %w", err))
	}
	kept, err := vault.PeoplesAuthorities(ctx, client)
	if err != nil {
		return err
	}
	if err := vault.CheckPeoplesCA(one.CAs, append(people, kept...)); err != nil {
		return cli.Usage(fmt.Errorf("--ca %s: %w", p.CA, err))
	}
	version, err := vault.PutCredential(ctx, client, p.Cluster, texts[0], texts[1], texts[2], house.ParseCredential)
	if err != nil {
		return err
	}
	return g.Done(map[string]any{"cluster": p.Cluster, "version": version}, "the Talos credential of %s is version %d; running gateways use it within %s\n", p.Cluster, version, cfg.OpenBaoRefresh())
}

// checkCA refuses a certificate that the given CA has not signed: in most clusters the machines
// know no other, and every call would fail.
func (p *openBaoPutCredentialCmd) checkCA(one vault.Credential) error {
	if p.AnyCA {
		return nil
	}
	chain := make([]*x509.Certificate, 0, len(one.Certificate.Certificate))
	for _, der := range one.Certificate.Certificate {
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			return fmt.Errorf("--certificate %s: %w", p.Certificate, err)
		}
		chain = append(chain, certificate)
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, ca := range one.CAs {
		roots.AddCert(ca)
	}
	for _, certificate := range chain[1:] {
		between.AddCert(certificate)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return fmt.Errorf("--certificate %s is not signed by --ca %s: %w; give the CA of the cluster's machines, or --any-ca where they accept the certificate's CA besides (machine.acceptedCAs)", p.Certificate, p.CA, err)
	}
	return nil
}

// where names the flag and file that an error of the credential is about.
func (p *openBaoPutCredentialCmd) where(err error) error {
	at := fmt.Sprintf("--certificate %s, --key %s, --ca %s", p.Certificate, p.Key, p.CA)
	var known *upstream.CredentialError
	if errors.As(err, &known) {
		switch known.Reason {
		case upstream.ReasonExpired, upstream.ReasonNotYetValid, upstream.ReasonRoles, upstream.ReasonUsage, upstream.ReasonNoCertificate:
			at = "--certificate " + p.Certificate
		case upstream.ReasonKeyMismatch:
			at = fmt.Sprintf("--certificate %s, --key %s", p.Certificate, p.Key)
		case upstream.ReasonNoCA:
			at = "--ca " + p.CA
		}
	}
	return fmt.Errorf("%s: %w", at, err)
}
