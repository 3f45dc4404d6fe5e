package notify

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"bronzeward/gateway/control"
)

// ErrNotWaiting is what a Describer says of a change that is not waiting for approvals, by its
// state or by its clock: its notice is not sent.
var ErrNotWaiting = errors.New("the change is no longer waiting")

// Describer gives what approvers are told of a change, as it is now, to be written as JSON. It
// must hold nothing that the receiver may not read. Safe for concurrent use.
type Describer interface {
	Describe(ctx context.Context, id control.ChangeID) (any, error)
}

// Outbox is where notices wait; control.Store says what its methods promise.
type Outbox interface {
	ClaimNotices(ctx context.Context, n int, lease time.Duration) ([]control.Notice, error)
	NoticeSent(ctx context.Context, id uuid.UUID) error
	NoticeFailed(ctx context.Context, id uuid.UUID, try int, why string, next time.Duration) error
	NoticeDead(ctx context.Context, id uuid.UUID, try int, why string) error
}

// Counter counts the notices by state, for the metric.
type Counter interface {
	NoticeCounts(ctx context.Context) (map[string]int, error)
}

// Defaults of Config.
const (
	DefaultTimeout     = 5 * time.Second
	DefaultLease       = 30 * time.Second
	DefaultPollEvery   = 2 * time.Second
	DefaultConcurrency = 8
	// DefaultMaxTries, with the waits between them, spans about eleven hours of the
	// twenty-four that a change waits: whoever is told later can do little with it.
	DefaultMaxTries   = 12
	DefaultFirstRetry = 10 * time.Second
	DefaultMostRetry  = 2 * time.Hour
)

// Config is what New takes.
type Config struct {
	// URL is the receiver's address. Required; https, or http to a literal loopback address.
	// It may hold a token in its path or query, and is in no error, log line or row.
	URL string
	// AllowHTTP lets URL be http to anywhere.
	AllowHTTP bool
	// SecretFile holds one to four whsec_ secrets, one per line; each signs. Required; nobody
	// but its owner may be able to read it. Read at each try.
	SecretFile string
	// RootCAs replaces the system's roots for the receiver's certificate; the system's when nil.
	RootCAs *x509.CertPool
	// Proxy is an HTTP proxy to go through; none when nil, whatever the environment says.
	Proxy *url.URL

	Outbox   Outbox    // required
	Counter  Counter   // required
	Describe Describer // required

	// Timeout bounds a whole try, and the database's work before and after it each: 5 s when
	// zero, at most 30 s.
	Timeout time.Duration
	// Lease is how long a claimed notice is this process's: 30 s when zero. More than three
	// times Timeout, so that no other process takes what is still being sent.
	Lease time.Duration
	// PollEvery is how often the outbox is asked when Wake is not called: 2 s when zero.
	PollEvery time.Duration
	// Concurrency is how many tries run at once: 8 when zero, at most 64.
	Concurrency int
	// MaxTries is after how many a notice is dead: 12 when zero, at most 100.
	MaxTries int
	// FirstRetry is the wait after the first try, 10 s when zero; each further one is three
	// times as long, up to MostRetry, 2 h when zero. All are varied by a fifth.
	FirstRetry time.Duration
	MostRetry  time.Duration
	// Now dates the tries for the receiver, which refuses those minutes off: the gateway gives
	// the database's clock. time.Now when nil.
	Now func() time.Time

	Registry prometheus.Registerer // required
	Logger   *slog.Logger          // required; gets one line per try
}

// Validate returns every problem joined. It does no I/O; CheckSecrets reads the file.
func (c Config) Validate() error {
	c = c.withDefaults()
	var problems []error
	problem := func(format string, args ...any) { problems = append(problems, fmt.Errorf("notify: "+format, args...)) }
	for _, need := range []struct {
		missing bool
		what    string
	}{
		{c.SecretFile == "", "SecretFile"},
		{c.Outbox == nil, "Outbox"},
		{c.Counter == nil, "Counter"},
		{c.Describe == nil, "Describe"},
		{c.Registry == nil, "Registry"},
		{c.Logger == nil, "Logger"},
	} {
		if need.missing {
			problem("%s is required", need.what)
		}
	}
	if err := checkURL(c.URL, c.AllowHTTP); err != nil {
		problem("URL %w", err)
	}
	if c.Proxy != nil && (c.Proxy.Host == "" || c.Proxy.Scheme != "http" && c.Proxy.Scheme != "https") {
		problem("Proxy must be an http or https URL with a host")
	}
	bounded := func(what string, d, low, high time.Duration) {
		if d < low || d > high {
			problem("%s is %v, and must be between %v and %v", what, d, low, high)
		}
	}
	bounded("Timeout", c.Timeout, time.Millisecond, 30*time.Second)
	bounded("Lease", c.Lease, 3*c.Timeout+time.Millisecond, time.Hour)
	bounded("PollEvery", c.PollEvery, time.Millisecond, time.Hour)
	bounded("FirstRetry", c.FirstRetry, time.Millisecond, c.MostRetry)
	bounded("MostRetry", c.MostRetry, c.FirstRetry, 24*time.Hour)
	if c.Concurrency < 1 || c.Concurrency > 64 {
		problem("Concurrency is %d, and must be between 1 and 64", c.Concurrency)
	}
	if c.MaxTries < 1 || c.MaxTries > 100 {
		problem("MaxTries is %d, and must be between 1 and 100", c.MaxTries)
	}
	return errors.Join(problems...)
}

// checkURL quotes nothing of the address, which may hold a token.
func checkURL(raw string, allowHTTP bool) error {
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return errors.New("is required")
	case err != nil:
		return errors.New("is not a URL")
	case u.Host == "" || u.Opaque != "":
		return errors.New("must be an absolute URL with a host")
	case u.User != nil || u.Fragment != "":
		return errors.New("must have no user and no fragment")
	case u.Scheme == "https", u.Scheme == "http" && (allowHTTP || isLoopback(u.Hostname())):
		return nil
	}
	return errors.New("must be https (http only to a literal loopback address, or if it is allowed)")
}

// isLoopback is true of addresses only: what a name means is the resolver's to say.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

func (c Config) withDefaults() Config {
	setDuration(&c.Timeout, DefaultTimeout)
	setDuration(&c.Lease, DefaultLease)
	setDuration(&c.PollEvery, DefaultPollEvery)
	setDuration(&c.FirstRetry, DefaultFirstRetry)
	setDuration(&c.MostRetry, DefaultMostRetry)
	if c.Concurrency == 0 {
		c.Concurrency = DefaultConcurrency
	}
	if c.MaxTries == 0 {
		c.MaxTries = DefaultMaxTries
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func setDuration(d *time.Duration, def time.Duration) {
	if *d == 0 {
		*d = def
	}
}
