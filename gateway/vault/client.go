package vault

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/openbao/openbao/api/v2"
	"golang.org/x/sync/singleflight"
)

// Defaults of Config.
const (
	DefaultKVMount      = "bronzeward"
	DefaultTransitMount = "transit"
	// DefaultTimeout is below the time a call waits for a key, so that a slow OpenBao is named
	// as such and the call's own deadline does not speak first.
	DefaultTimeout = 5 * time.Second
)

const (
	// mostAnswer bounds what is read of an answer: 32 wrapped keys with room to spare.
	mostAnswer = 4 << 20
	// idleConns are kept open, so that a call that needs a key pays for no handshake.
	idleConns = 32
)

// Config says where OpenBao is and how the process proves itself. Nothing is read from the
// environment.
type Config struct {
	// Address is https://HOST:PORT. http is taken for loopback addresses only.
	Address string
	// Namespace is OpenBao's; empty for the root's.
	Namespace string
	// CA verifies the server; empty: the system's.
	CA []*x509.Certificate
	// KVMount is a KV v2 mount, TransitMount a Transit mount; empty takes the defaults.
	KVMount, TransitMount string
	// Auth is how the process logs in. Required.
	Auth Auth
	// Timeout bounds one question with its retries; 0 takes DefaultTimeout.
	Timeout time.Duration
	// Observe is told how each question went: its reason class, empty when it was answered, and
	// how long it took with its retries; nil: nobody is told.
	Observe func(kind Kind, took time.Duration)
	// Logger is told of logins, and of renewals that fail; nil: silence.
	Logger *slog.Logger
}

// Client asks OpenBao. It is safe for concurrent use; Close ends its background work.
type Client struct {
	kv, transit string
	timeout     time.Duration
	auth        Auth
	observe     func(Kind, time.Duration)
	log         *slog.Logger

	open       opener
	idle       func()          // closes connections that are not used
	background context.Context // of the login's renewal and of logins; ends with Close
	ended      context.CancelFunc
	keeper     sync.WaitGroup

	logins singleflight.Group // one login at a time for each token that went stale
	mu     sync.Mutex         // guards what follows
	api    *api.Client        // with the present token; replaced at each login
	login  uint64             // counts logins, so that one stale token brings about one login
	token  *api.SecretAuth    // the present token and its life; null before the first login
	failed failedLogin        // the latest login, when it failed
}

// Open logs in once and keeps the token alive from then on. An error is an *Error: the same
// configuration may work a moment later when it is ErrUnavailable.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	if err := c.logIn(ctx, 0); err != nil {
		c.Close()
		return nil, err
	}
	c.keeper.Go(c.keep)
	return c, nil
}

