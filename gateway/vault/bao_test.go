package vault

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	policies "bronzeward/deploy/openbao"
	"bronzeward/fixtures/openbao"
	"bronzeward/fixtures/openbao/baotest"
)

// house is a real OpenBao with its own mounts for one test, set up as an operator would.
type house struct {
	*openbao.Server
	kv, transit string
	operator    *Client
	setup       SetupConfig
}

func newHouse(t testing.TB, server *openbao.Server) *house {
	t.Helper()
	h := &house{Server: server}
	h.kv, h.transit = baotest.Mounts(t, server)
	dir := t.TempDir()
	h.setup = SetupConfig{
		Policies:      map[string]string{h.policy(): policies.Gateway},
		GatewayPolicy: h.policy(),
		AppRole:       &AppRole{Mount: h.kv + "-approle", RoleIDFile: filepath.Join(dir, "role"), SecretIDFile: filepath.Join(dir, "secret")},
	}
	var err error
	if h.operator, err = OpenWithToken(h.config(t, nil), server.RootToken()); err != nil {
		t.Fatal(err)
	}
	h.run(t)
	return h
}

func (h *house) policy() string { return "gateway-" + h.kv }

// run does every step of the plan, in order, each planned when its turn comes.
func (h *house) run(t testing.TB) {
	t.Helper()
	for range 100 {
		steps, err := Plan(t.Context(), h.operator, h.setup)
		if err != nil {
			t.Fatal(err)
		}
		done := true
		for _, s := range steps {
			if s.State != StateGood {
				if err := s.Do(t.Context()); err != nil {
					t.Fatal(err)
				}
				done = false
				break
			}
		}
		if done {
			return
		}
	}
	t.Fatal("the plan does not come to an end")
}

func (h *house) config(t testing.TB, auth Auth) Config {
	t.Helper()
	raw, err := os.ReadFile(h.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	ca, err := ParseCertificates(raw)
	if err != nil {
		t.Fatal(err)
	}
	return Config{Address: h.Address(), CA: ca, KVMount: h.kv, TransitMount: h.transit, Auth: auth, Logger: slog.New(slog.DiscardHandler)}
}

// gateway is a client with the gateway's own login.
func (h *house) gateway(t testing.TB) *Client {
	t.Helper()
	c, err := Open(t.Context(), h.config(t, *h.setup.AppRole))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// as root does what an operator's hands might, and must work.
func (h *house) root(t testing.TB, method, path string, body any) map[string]any {
	t.Helper()
	status, answer, err := h.API(context.WithoutCancel(t.Context()), method, path, body)
	if err != nil || status >= 300 {
		t.Fatalf("%s %s: %d %v %v", method, path, status, answer, err)
	}
	return answer
}
