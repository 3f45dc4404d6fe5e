package vault

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bronzeward/fixtures/openbao/baotest"
)

func (h *house) logins(t testing.TB) int {
	t.Helper()
	return h.asked(t, "auth/"+h.setup.AppRole.Mount+"/login")
}

// until waits for something that happens by itself; the test's own deadline bounds it.
func until(t testing.TB, what string, happened func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !happened() {
		if !sleep(ctx, 20*time.Millisecond) {
			t.Fatalf("it never came to it that %s", what)
		}
	}
}

func (h *house) revoke(t testing.TB, token string) {
	t.Helper()
	h.root(t, "POST", "auth/token/revoke", map[string]any{"token": token})
}

func (h *house) newSecretID(t testing.TB) string {
	t.Helper()
	answer := h.root(t, "POST", "auth/"+h.setup.AppRole.Mount+"/role/"+GatewayRole+"/secret-id", nil)
	return answer["data"].(map[string]any)["secret_id"].(string)
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestALoginThatIsNotTakenIsNamed(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	for name, test := range map[string]struct {
		spoil func(*AppRole, string)
		kind  Kind
		words string
	}{
		"a wrong secret id": {func(a *AppRole, f string) { write(t, f, "canary-0000"); a.SecretIDFile = f }, KindForbidden, "does not take the gateway's login (AppRole at"},
		"a wrong role id":   {func(a *AppRole, f string) { write(t, f, "canary-0000"); a.RoleIDFile = f }, KindForbidden, "does not take the gateway's login"},
		"another mount":     {func(a *AppRole, _ string) { a.Mount = "nowhere" }, KindForbidden, "AppRole at nowhere"},
		"no file":           {func(a *AppRole, f string) { a.SecretIDFile = f }, KindMissing, "no such file"},
		"an empty file":     {func(a *AppRole, f string) { write(t, f, "\n"); a.RoleIDFile = f }, KindMalformed, "one line of printable text"},
		"two lines":         {func(a *AppRole, f string) { write(t, f, "canary\ncanary"); a.RoleIDFile = f }, KindMalformed, "one line"},
		"a file too large":  {func(a *AppRole, f string) { write(t, f, strings.Repeat("canary", mostFile)); a.RoleIDFile = f }, KindMalformed, "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			auth := *h.setup.AppRole
			test.spoil(&auth, filepath.Join(t.TempDir(), "file"))
			c, err := Open(t.Context(), h.config(t, auth))
			if c != nil {
				t.Fatal("it is in")
			}
			wantError(t, err, ErrRefused, test.kind, "", test.words)
			nothingOf(t, []string{"canary"}, err)
		})
	}
}

// A token that was revoked while many ask brings about one login, and every question is answered.
func TestARevokedTokenBringsAboutOneLogin(t *testing.T) {
	t.Parallel()
	h := newHouse(t, baotest.Server(t))
	c := h.gateway(t)
	s := NewSealer(c)
	sealed := sealWith(t, s, []byte("text"))
	for range 3 {
		before := h.logins(t)
		h.revoke(t, c.token.ClientToken)
		for _, err := range together(16, func(int) error {
			_, err := s.Open(t.Context(), sealed, change)
			return err
		}) {
			if err != nil {
				t.Error(err)
			}
		}
		if n := h.logins(t) - before; n != 1 {
			t.Errorf("%d logins", n)
		}
	}
	// A token that is known and may not is no reason to log in.
	before := h.logins(t)
	h.root(t, "PUT", "sys/policies/acl/"+h.policy(), map[string]any{"policy": `path "auth/token/lookup-self" { capabilities = ["read"] }`})
	if _, err := s.Open(t.Context(), sealed, change); kindOf(err) != KindForbidden {
		t.Fatal(err)
	}
	if n := h.logins(t) - before; n != 0 {
		t.Errorf("%d logins", n)
	}
}

