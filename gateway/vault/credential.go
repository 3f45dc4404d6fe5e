package vault

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"
)

const readingCredentials = "reading the Talos credentials"

// Credential is what the gateway shows the machines of one cluster, and what it knows them by.
type Credential struct {
	Certificate tls.Certificate
	// CAs sign the machines' certificates.
	CAs []*x509.Certificate
	// Version is KV's.
	Version int64
}

// String tells the version and no key. Logging and encoding it say the same.
func (c Credential) String() string { return fmt.Sprintf("Talos credential, version %d", c.Version) }

// GoString says what String says.
func (c Credential) GoString() string { return c.String() }

// MarshalText says what String says: JSON, YAML and log handlers that encode it would go through the fields.
func (c Credential) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// talosSecret is a credential as it is kept in KV, as PEM.
type talosSecret struct {
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
	CA          string `json:"ca"`
}

// String shows nothing of it.
func (talosSecret) String() string { return "a Talos credential as PEM" }

// GoString says what String says.
func (s talosSecret) GoString() string { return s.String() }

// ParseCredential makes a credential of PEM, without its version.
type ParseCredential func(certificate, key, ca []byte) (Credential, error)

// CredentialsConfig is what NewCredentials takes.
type CredentialsConfig struct {
	Client *Client
	// Parse makes a credential of PEM, and refuses what must not be used; its error is shown to
	// operators, and quotes nothing of the texts. Required.
	Parse ParseCredential
	// People are the authorities whose certificates name people. A credential with the key of one as
	// its CA's is unusable; nil: not looked at.
	People func() []*x509.Certificate
	// MaxAge is how long a credential is used after OpenBao last confirmed it. Required.
	MaxAge time.Duration
	// Logger is told of versions that cannot be used and of credentials that are gone; nil: silence.
	Logger *slog.Logger
}

// Credentials holds the Talos credential of each cluster in memory. Refresh asks OpenBao; all
// else answers from memory. Safe for concurrent use.
type Credentials struct {
	cfg CredentialsConfig

	mu        sync.Mutex // guards what follows
	held      map[string]heldCredential
	bad       map[string]int64 // versions that were complained about
	unusable  []string         // clusters whose newest version cannot be used, sorted
	confirmed time.Time        // monotonic; when OpenBao last said that these are all
	last      *Error           // why the latest Refresh did not confirm; nil when it did
}

// heldCredential is one cluster's credential, with what OpenBao last said of it.
type heldCredential struct {
	Credential
	// confirmed is when OpenBao last gave it, monotonic; last is why the latest Refresh did not.
	confirmed time.Time
	last      *Error
}

// NewCredentials holds none before the first Refresh.
func NewCredentials(cfg CredentialsConfig) *Credentials {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Credentials{cfg: cfg, held: map[string]heldCredential{}, bad: map[string]int64{}}
}

// Refresh reads the credential of every cluster anew. A new version takes effect with it; one
// that cannot be used is logged once, and the one before stays; one that is gone is forgotten.
// After an error what is held stays, until MaxAge: of every cluster when OpenBao is away, and of
// one alone when only that one's cannot be read.
func (c *Credentials) Refresh(ctx context.Context) error {
	began := time.Now()
	next, unusable, problems, err := c.readAll(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.last = classify(ctx, readingCredentials, c.cfg.Client.timeout, err)
		return err
	}
	for cluster := range c.held {
		if _, still := next[cluster]; !still {
			c.cfg.Logger.WarnContext(ctx, "the Talos credential of a cluster is gone from OpenBao, and is no longer used", slog.String("cluster", cluster))
		}
	}
	c.held, c.unusable, c.confirmed, c.last = next, unusable, began, nil
	return errors.Join(problems...)
}

// Missed notes why no Refresh could be tried.
func (c *Credentials) Missed(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = classify(context.Background(), readingCredentials, c.cfg.Client.timeout, why)
}

// mostTroubled is how many clusters may be in trouble of their own; more than that is OpenBao's,
// and asking for each in turn would take long.
const mostTroubled = 10

