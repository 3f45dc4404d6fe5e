package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"bronzeward/fixtures/world"
)

// poolOf trusts the certificates in a PEM text.
func poolOf(text []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("it holds no certificate")
	}
	return pool, nil
}

// operator runs bronzeward with OpenBao's root token, and keeps what it printed.
func (l *leak) operator(ctx context.Context, args ...string) error {
	out, err := l.w.AsOpenBaoOperator(ctx, args...)
	return errors.Join(ctx.Err(), l.tell(inCommand, strings.Join(args, " "), saidAndEnded(out, err)))
}

// putCredential are the arguments that put the cluster's credential, with one file replaced.
func (l *leak) putCredential(flag, path string) []string {
	args := []string{"openbao", "put-credential", "--cluster", world.Cluster}
	for _, one := range [][2]string{{"--certificate", l.w.Path("pki", "talos.crt")}, {"--key", l.w.Path("pki", "talos.key")}, {"--ca", l.w.Path("pki", "talos-ca.crt")}} {
		if one[0] == flag {
			one[1] = path
		}
		args = append(args, one[0], one[1])
	}
	return args
}

// secretFile writes a file with a secret among the world's own.
func (l *leak) secretFile(name, text string) (string, error) {
	path := l.w.Path("pki", "unusable-"+name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// operated is what an operator does with OpenBao, rightly and wrongly.
func (l *leak) operated(ctx context.Context) error {
	key, err := l.secretFile("operated-key.pem", l.canaries.PEM("operated: a private key"))
	if err != nil {
		return err
	}
	text, err := l.secretFile("operated-text", l.canaries.Words("operated: a text for a file"))
	if err != nil {
		return err
	}
	token, err := l.secretFile("operated-token", l.canaries.Words("operated: a token that OpenBao refuses"))
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"openbao", "setup", "--check"},
		{"openbao", "setup", "--check", "-o", "json"},
		{"openbao", "setup", "--yes"},
		{"openbao", "setup", "--check", "--token-file", token},
		{"openbao", "setup", "--check", "--token-file", key},
		{"openbao", "checkpoint-key"},
		{"openbao", "rotate-ca", "--yes"},
		l.putCredential("", ""),
		l.putCredential("--key", key),
		l.putCredential("--key", text),
		l.putCredential("--key", l.w.Path("pki", "server.key")),
		l.putCredential("--certificate", l.w.Path("pki", "talos.key")),
		l.putCredential("--certificate", text),
		l.putCredential("--ca", l.w.Path("pki", "talos-ca.key")),
		l.putCredential("--ca", key),
	} {
		if err := l.operator(ctx, args...); err != nil {
			return err
		}
	}
	return l.badCredentials(ctx)
}

// asRoot asks OpenBao past the product.
func (l *leak) asRoot(ctx context.Context, path string, body any) (map[string]any, error) {
	status, answer, err := l.w.OpenBao.API(ctx, http.MethodPost, path, body)
	if err == nil && status >= http.StatusMultipleChoices {
		err = fmt.Errorf("OpenBao answers %d to %s", status, path)
	}
	return answer, err
}

// badCredentials puts credentials into OpenBao that the gateway reads and cannot use; the one
// before stays.
func (l *leak) badCredentials(ctx context.Context) error {
	c := l.canaries.Words
	certificate, err := os.ReadFile(l.w.Path("pki", "talos.crt"))
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(l.w.Path("pki", "talos-ca.crt"))
	if err != nil {
		return err
	}
	pem := l.canaries.PEM
	g := l.w.Gateways["gateway-1"]
	for cluster, value := range map[string]any{
		world.Cluster: map[string]any{"certificate": string(certificate), "ca": string(ca), "key": pem("in OpenBao: a bad version's key")},
		"no-pem":      map[string]any{"certificate": c("in OpenBao: no certificate"), "ca": string(ca), "key": c("in OpenBao: no key")},
		"mixed-up":    map[string]any{"certificate": pem("in OpenBao: a key for a certificate"), "ca": pem("in OpenBao: a key for an authority"), "key": string(certificate)},
		"shapeless":   map[string]any{"certificate": map[string]any{"x": c("in OpenBao: a record for a text")}, "key": []string{c("in OpenBao: a list for a text")}},
		"No Cluster":  map[string]any{"key": c("in OpenBao: under no name")},
	} {
		if _, err := l.send(fmt.Append(nil, value)); err != nil {
			return err
		}
		before := len(g.Log())
		if _, err := l.asRoot(ctx, "bronzeward/data/talos/"+strings.ReplaceAll(cluster, " ", "%20"), map[string]any{"data": value}); err != nil {
			return err
		}
		if err := eventually(ctx, "the gateway to read the credential of "+cluster, func() bool {
			text := g.Log()[before:]
			return strings.Contains(text, "cannot be used") || strings.Contains(text, "is not read")
		}); err != nil {
			return err
		}
	}
	out, err := l.w.Talosctl(ctx, "olga", "-n", "worker-1", "version", "--short")
	if err != nil {
		return fmt.Errorf("the version before the bad one is not used: %w", err)
	}
	if err := l.tell(inTalosctl, "with a bad version", out); err != nil {
		return err
	}
	return l.operator(ctx, l.putCredential("", "")...)
}

// eventually waits until something is so.
func eventually(ctx context.Context, what string, so func() bool) error {
	return comesAbout(ctx, what, func() (bool, error) { return so(), nil })
}