// When logging in does not work, those who wait for it are told by that one login.
func TestALoginThatFailsIsNotTriedByEveryQuestion(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	p := newProxy(t, h)
	c := p.gateway(t)
	s := NewSealer(c)
	sealed := sealWith(t, s, []byte("text"))
	login := "auth/" + h.setup.AppRole.Mount + "/login"
	asked := make(chan struct{}, 16)
	release := make(chan struct{})
	p.add(rule{"", "", -1, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.HasPrefix(r.URL.Path, "/v1/"+login) {
			next.ServeHTTP(w, r)
			select {
			case asked <- struct{}{}:
			default: // a later one, such as giving the token back
			}
			return
		}
		<-release
		http.Error(w, `{"errors": ["invalid secret id"]}`, http.StatusBadRequest)
	}})
	before := p.passed(login)
	h.revoke(t, c.token.ClientToken)
	done := make(chan []error)
	go func() {
		done <- together(16, func(int) error {
			_, err := s.Open(t.Context(), sealed, change)
			return err
		})
	}()
	for range 16 {
		<-asked
	}
	close(release)
	for _, err := range <-done {
		wantError(t, err, ErrRefused, KindForbidden, "", "does not take the gateway's login")
	}
	if n := p.passed(login) - before; n != 1 {
		t.Errorf("%d logins for 16 questions", n)
	}
}

func TestASecretIDIsReplacedWithoutARestart(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	c := h.gateway(t)
	s := NewSealer(c)
	sealed := sealWith(t, s, []byte("text"))
	old, err := readSecretFile(h.setup.AppRole.SecretIDFile)
	if err != nil {
		t.Fatal(err)
	}
	h.root(t, "POST", "auth/"+h.setup.AppRole.Mount+"/role/"+GatewayRole+"/secret-id/destroy", map[string]any{"secret_id": old})
	h.revoke(t, c.token.ClientToken)
	_, err = s.Open(t.Context(), sealed, change)
	wantError(t, err, ErrRefused, KindForbidden, "", "does not take the gateway's login")
	write(t, h.setup.AppRole.SecretIDFile, h.newSecretID(t))
	until(t, "the new one is taken", func() bool {
		got, err := s.Open(t.Context(), sealed, change)
		return err == nil && string(got) == "text"
	})
}

// Wrong secret ids lock the gateway out of a method that setup did not enable (the control), and
// not of its own: who knows the role id could keep it out for good.
func TestWrongSecretIDsDoNotLockTheGatewayOut(t *testing.T) {
	t.Parallel()
	h := newHouse(t, baotest.Server(t))
	control := newHouse(t, baotest.Server(t))
	control.root(t, "POST", "sys/auth/"+control.setup.AppRole.Mount+"/tune", map[string]any{"user_lockout_config": map[string]any{"lockout_disable": false}})
	for _, test := range []struct {
		h  *house
		in bool
	}{{h, true}, {control, false}} {
		role, err := readSecretFile(test.h.setup.AppRole.RoleIDFile)
		if err != nil {
			t.Fatal(err)
		}
		for range 6 {
			status, _, err := test.h.API(t.Context(), "POST", "auth/"+test.h.setup.AppRole.Mount+"/login", map[string]any{"role_id": role, "secret_id": "wrong"})
			if err != nil || status < 400 {
				t.Fatal(status, err)
			}
		}
		for _, step := range test.h.plan(t) {
			if strings.HasPrefix(step.What, "auth method") && (step.State != StateGood || strings.Contains(step.Detail, "lock the gateway out") == test.in) {
				t.Errorf("the plan says %s: %s", step.State, step.Detail)
			}
		}
		c, err := Open(t.Context(), test.h.config(t, *test.h.setup.AppRole))
		if c != nil {
			c.Close()
		}
		if in := err == nil; in != test.in {
			t.Errorf("in: %v, want %v: %v", in, test.in, err)
		}
	}
}