// readAll gives what is to be held. unusable are the clusters whose newest version is not to be
// used; problems are of single clusters, whose credentials stay what
// they were; err says that OpenBao cannot be asked, and then nothing is known anew.
func (c *Credentials) readAll(ctx context.Context) (next map[string]heldCredential, unusable []string, problems []error, err error) {
	clusters, err := c.cfg.Client.list(ctx, readingCredentials, PathTalos)
	if err != nil {
		return nil, nil, nil, err
	}
	next = map[string]heldCredential{}
	for _, cluster := range clusters {
		if !clusterName.MatchString(cluster) {
			c.ignore(ctx, cluster)
			continue
		}
		began := time.Now()
		one, ok, good, err := c.readOne(ctx, cluster)
		if err == nil && !good {
			unusable = append(unusable, cluster)
		}
		switch {
		case err == nil && ok:
			next[cluster] = heldCredential{Credential: one, confirmed: began}
		case err == nil:
		case isAway(err), len(problems) >= mostTroubled:
			return nil, nil, nil, err
		default:
			problems = append(problems, err)
			if before, held := c.before(cluster); held {
				before.last = classify(ctx, readingCredentials, c.cfg.Client.timeout, err)
				next[cluster] = before
			}
		}
	}
	slices.Sort(unusable)
	return next, unusable, problems, nil
}

func (c *Credentials) before(cluster string) (heldCredential, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, held := c.held[cluster]
	return one, held
}

// clusterName is what a cluster may be called, as in machines add.
var clusterName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// ignore says once that something lies where credentials belong, and is none: a folder, or what
// no machine's cluster is called. Its name would be a path, and could mean another one.
func (c *Credentials) ignore(ctx context.Context, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bad[name] == 0 {
		c.bad[name] = 1
		c.cfg.Logger.WarnContext(ctx, "what lies at talos/ in OpenBao under this name is not read: it is no name of a cluster", slog.String("name", name))
	}
}

// readOne gives the credential to use for a cluster; ok is false when there is none, good is
// false when its newest version cannot be used.
func (c *Credentials) readOne(ctx context.Context, cluster string) (one Credential, ok, good bool, err error) {
	var secret talosSecret
	version, err := c.cfg.Client.get(ctx, readingCredentials, PathTalos+"/"+cluster, &secret)
	before, held := c.before(cluster)
	c.mu.Lock()
	complained := c.bad[cluster] == int64(version)
	c.mu.Unlock()
	switch kind := kindOf(err); {
	case kind == KindMissing: // deleted since it was listed
		return Credential{}, false, true, nil
	case kind == KindMalformed:
	case err != nil:
		return Credential{}, false, false, err
	case held && before.Version == int64(version):
		return before.Credential, true, true, nil
	default:
		one, err = c.parse(secret)
		one.Version = int64(version)
	}
	if err == nil {
		return one, true, true, nil
	}
	if !complained {
		c.cfg.Logger.ErrorContext(ctx, "a Talos credential in OpenBao cannot be used; the one before stays where there is one",
			slog.String("cluster", cluster), slog.Int("version", version), slog.Any("cause", err))
		c.mu.Lock()
		c.bad[cluster] = int64(version)
		c.mu.Unlock()
	}
	return before.Credential, held, false, nil
}

// Get answers from memory. The error is an *Error: there is none for that cluster (KindMissing),
// or OpenBao has not confirmed it for longer than MaxAge (the kind of what is the matter).
func (c *Credentials) Get(cluster string) (Credential, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, ok := c.held[cluster]
	since, why := c.confirmed, c.last
	if ok && one.last != nil {
		since, why = one.confirmed, one.last
	}
	age := time.Since(since)
	switch {
	case c.confirmed.IsZero():
		return Credential{}, stale(why, "no Talos credential was read from OpenBao yet")
	case age > c.cfg.MaxAge:
		return Credential{}, stale(why, fmt.Sprintf("the Talos credential was last confirmed %s ago, longer than openbao.credential_max_age", age.Round(time.Second)))
	case !ok:
		return Credential{}, refused(readingCredentials, KindMissing, nil, "there is no usable Talos credential for cluster %q; bronzeward openbao put-credential --cluster %s", cluster, cluster)
	}
	return one.Credential, nil
}

// stale is the refusal of a credential that is not confirmed any more; why is null when nothing is known.
func stale(why *Error, reason string) *Error {
	out := unavailable(readingCredentials, KindUnreachable, nil, "%s", reason)
	if why != nil {
		out.Kind, out.Cause = why.Kind, why
		out.Reason += "; " + why.Reason
	}
	return out
}

// CAs are the authorities of all clusters' machines, in the order of the clusters.
func (c *Credentials) CAs() []*x509.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*x509.Certificate
	for _, cluster := range slices.Sorted(maps.Keys(c.held)) {
		out = append(out, c.held[cluster].CAs...)
	}
	return out
}

// Unusable are the clusters whose newest version cannot be used, sorted; the one before stays
// where there is one. The slice is not to be written to.
func (c *Credentials) Unusable() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unusable
}

// Clusters are those that a credential is held for, sorted.
func (c *Credentials) Clusters() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.held))
}
