package identity

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Authenticator says who is calling. It is safe for concurrent use.
type Authenticator struct {
	cfg          Config
	known        atomic.Pointer[authorities] // as last assembled
	issuers      map[string]*issuer
	tokens       *lru.Cache[[sha256.Size]byte, *provenToken]
	certificates *lru.Cache[[sha256.Size]byte, *provenCertificate]

	cancel  context.CancelFunc
	running sync.WaitGroup
}

// New validates the configuration, starts one goroutine per issuer that keeps its keys fresh until Close, and waits for
// the first fetch of each, at most 5 s.
//
// I/O: HTTPS GETs to the issuers' discovery documents and key sets, nothing else. An issuer that cannot be
// reached does not fail New (Health shows it, and its tokens are refused as keys-unavailable): certificates and
// the other issuers go on. New errs on an invalid configuration, or when ctx ends first.
func New(ctx context.Context, cfg Config) (*Authenticator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("checking configuration: %w", err)
	}
	cfg = cfg.withDefaults()
	a := &Authenticator{cfg: cfg, issuers: make(map[string]*issuer, len(cfg.Issuers))}
	if cfg.Authorities == nil {
		a.known.Store(a.assemble(nil, nil))
	}
	var err error
	if a.tokens, err = lru.New[[sha256.Size]byte, *provenToken](cfg.CacheSize); err != nil {
		return nil, fmt.Errorf("making token cache: %w", err)
	}
	if a.certificates, err = lru.New[[sha256.Size]byte, *provenCertificate](cfg.CacheSize); err != nil {
		return nil, fmt.Errorf("making certificate cache: %w", err)
	}

	// The goroutines outlive the caller's context: Close ends them.
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.cancel = cancel
	firsts := make([]chan struct{}, 0, len(cfg.Issuers))
	for _, one := range cfg.Issuers {
		s := a.newIssuer(one)
		firsts = append(firsts, s.pending)
		a.issuers[one.Issuer] = s
		a.running.Go(func() { s.run(background) })
	}
	for _, first := range firsts {
		select {
		case <-first:
		case <-ctx.Done():
			_ = a.Close()
			return nil, fmt.Errorf("waiting for the first keys: %w", ctx.Err())
		}
	}
	return a, nil
}

// newIssuer makes an issuer whose first fetch is already pending. That fetch begins no cool-down.
func (a *Authenticator) newIssuer(cfg IssuerConfig) *issuer {
	return &issuer{
		cfg: cfg, client: newClient(a.cfg.HTTPClient, cfg.CACert),
		maxAge: a.cfg.JWKSMaxAge, refresh: a.cfg.JWKSRefresh, cooldown: a.cfg.UnknownKidCooldown,
		log: a.cfg.Logger, wake: make(chan struct{}, 1), pending: make(chan struct{}),
	}
}

// Identify says who is calling, or refuses with a *Refusal.
//
// Every credential shown must be good: a bad certificate beside a good token is refused, and two good ones must
// name the same issuer, subject and kind. It reads no database and does no I/O, save that a token whose key is not
// known may bring about, and wait for, one fetch of its issuer's keys per cool-down; ctx bounds that wait.
// The Caller is the zero Caller with every refusal but deny-listed, where it says who was refused.
func (a *Authenticator) Identify(ctx context.Context, r Request) (Caller, error) {
	caller, refusal := a.identify(ctx, r)
	if refusal != nil {
		return caller, refusal
	}
	return caller, nil
}

func (a *Authenticator) identify(ctx context.Context, r Request) (Caller, *Refusal) {
	token, refusal := tokenOf(r.Authorization)
	if refusal != nil {
		return Caller{}, refusal
	}
	now := a.cfg.Now()
	byCertificate, refusal := a.fromCertificate(r.TLS, now)
	if refusal != nil {
		return Caller{}, refusal
	}
	byToken, refusal := a.fromToken(ctx, token, now)
	if refusal != nil {
		return Caller{}, refusal
	}
	var caller Caller
	switch {
	case byCertificate == nil && byToken == nil:
		return Caller{}, refuse(ClassNoCredential, "no client certificate and no token was sent; log in first", nil)
	case byToken == nil:
		caller = byCertificate.caller
	case byCertificate == nil:
		caller = byToken.caller
	default:
		if caller, refusal = join(byCertificate, byToken); refusal != nil {
			return Caller{}, refusal
		}
	}
	caller.Groups = slices.Clone(caller.Groups)
	if a.denied(caller) {
		return caller, refuse(ClassDenyListed, "this identity or credential is on the gateway's deny list", nil)
	}
	return caller, nil
}