func newClient(cfg Config) (*Client, error) {
	if cfg.Auth == nil {
		return nil, errors.New("vault: Auth is required")
	}
	for _, mount := range []string{cfg.KVMount, cfg.TransitMount} {
		if mount != "" && !mountName.MatchString(mount) {
			return nil, fmt.Errorf("vault: %q is no name of a mount", mount)
		}
	}
	c := &Client{kv: cmp.Or(cfg.KVMount, DefaultKVMount), transit: cmp.Or(cfg.TransitMount, DefaultTransitMount), timeout: cmp.Or(cfg.Timeout, DefaultTimeout), auth: cfg.Auth, observe: cfg.Observe, log: cfg.Logger}
	if c.observe == nil {
		c.observe = func(Kind, time.Duration) {}
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if c.open, c.idle, err = newOpener(cfg); err != nil {
		return nil, err
	}
	if c.api, err = c.open(""); err != nil {
		return nil, err
	}
	// Detached on purpose: it outlives the call that opens, and Close ends it.
	c.background, c.ended = context.WithCancel(context.Background())
	return c, nil
}

// mountName is what a mount may be called: it becomes part of paths and of policies.
var mountName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*(/[A-Za-z0-9][A-Za-z0-9_-]*)*$`)

// opener makes a client of the library with a token; all of its clients share connections. The
// library's own Clone would forget that the environment is not to be read and redirects are not
// to be followed.
type opener func(token string) (*api.Client, error)

// newOpener gives with it what closes idle connections.
func newOpener(cfg Config) (open opener, idle func(), err error) {
	if err := CheckAddress(cfg.Address); err != nil {
		return nil, nil, err
	}
	shared := api.NewConfig().HttpClient
	transport, ok := shared.Transport.(*http.Transport)
	if !ok {
		return nil, nil, errors.New("vault: the library's transport has another type than expected")
	}
	transport.Proxy = nil
	transport.TLSClientConfig.MinVersion = tls.VersionTLS12
	if len(cfg.CA) > 0 {
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		for _, ca := range cfg.CA {
			transport.TLSClientConfig.RootCAs.AddCert(ca)
		}
	}
	transport.MaxIdleConnsPerHost = idleConns
	shared.Transport = limited{transport}
	return func(token string) (*api.Client, error) {
		out, err := api.NewClient(&api.Config{
			DisableEnvironment: true, Address: cfg.Address, HttpClient: shared, DisableRedirects: true,
			MaxRetries: 0,  // patiently does it, and knows the last error
			Timeout:    -1, // each question has its own deadline
		})
		if err != nil {
			return nil, fmt.Errorf("vault: preparing the client for %s: %w", cfg.Address, err)
		}
		if cfg.Namespace != "" {
			out.SetNamespace(cfg.Namespace)
		}
		out.SetToken(token)
		return out, nil
	}, transport.CloseIdleConnections, nil
}

// CheckAddress refuses what a token must not be sent to.
func CheckAddress(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		return errors.New("vault: the address of OpenBao is not https://HOST:PORT")
	case u.Hostname() == "":
		return errors.New("vault: the address of OpenBao names no host")
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil
	}
	return errors.New("vault: the address of OpenBao must begin with https://; http is for loopback addresses only")
}

// ask puts one question, within the client's timeout and with the present token. A token that
// OpenBao no longer knows brings about one login and one more try; a KV engine that is still
// upgrading is asked again inside the timeout.
func (c *Client) ask(ctx context.Context, doing string, question func(context.Context, *api.Client) error) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	client, login := c.current()
	err := patiently(ctx, func() error {
		err := question(ctx, client)
		if isForbidden(err) && tokenIsUnknown(ctx, client) {
			if err := c.logIn(ctx, login); err != nil {
				return err
			}
			client, login = c.current()
			err = question(ctx, client)
		}
		return err
	})
	if err == nil {
		c.observe("", time.Since(began))
		return nil
	}
	known := c.forOperators(classify(ctx, doing, c.timeout, err))
	c.observe(known.Kind, time.Since(began))
	return known
}

func (c *Client) current() (*api.Client, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.api, c.login
}

func isForbidden(err error) bool {
	var answered *api.ResponseError
	return errors.As(err, &answered) && answered.StatusCode == http.StatusForbidden
}

// tokenIsUnknown is true when OpenBao does not know the token: it was revoked, has ended, or the
// server is another one. A token that is known and may not is another matter, and OpenBao answers
// both alike: so the token is asked to look at itself, which it always may.
func tokenIsUnknown(ctx context.Context, client *api.Client) bool {
	_, err := client.Auth().Token().LookupSelfWithContext(ctx)
	return isForbidden(err)
}

// upgrading is true while a KV engine is being turned from version 1 to 2.
func upgrading(err error) bool {
	var answered *api.ResponseError
	return errors.As(err, &answered) && answered.StatusCode == http.StatusBadRequest &&
		strings.Contains(strings.ToLower(strings.Join(answered.Errors, "; ")), "upgrading from non-versioned to versioned")
}

// write asks a path of Transit or of the system with a body, and gives the data of the answer.
func (c *Client) write(ctx context.Context, doing, path string, body map[string]any) (map[string]any, error) {
	var data map[string]any
	err := c.ask(ctx, doing, func(ctx context.Context, client *api.Client) error {
		secret, err := client.Logical().WriteWithContext(ctx, path, body)
		if err == nil && secret != nil {
			data = secret.Data
		}
		return err
	})
	return data, err
}

// read gives the data at a path; KindMissing when there is none.
func (c *Client) read(ctx context.Context, doing, path string) (map[string]any, error) {
	var data map[string]any
	err := c.ask(ctx, doing, func(ctx context.Context, client *api.Client) error {
		secret, err := client.Logical().ReadWithContext(ctx, path)
		switch {
		case err != nil:
			return err
		case secret == nil:
			return api.ErrSecretNotFound
		}
		data = secret.Data
		return nil
	})
	return data, err
}

// Close ends the background work and gives the token back, where it is this process's own.
// Nothing may be asked after it.
func (c *Client) Close() {
	c.ended()
	c.keeper.Wait()
	c.mu.Lock()
	client, token := c.api, c.token
	c.mu.Unlock()
	if token != nil && c.auth.revokes() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = client.Auth().Token().RevokeSelfWithContext(ctx, "") // else it ends by itself soon
	}
	c.idle()
}

// String shows where OpenBao is and no token.
func (c *Client) String() string {
	client, _ := c.current()
	return "client of OpenBao at " + client.Address()
}

// GoString shows what String shows.
func (c *Client) GoString() string { return c.String() }
