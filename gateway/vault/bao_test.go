package vault

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	policies "bronzeward/deploy/openbao"
	"bronzeward/fixtures/openbao"
	"bronzeward/fixtures/openbao/baotest"

	"github.com/openbao/openbao/api/v2"
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
	h := bareHouse(t, server)
	h.run(t)
	return h
}

// bareHouse has names for mounts and files, and nothing is made yet.
func bareHouse(t testing.TB, server *openbao.Server) *house {
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
	if h.operator, err = OpenWithToken(h.config(t, nil), server.RootToken(), ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.operator.Close)
	return h
}

func (h *house) policy() string { return "gateway-" + h.kv }

// run does every step of the plan, and again until nothing is left.
func (h *house) run(t testing.TB) {
	t.Helper()
	for range 5 {
		done := true
		steps, err := Plan(t.Context(), h.operator, h.setup)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range steps {
			if s.State != StateGood {
				done = false
				if err := s.Do(t.Context()); err != nil {
					t.Fatal(err)
				}
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

// root does what an operator's hands might, and must work.
func (h *house) root(t testing.TB, method, path string, body any) map[string]any {
	t.Helper()
	status, answer, err := h.API(context.WithoutCancel(t.Context()), method, path, body)
	if err != nil || status >= 300 {
		t.Fatalf("%s %s: %d %v %v", method, path, status, answer, err)
	}
	return answer
}

// key gives what OpenBao says about one of the house's Transit keys.
func (h *house) key(t testing.TB, name string) keyInfo {
	t.Helper()
	info, err := newTransitKey(h.operator, name).info(t.Context(), "looking")
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func (h *house) rotate(t testing.TB, name string) {
	t.Helper()
	h.root(t, "POST", h.transit+"/keys/"+name+"/rotate", nil)
}

// drop deletes a Transit key, as setup's own keys never can be without being allowed to first.
func (h *house) drop(t testing.TB, name string) {
	t.Helper()
	h.root(t, "POST", h.transit+"/keys/"+name+"/config", map[string]any{"deletion_allowed": true})
	h.root(t, "DELETE", h.transit+"/keys/"+name, nil)
}

// recreate deletes a key and makes it anew until its time differs from the first one's, which
// OpenBao gives in whole seconds.
func (h *house) recreate(t testing.TB, name, kind string) {
	t.Helper()
	before := h.key(t, name).made[1]
	for {
		h.drop(t, name)
		h.root(t, "POST", h.transit+"/keys/"+name, map[string]any{"type": kind})
		if h.key(t, name).made[1] != before {
			return
		}
	}
}

// asked counts the requests for paths that begin so, of this house's mounts.
func (h *house) asked(t testing.TB, prefix string) int {
	t.Helper()
	raw, err := os.ReadFile(h.AuditFile())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(raw)) {
		var entry struct {
			Type    string
			Request struct{ Path string }
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if entry.Type == "request" && strings.HasPrefix(entry.Request.Path, prefix) {
			n++
		}
	}
	return n
}

// wantError checks an *Error: its class and no other, its reason class, the key it names, and
// that the caller's sentence has these words.
func wantError(t testing.TB, err, class error, kind Kind, key, words string) {
	t.Helper()
	wantClass(t, err, class)
	var e *Error
	errors.As(err, &e)
	if e.Kind != kind || e.ReasonClass() != string(kind) || e.KeyVersion != key || e.Altered() != (class == ErrAltered) {
		t.Fatalf("got kind %q and key %q, want %q and %q: %v", e.Kind, e.KeyVersion, kind, key, err)
	}
	said := e.ForCaller()
	if !strings.Contains(said, words) || key != "" && !strings.Contains(said, "(key "+key+")") || strings.Contains(said, e.Doing) {
		t.Errorf("the caller is told %q", said)
	}
	if !strings.HasPrefix(e.Error(), e.Doing+": ") || strings.ContainsAny(e.Error(), "\n\t") {
		t.Errorf("not one line that begins with what was done: %q", e.Error())
	}
}

// nothingOf checks that none of the secrets shows in any form that an error or a value prints in.
func nothingOf(t testing.TB, secrets []string, values ...any) {
	t.Helper()
	for _, value := range values {
		for _, form := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			text := fmt.Sprintf(form, value)
			for err, ok := value.(error); ok && err != nil; err = errors.Unwrap(err) {
				text += err.Error()
			}
			if e := (*Error)(nil); form == "%v" {
				if err, ok := value.(error); ok && errors.As(err, &e) {
					text += e.ForCaller() + fmt.Sprint(e.Cause)
				}
			}
			for _, secret := range secrets {
				if secret != "" && (strings.Contains(text, secret) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(secret)))) {
					t.Errorf("%s of a %T shows a secret", form, value)
				}
			}
		}
	}
}

// forgetIfThere removes a path of KV with all its versions, if there are any.
func (h *house) forgetIfThere(t testing.TB, path string) {
	t.Helper()
	if status, _, err := h.API(t.Context(), "DELETE", h.kv+"/metadata/"+path, nil); err != nil || status >= 300 {
		t.Fatalf("%d, %v", status, err)
	}
}

// isForbiddenOnlyWhenUnknown is whether the present token can be told from one that is unknown.
func isForbiddenOnlyWhenUnknown(ctx context.Context, client *api.Client) bool {
	return !tokenIsUnknown(ctx, client)
}
