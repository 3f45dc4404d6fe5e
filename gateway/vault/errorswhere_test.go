package vault

import (
	"context"
	"errors"
	"strings"
	"testing"

	"bronzeward/fixtures/openbao/baotest"

	"github.com/openbao/openbao/api/v2"
)

// Operators are told where OpenBao was looked for, and which path a token may not; callers are not.
func TestOnlyOperatorsAreToldWhere(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	closed := h.config(t, nil)
	closed.Address = "https://127.0.0.1:1"
	unnamed := h.config(t, nil)
	unnamed.Address = "https://bao.invalid:8200"
	untrusted := h.config(t, nil)
	untrusted.CA = nil
	for name, test := range map[string]struct {
		cfg         Config
		token       string
		kind        Kind
		said, where string
	}{
		"nothing listens":      {closed, "t", KindUnreachable, "OpenBao cannot be reached", "nothing listens at https://127.0.0.1:1 (openbao.address)"},
		"no such host":         {unnamed, "t", KindUnreachable, "OpenBao cannot be reached", "https://bao.invalid:8200 (openbao.address): "},
		"another certificate":  {untrusted, "t", KindUnreachable, "does not have OpenBao's certificate", h.Address() + " (openbao.address): "},
		"a token that may not": {h.config(t, nil), h.token(t, "1h"), KindForbidden, "your OpenBao token may not do this (403)", "at sys/mounts"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := OpenWithToken(test.cfg, test.token, "")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			err = c.ask(t.Context(), "looking", func(ctx context.Context, client *api.Client) error {
				_, err := client.Sys().ListMountsWithContext(ctx)
				return err
			})
			var e *Error
			if !errors.As(err, &e) || e.Kind != test.kind {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(e.Error(), test.where) || strings.ContainsAny(e.Error(), "\n") {
				t.Errorf("operators are told %q", e.Error())
			}
			if said := e.ForCaller(); !strings.Contains(said, test.said) || strings.Contains(said, test.where) || strings.Contains(said, "127.0.0.1") || strings.Contains(said, "bao.invalid") {
				t.Errorf("callers are told %q", said)
			}
		})
	}
	c, err := OpenWithToken(h.config(t, nil), "canary-of-nobody", "FILE")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.read(t.Context(), "looking", "sys/mounts")
	wantError(t, err, ErrRefused, KindForbidden, "", "does not know your token, or it has ended (FILE)")
	nothingOf(t, []string{"canary"}, err)
}