// join makes one Caller of two proofs of the same person.
func join(certificate *provenCertificate, token *provenToken) (Caller, *Refusal) {
	c, t := certificate.caller, token.caller
	if c.Issuer != t.Issuer || c.Subject != t.Subject {
		return Caller{}, refuse(ClassConflictingIdentities, "the client certificate and the token do not name the same person", nil)
	}
	if c.Kind != t.Kind {
		return Caller{}, refuse(ClassConflictingIdentities, "the client certificate and the token disagree on human or automation", nil)
	}
	joined := t
	joined.Proof = ProofBoth
	joined.CertificateSerial, joined.SPKI = c.CertificateSerial, c.SPKI
	if !token.hasGroups {
		joined.Groups, joined.CertificateGroups = c.Groups, true
	}
	if joined.Name == "" {
		joined.Name = c.Name
	}
	if c.ProofEnds.Before(joined.ProofEnds) {
		joined.ProofEnds = c.ProofEnds
	}
	return joined, nil
}

// fromCertificate proves the client certificate, if one was shown. A remembered one is only used while the very authorities
// that proved it are the current ones; its times are judged each time.
func (a *Authenticator) fromCertificate(state *tls.ConnectionState, now time.Time) (*provenCertificate, *Refusal) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return nil, nil
	}
	if !state.HandshakeComplete {
		// Before its end the key's possession is not proven.
		return nil, refuse(ClassUnknownCertificate, "the TLS handshake is not finished", nil)
	}
	hash := sha256.New()
	for _, one := range state.PeerCertificates {
		hash.Write(one.Raw)
	}
	key := [sha256.Size]byte(hash.Sum(nil))
	known := a.authorities()
	proven, ok := a.certificates.Get(key)
	if !ok || proven.by != known {
		var refusal *Refusal
		if proven, refusal = known.verifyCertificate(state.PeerCertificates, now); refusal != nil {
			a.certificates.Remove(key)
			return nil, refusal
		}
		a.certificates.Add(key, proven)
	}
	if refusal := proven.judgeTimes(now); refusal != nil {
		return nil, refusal
	}
	return proven, nil
}

// fromToken proves the token, if one was shown. A remembered token is only used while the very key set that verified it
// is its issuer's current one; its times are judged each time.
func (a *Authenticator) fromToken(ctx context.Context, token string, now time.Time) (*provenToken, *Refusal) {
	if token == "" {
		return nil, nil
	}
	key := sha256.Sum256([]byte(token))
	proven, ok := a.tokens.Get(key)
	if !ok || proven.issuer.current() != proven.keys {
		var refusal *Refusal
		if proven, refusal = a.verifyToken(ctx, token, now); refusal != nil {
			a.tokens.Remove(key)
			return nil, refusal
		}
		a.tokens.Add(key, proven)
	}
	if refusal := proven.judgeTimes(now, a.cfg.ClockSkew); refusal != nil {
		return nil, refusal
	}
	return proven, nil
}

// denied reports whether a rule of the deny list matches the caller.
func (a *Authenticator) denied(c Caller) bool {
	return slices.ContainsFunc(a.cfg.DenyList, func(rule DenyRule) bool {
		return (rule.Issuer == "" || rule.Issuer == c.Issuer) &&
			(rule.Subject == "" || rule.Subject == c.Subject) &&
			(rule.TokenID == "" || rule.TokenID == c.TokenID) &&
			(rule.SPKI == "" || strings.EqualFold(rule.SPKI, c.SPKI))
	})
}

// Close ends the goroutines and waits for them. Identify goes on with the keys held, until their maximum age.
func (a *Authenticator) Close() error {
	a.cancel()
	a.running.Wait()
	return nil
}