// A short token is renewed by itself, and when that ends at its greatest age, another one is
// had by itself: no question is needed for it, and none fails meanwhile.
func TestATokenIsRenewedAndThenReplaced(t *testing.T) {
	t.Parallel()
	h := newHouse(t, baotest.Server(t))
	h.root(t, "POST", "auth/"+h.setup.AppRole.Mount+"/role/"+GatewayRole, map[string]any{"token_ttl": "6s", "token_max_ttl": "10s"})
	p := newProxy(t, h)
	c := p.gateway(t)
	s := NewSealer(c)
	sealed := sealWith(t, s, []byte("text"))
	login := "auth/" + h.setup.AppRole.Mount + "/login"
	if got := life(c.token); got != 6*time.Second || !c.token.Renewable {
		t.Fatalf("it lives %s, renewable: %v", got, c.token.Renewable)
	}
	until(t, "it was renewed", func() bool { return p.passed("auth/token/renew-self") > 0 })
	if n := p.passed(login); n != 1 {
		t.Errorf("%d logins before the first renewal", n)
	}
	until(t, "it logged in again", func() bool {
		opens(t, s, sealed, []byte("text"))
		return p.passed(login) > 1
	})
}

// A renewal that OpenBao refuses ends in a login, and one that it does not answer is tried on.
func TestARenewalThatFailsDoesNotEndIt(t *testing.T) {
	t.Parallel()
	h := newHouse(t, baotest.Server(t))
	h.root(t, "POST", "auth/"+h.setup.AppRole.Mount+"/role/"+GatewayRole, map[string]any{"token_ttl": "6s"})
	p := newProxy(t, h)
	p.fail("auth/token/renew-self", retries+1, http.StatusBadGateway, "")
	var log lockedBuffer
	cfg := p.config(t)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	c, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	until(t, "it was renewed after all", func() bool { return p.passed("auth/token/renew-self") > retries+1 })
	if !strings.Contains(log.String(), "does not make the life of the gateway's token longer") {
		t.Errorf("nobody was told: %s", log.String())
	}
	before := p.passed("auth/" + h.setup.AppRole.Mount + "/login")
	h.revoke(t, c.token.ClientToken)
	until(t, "it logged in again", func() bool { return p.passed("auth/"+h.setup.AppRole.Mount+"/login") > before })
}

// lockedBuffer is a log that a goroutine writes to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Close ends at once what waits, even for an OpenBao that does not answer, and gives the token back.
func TestCloseGivesTheTokenBack(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	c, err := Open(t.Context(), h.config(t, *h.setup.AppRole))
	if err != nil {
		t.Fatal(err)
	}
	token := c.token.ClientToken
	c.Close()
	status, _, err := h.API(t.Context(), "POST", "auth/token/lookup", map[string]any{"token": token})
	if err != nil || status < 400 {
		t.Errorf("the token lives: %d, %v", status, err)
	}
	// One that is somebody else's is left alone.
	path := filepath.Join(t.TempDir(), "token")
	write(t, path, h.token(t, "1h"))
	c, err = Open(t.Context(), h.config(t, TokenFile{path}))
	if err != nil {
		t.Fatal(err)
	}
	token = c.token.ClientToken
	c.Close()
	if status, _, err := h.API(t.Context(), "POST", "auth/token/lookup", map[string]any{"token": token}); err != nil || status != 200 {
		t.Errorf("somebody else's token was taken: %d, %v", status, err)
	}
}

// token makes one with the gateway's policy.
func (h *house) token(t testing.TB, ttl string) string {
	t.Helper()
	answer := h.root(t, "POST", "auth/token/create-orphan", map[string]any{"policies": []string{h.policy()}, "ttl": ttl, "no_default_policy": true})
	return answer["auth"].(map[string]any)["client_token"].(string)
}

func TestATokenFileIsReadAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t, baotest.Server(t))
	path := filepath.Join(t.TempDir(), "token")
	first := h.token(t, "1h")
	write(t, path, first+"\n")
	c, err := Open(t.Context(), h.config(t, TokenFile{path}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := NewSealer(c)
	sealed := sealWith(t, s, []byte("text"))
	h.revoke(t, first)
	_, err = s.Open(t.Context(), sealed, change)
	wantError(t, err, ErrRefused, KindForbidden, "", "the token in "+path)
	nothingOf(t, []string{first}, err, c)
	write(t, path, h.token(t, "1h"))
	until(t, "the new one is taken", func() bool {
		got, err := s.Open(t.Context(), sealed, change)
		return err == nil && string(got) == "text"
	})

	// One that ends is looked for in the file before it does.
	short := h.token(t, "2s")
	write(t, path, short)
	again, err := Open(t.Context(), h.config(t, TokenFile{path}))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	lasting := h.token(t, "1h")
	write(t, path, lasting)
	h.revoke(t, short)
	until(t, "the token in the file is used", func() bool {
		again.mu.Lock()
		defer again.mu.Unlock()
		return again.token.ClientToken == lasting
	})
	if _, err := Open(t.Context(), h.config(t, TokenFile{filepath.Join(t.TempDir(), "none")})); kindOf(err) != KindMissing {
		t.Errorf("without a file: %v", err)
	}
}

// Kubernetes's method is OpenBao's own; the cluster's API that it asks is a stub.
func TestKubernetesLogsIn(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	jwt := serviceAccountToken(t, "bronzeward", "gateway")
	cluster := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct{ Spec struct{ Token string } }
		raw, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(raw, &review)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": {"authenticated": %v, "audiences": ["openbao"],
			"user": {"username": "system:serviceaccount:bronzeward:gateway", "uid": "uid-1", "groups": ["system:serviceaccounts"]}}}`, review.Spec.Token == jwt)
	}))
	defer cluster.Close()
	mount := h.kv + "-kubernetes"
	h.root(t, "POST", "sys/auth/"+mount, map[string]any{"type": "kubernetes"})
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cluster.Certificate().Raw})
	h.root(t, "POST", "auth/"+mount+"/config", map[string]any{"kubernetes_host": cluster.URL, "kubernetes_ca_cert": string(ca), "token_reviewer_jwt": jwt, "disable_local_ca_jwt": true})
	h.root(t, "POST", "auth/"+mount+"/role/gateway", map[string]any{
		"bound_service_account_names": "gateway", "bound_service_account_namespaces": "bronzeward", "audience": "openbao", "token_policies": h.policy(), "token_ttl": "1h", "token_no_default_policy": true,
	})
	path := filepath.Join(t.TempDir(), "jwt")
	write(t, path, jwt)
	auth := Kubernetes{Mount: mount, Role: "gateway", TokenFile: path}
	c, err := Open(t.Context(), h.config(t, auth))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	opens(t, NewSealer(c), sealWith(t, NewSealer(c), []byte("text")), []byte("text"))
	all, err := CheckAccess(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if one.TooWide() || one.Missing() {
			t.Errorf("%s: has %v, wants %v", one.Path, one.Has, one.Want)
		}
	}
	for name, spoil := range map[string]func(*Kubernetes){
		"another role":    func(k *Kubernetes) { k.Role = "other" },
		"another account": func(*Kubernetes) { write(t, path, serviceAccountToken(t, "bronzeward", "other")) },
	} {
		other := auth
		spoil(&other)
		_, err := Open(t.Context(), h.config(t, other))
		if kindOf(err) != KindForbidden {
			t.Errorf("%s: %v", name, err)
			continue
		}
		wantError(t, err, ErrRefused, KindForbidden, "", "Kubernetes at "+mount)
		nothingOf(t, []string{jwt}, err)
	}
}

func serviceAccountToken(t testing.TB, namespace, name string) string {
	t.Helper()
	part := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	return part(map[string]any{"alg": "RS256", "typ": "JWT"}) + "." + part(map[string]any{
		"iss": "https://kubernetes.default.svc.cluster.local", "sub": "system:serviceaccount:" + namespace + ":" + name,
		"exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(), "aud": []string{"openbao"},
		"kubernetes.io": map[string]any{"namespace": namespace, "serviceaccount": map[string]any{"name": name, "uid": "uid-1"}},
	}) + "." + base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{1}, 256))
}
