package vault

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

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
	if err := checkOwnersOnly(a.SecretIDFile); err != nil {
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
	return client.Logical().WriteWithContext(ctx, "auth/"+cmp.Or(a.Mount, "approle")+"/login", map[string]any{"role_id": role, "secret_id": secret})
}

func (a AppRole) revokes() bool { return true }

// String names the method.
func (a AppRole) String() string { return "AppRole at " + cmp.Or(a.Mount, "approle") }

// Kubernetes logs in by the pod's service account token, which is read at each login.
type Kubernetes struct {
	// Mount is where the method is mounted; empty: kubernetes.
	Mount string
	// Role is OpenBao's role. Required.
	Role string
	// TokenFile is the service account's token; empty: where Kubernetes puts it.
	TokenFile string
}

// ServiceAccountToken is where Kubernetes mounts a pod's token.
const ServiceAccountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"

func (k Kubernetes) logIn(ctx context.Context, open opener) (*api.Secret, error) {
	token, err := readSecretFile(cmp.Or(k.TokenFile, ServiceAccountToken))
	if err != nil {
		return nil, err
	}
	client, err := open("")
	if err != nil {
		return nil, err
	}
	return client.Logical().WriteWithContext(ctx, "auth/"+cmp.Or(k.Mount, "kubernetes")+"/login", map[string]any{"role": k.Role, "jwt": token})
}

func (k Kubernetes) revokes() bool { return true }

// String names the method and the role.
func (k Kubernetes) String() string {
	return "Kubernetes at " + cmp.Or(k.Mount, "kubernetes") + " as role " + k.Role
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

// othersMay are the mode bits that let others than its owner at a file.
const othersMay = 0o077

// checkOwnersOnly refuses a file that others may read. Tokens are not held to it: Kubernetes and
// OpenBao's agent write theirs for a group.
func checkOwnersOnly(path string) error {
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&othersMay != 0 {
		return refused(loggingIn, KindMalformed, nil, "%s may be read by others (mode %04o): chmod 600 it, or better remove it and run bronzeward openbao setup for a new secret id", path, info.Mode().Perm())
	}
	return nil
}

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

// loginPause is how long a login that failed speaks for those after it: OpenBao locks a role out
// that fails often, and a thousand calls would be often.
const loginPause = time.Second

type failedLogin struct {
	err error
	at  time.Time
}

// logIn gets a new token, unless somebody else has since the login that the caller saw. Those
// who saw the same token go stale share one login and its outcome, which does not end with any
// one of them; questions with a good token do not wait for it. The error is an *Error.
func (c *Client) logIn(ctx context.Context, seen uint64) error {
	one := c.logins.DoChan(strconv.FormatUint(seen, 10), func() (any, error) {
		if _, login := c.current(); login != seen {
			return nil, nil //nolint:nilnil // the token is new already
		}
		c.mu.Lock()
		before := c.failed
		c.mu.Unlock()
		if before.err != nil && time.Since(before.at) < loginPause {
			return nil, before.err
		}
		ctx, cancel := context.WithTimeout(c.background, c.timeout)
		defer cancel()
		err := c.newToken(ctx)
		c.mu.Lock()
		c.failed = failedLogin{err, time.Now()}
		c.mu.Unlock()
		return nil, err
	})
	select {
	case outcome := <-one:
		return outcome.Err
	case <-ctx.Done():
		return classify(ctx, loggingIn, c.timeout, ctx.Err())
	}
}

func (c *Client) newToken(ctx context.Context) error {
	var secret *api.Secret
	err := patiently(ctx, func() (err error) {
		secret, err = c.auth.logIn(ctx, c.open)
		return err
	})
	switch {
	case err != nil:
		e := classify(ctx, loggingIn, c.timeout, err)
		if answered := (*api.ResponseError)(nil); errors.As(err, &answered) && e.Class != ErrUnavailable {
			e = refused(loggingIn, KindForbidden, err, "OpenBao does not take the gateway's login (%s, status %d)", c.auth, answered.StatusCode)
		}
		return c.forOperators(e)
	case secret == nil || secret.Auth == nil || secret.Auth.ClientToken == "":
		return refused(loggingIn, KindMalformed, nil, "OpenBao gave no token (%s)", c.auth)
	}
	next, err := c.open(secret.Auth.ClientToken)
	if err != nil {
		return refused(loggingIn, KindMalformed, err, "the client of OpenBao cannot be made")
	}
	c.mu.Lock()
	c.api, c.token, c.login = next, secret.Auth, c.login+1
	c.mu.Unlock()
	c.log.DebugContext(ctx, "logged in to OpenBao", slog.String("by", c.auth.String()), slog.Duration("life", life(secret.Auth)))
	return nil
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
