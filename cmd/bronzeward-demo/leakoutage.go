package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// openBaoErrs lets OpenBao be sealed, away and slow while a gateway that has a token from a
// file, and the first one, are asked for what needs it; and lets the first one's login fail.
func (l *leak) openBaoErrs(ctx context.Context) error {
	answer, err := l.asRoot(ctx, "auth/token/create", map[string]any{"policies": []string{"bronzeward-gateway"}, "ttl": "1h"})
	if err != nil {
		return err
	}
	auth, _ := answer["auth"].(map[string]any)
	token, _ := auth["client_token"].(string)
	if err := l.canaries.Add("the token in a gateway's file", token); err != nil {
		return err
	}
	path, err := l.secretFile("token-that-is-good", token)
	if err != nil {
		return err
	}
	active, _ := l.w.Nodes["worker-1"].Active()
	out, err := l.apply(ctx, []byte(annotated(string(active), l.canaries.Words("while OpenBao errs"))))
	if err != nil {
		return err
	}
	id := changeID.FindString(out)
	if id == "" {
		return fmt.Errorf("nothing was captured:\n%s", out)
	}
	l.changes = append(l.changes, id)
	shown, err := change(ctx, l.w, id)
	if err != nil {
		return err
	}
	if _, err := l.command(ctx, "ada", "changes", "approve", id, "--digest", shown.Digest); err != nil {
		return err
	}
	before := l.w.OpenBaoExtra
	l.w.OpenBaoExtra = "    method: token\n    token_file: " + path + "\n  timeout: 1s\n" + before
	third, err := l.w.StartGateway(ctx, "gateway-3")
	l.w.OpenBaoExtra = before
	if err != nil {
		return err
	}
	first := *l.w
	*l.w = *l.w.At(third)
	for _, outage := range []struct {
		begin func() error
		end   func() error
	}{
		{func() error { return l.w.OpenBao.Seal(ctx) }, func() error { return l.w.OpenBao.Unseal(ctx) }},
		{l.w.OpenBao.Stop, func() error { return l.w.OpenBao.Restart(ctx) }},
		{l.w.OpenBao.Pause, l.w.OpenBao.Resume},
	} {
		if err := outage.begin(); err != nil {
			return err
		}
		if err := errors.Join(l.needing(ctx, id), outage.end()); err != nil {
			return err
		}
	}
	*l.w = first
	err = third.Stop()
	delete(l.w.Gateways, "gateway-3")
	return errors.Join(err, l.loginFails(ctx, id))
}

// needing asks for what OpenBao is needed for, and wants an apply refused.
func (l *leak) needing(ctx context.Context, id string) error {
	text, err := l.canaries.Worker("OpenBao errs")
	if err != nil {
		return err
	}
	path, err := l.send(text)
	if err != nil {
		return err
	}
	var all errgroup.Group
	all.Go(func() error {
		out, failed := l.w.Bronzeward(ctx, "olga", "changes", "apply", id)
		if failed == nil {
			return fmt.Errorf("a change was applied without OpenBao:\n%s", out)
		}
		return l.tell(inCommand, "changes apply without OpenBao", saidAndEnded(out, failed))
	})
	all.Go(func() error {
		bounded, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		return l.tell(inCommand, "setup without OpenBao", saidAndEnded(l.w.AsOpenBaoOperator(bounded, "openbao", "setup", "--check")))
	})
	for _, args := range [][]string{{"changes", "diff", id}, {"changes", "submit", "-n", "worker-1", "-f", path}, {"digest", "-f", path}} {
		all.Go(func() error {
			_, err := l.command(ctx, "olga", args...)
			return err
		})
	}
	all.Go(func() error {
		_, err := l.ask(ctx, "", http.MethodGet, "/readyz", nil)
		return err
	})
	all.Go(func() error { return l.oneApply(ctx, "olga", text, false) })
	return all.Wait()
}

// loginFails takes the first gateway's tokens away while the secret id in its file is another
// one, and gives it the good one back.
func (l *leak) loginFails(ctx context.Context, id string) error {
	file := l.w.Path("pki", "openbao-secret-id")
	good, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	bad := l.canaries.Words("a secret id that OpenBao refuses")
	if _, err := l.send([]byte(bad)); err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(bad+"\n"), 0o600); err != nil {
		return err
	}
	for _, token := range l.wire.all(wireToken) {
		if token == l.w.OpenBao.RootToken() {
			continue
		}
		// Those of gateways that have ended, and those that are none, are gone already.
		if _, _, err := l.w.OpenBao.API(ctx, http.MethodPost, "auth/token/revoke", map[string]any{"token": token}); err != nil {
			return err
		}
	}
	g := l.w.Gateways["gateway-1"]
	if err := l.needing(ctx, id); err != nil {
		return err
	}
	if err := eventually(ctx, "the gateway's login to fail", func() bool { return strings.Contains(g.Log(), "does not take the gateway's login") }); err != nil {
		return err
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		return err
	}
	return eventually(ctx, "the gateway to log in again", func() bool {
		_, whole, err := l.request(ctx, "", http.MethodGet, "/readyz", nil)
		if err != nil || !strings.HasPrefix(whole, "200") {
			return false
		}
		out, err := l.w.Bronzeward(ctx, "olga", "digest", "-f", l.w.Path("sent", "0001.yaml"))
		return err == nil && strings.Contains(out, "hmac")
	})
}
