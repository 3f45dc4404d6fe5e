package vault

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/openbao/openbao/api/v2"
)

const (
	loggingIn = "logging in to OpenBao"
	// mostFile is the largest file with a token or an id in bytes.
	mostFile = 64 << 10
)

// Auth is a way to log in: AppRole, Kubernetes or TokenFile.
type Auth interface {
	// logIn gives a token in secret.Auth.
	logIn(ctx context.Context, open opener) (*api.Secret, error)
	// revokes is whether the token is this process's own, and ends with it.
	revokes() bool
	// String names the way, without any secret.
	String() string
}

// AppRole logs in by a role id and a secret id. Both files are read at each login, so that a
// new secret id is taken without a restart.
type AppRole struct {
	// Mount is where the method is mounted; empty: approle.
	Mount                    string
	RoleIDFile, SecretIDFile string
}

func (a AppRole) logIn(ctx context.Context, open opener) (*api.Secret, error) {
	role, err := readSecretFile(a.RoleIDFile)
	if err != nil {
		return nil, err
	}
	secret, err := readSecretFile(a.SecretIDFile)
	if err != nil {
		return nil, err
	}
	client, err := open("")
	if err != nil {
		return nil, err
	}
	return client.Logical().WriteWithContext(ctx, "auth/"+orDefault(a.Mount, "approle")+"/login", map[string]any{"role_id": role, "secret_id": secret})
}

func (a AppRole) revokes() bool { return true }

// String names the method.
func (a AppRole) String() string { return "AppRole at " + orDefault(a.Mount, "approle") }

// Kubernetes logs in by the pod's service account token, which is read at each login.
type Kubernetes struct {
	// Mount is where the method is mounted; empty: kubernetes.
	Mount string
	// Role is OpenBao's role. Required.
	Role string
	// TokenFile is the service account's token; empty: where Kubernetes puts it.
	TokenFile string
}

// serviceAccount is where Kubernetes mounts a pod's token.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount/token"

func (k Kubernetes) logIn(ctx context.Context, open opener) (*api.Secret, error) {
	token, err := readSecretFile(orDefault(k.TokenFile, serviceAccount))
	if err != nil {
		return nil, err
	}
	client, err := open("")
	if err != nil {
		return nil, err
	}
	return client.Logical().WriteWithContext(ctx, "auth/"+orDefault(k.Mount, "kubernetes")+"/login", map[string]any{"role": k.Role, "jwt": token})
}

func (k Kubernetes) revokes() bool { return true }

// String names the method and the role.
func (k Kubernetes) String() string {
	return "Kubernetes at " + orDefault(k.Mount, "kubernetes") + " as role " + k.Role
}

// TokenFile uses the token in a file that somebody else keeps fresh, such as OpenBao's agent.
// The file is read again at each login, and the token is renewed where it can be.
type TokenFile struct{ Path string }

func (t TokenFile) logIn(ctx context.Context, open opener) (*api.Secret, error) {
	token, err := readSecretFile(t.Path)
	if err != nil {
		return nil, err
	}
	one, err := open(token)
	if err != nil {
		return nil, err
	}
	self, err := one.Auth().Token().LookupSelfWithContext(ctx)
	if err != nil {
		return nil, err
	}
	ttl, err := self.TokenTTL()
	if err != nil {
		return nil, err
	}
	renewable, err := self.TokenIsRenewable()
	if err != nil {
		return nil, err
	}
	return &api.Secret{Auth: &api.SecretAuth{ClientToken: token, LeaseDuration: int(ttl.Seconds()), Renewable: renewable}}, nil
}

func (t TokenFile) revokes() bool { return false }

// String names the file.
func (t TokenFile) String() string { return "the token in " + t.Path }

// readSecretFile reads one line that is a secret; errors name the file and never what is in it.
func readSecretFile(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", refused(loggingIn, KindMissing, err, "%v", err)
	}
	if info.Size() > mostFile {
		return "", refused(loggingIn, KindMalformed, nil, "%s is larger than %d bytes", path, mostFile)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", refused(loggingIn, KindMissing, err, "%v", err)
	}
	text := strings.TrimSpace(string(raw))
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", refused(loggingIn, KindMalformed, nil, "%s does not hold one line of printable text", path)
	}
	return text, nil
}

// logIn gets a new token, unless somebody else has since the login that the caller saw. Only
// one login is under way at a time, and questions with a good token do not wait for it.
func (c *Client) logIn(ctx context.Context, seen uint64) (*api.Secret, error) {
	c.logins.Lock()
	defer c.logins.Unlock()
	if _, login := c.current(); login != seen {
		return nil, nil //nolint:nilnil // the token is new already
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	secret, err := c.auth.logIn(ctx, c.open)
	switch {
	case err != nil:
		e := classify(ctx, loggingIn, c.timeout, err)
		if answered := (*api.ResponseError)(nil); errors.As(err, &answered) && e.Class != ErrUnavailable {
			e = refused(loggingIn, KindForbidden, err, "OpenBao does not take the gateway's login (%s, status %d)", c.auth, answered.StatusCode)
		}
		return nil, e
	case secret == nil || secret.Auth == nil || secret.Auth.ClientToken == "":
		return nil, refused(loggingIn, KindMalformed, nil, "OpenBao gave no token (%s)", c.auth)
	}
	next, err := c.open(secret.Auth.ClientToken)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.api, c.login = next, c.login+1
	c.mu.Unlock()
	c.log.DebugContext(ctx, "logged in to OpenBao", slog.String("by", c.auth.String()), slog.Duration("lease", time.Duration(secret.Auth.LeaseDuration)*time.Second))
	return secret, nil
}

// endless is how long a token without an end is used before the way it came is tried again.
const endless = time.Minute

// keep renews the token, and logs in again when that ends, until ctx ends.
func (c *Client) keep(ctx context.Context, secret *api.Secret) {
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Second), backoff.WithMaxInterval(30*time.Second), backoff.WithMaxElapsedTime(0))
	for {
		switch {
		case secret == nil || secret.Auth.LeaseDuration == 0: // a question's own login, or no end
			if !sleep(ctx, endless) {
				return
			}
		default:
			c.renew(ctx, secret)
		}
		for {
			if ctx.Err() != nil {
				return
			}
			_, login := c.current()
			var err error
			if secret, err = c.logIn(ctx, login); err == nil {
				wait.Reset()
				break
			}
			c.log.WarnContext(ctx, "OpenBao does not let the gateway in again; it is tried on", slog.Any("cause", err))
			if !sleep(ctx, wait.NextBackOff()) {
				return
			}
		}
	}
}

// renew returns when the token's life cannot be made longer any more, or ctx ends.
func (c *Client) renew(ctx context.Context, secret *api.Secret) {
	client, _ := c.current()
	watcher, err := client.NewLifetimeWatcher(&api.LifetimeWatcherInput{Secret: secret})
	if err != nil {
		return
	}
	go watcher.Start()
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-watcher.RenewCh():
		case <-watcher.DoneCh():
			return
		}
	}
}

// sleep is false when ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func orDefault(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
