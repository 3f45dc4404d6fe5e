package house

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/config"
	"bronzeward/gateway"
	"bronzeward/gateway/facts"
	"bronzeward/gateway/identity"
	"bronzeward/gateway/upstream"
	"bronzeward/gateway/vault"
)

// This file builds what OpenBao holds for the gateway, or files hold for development: the
// Talos credential, the digest keys, the seal, and the authority for people's certificates.

// keys are those rooms. What is null is not there without OpenBao.
type keys struct {
	digester    facts.Digester
	sealer      gateway.Sealer
	credential  upstream.CredentialSource
	authorities identity.AuthoritySource
	issuer      *vault.Authority
	digestKeys  *digestKeys
	keeper      *vault.Keeper
	credentials *vault.Credentials
	place       anchorPlace
	anchors     anchors // over place, once the database is known
	signer      *vault.CheckpointSigner
	close       func()
}

// openKeys opens them. With OpenBao everything is read once: a gateway that cannot open what is
// sealed, or compare a digest, does not start. now is the database's clock.
func openKeys(ctx context.Context, c *config.Config, development bool, registry prometheus.Registerer, log *slog.Logger, now func() time.Time) (*keys, error) {
	if !c.OpenBao.Configured() {
		return fileKeys(c, development, log)
	}
	conf, err := c.VaultConfig(log)
	if err != nil {
		return nil, err
	}
	conf.Observe = observeOpenBao(registry)
	client, known, err := openOpenBao(ctx, c, conf, log)
	if err != nil {
		return nil, err
	}
	ring := &digestKeys{DigestKeys: vault.NewDigestKeys(client, now), now: now}
	k := &keys{
		sealer: vault.NewSealer(client), credential: openBaoCredential{known.talos}, authorities: known,
		issuer: known.people, digestKeys: ring, place: vault.NewAnchors(client), signer: vault.NewCheckpointSigner(client), close: client.Close, credentials: known.talos,
		keeper: vault.NewKeeper(c.OpenBao.Refresh, log,
			// What takes trust away comes first: nothing that lies at a cluster's path holds it up.
			vault.Refresher{Refresh: known.people.Refresh},
			vault.Refresher{Refresh: ring.refresh},
			vault.Refresher{Refresh: known.talos.Refresh, Missed: known.talos.Missed},
		),
	}
	if err := k.keeper.Refresh(ctx); err != nil {
		client.Close()
		return nil, fmt.Errorf("reading what OpenBao holds: %w", err)
	}
	k.digester = ring.live
	if c.Digest.Scheme == facts.SchemePlain {
		warnOfPlain(c, log)
		k.digester = facts.NewPlainUnder(ring.live)
	}
	return k, nil
}

// openOpenBao logs in, and makes ready what says whom to trust; nothing of it is read yet.
func openOpenBao(ctx context.Context, c *config.Config, conf vault.Config, log *slog.Logger) (_ *vault.Client, known openBaoAuthorities, err error) {
	client, err := vault.Open(ctx, conf)
	if err != nil {
		return nil, known, err
	}
	people, err := c.ReadAllCertificates(c.Identity.CertificateAuthorities)
	if err != nil {
		client.Close()
		return nil, known, cli.Usage(fmt.Errorf("reading identity.certificate_authorities: %w", err))
	}
	known.people = vault.NewAuthority(client, log)
	known.talos = vault.NewCredentials(vault.CredentialsConfig{
		Client: client, Parse: ParseCredential, People: peopleOf(known.people, people),
		MaxAge: cmp.Or(c.OpenBao.CredentialMaxAge, config.DefaultCredentialMaxAge), Logger: log,
	})
	return client, known, nil
}

// OpenAuthorities reads whose certificates name people, for commands that prove their caller
// themselves, and gives what OpenBao remembers of the database; both null without OpenBao.
func OpenAuthorities(ctx context.Context, c *config.Config, log *slog.Logger) (identity.AuthoritySource, *Memory, func(), error) {
	if !c.OpenBao.Configured() {
		return nil, nil, func() {}, nil
	}
	conf, err := c.VaultConfig(log)
	if err != nil {
		return nil, nil, nil, err
	}
	client, known, err := openOpenBao(ctx, c, conf, log)
	if err != nil {
		return nil, nil, nil, err
	}
	// The authority comes first: a Talos credential of its key is not to be used.
	if err := vault.NewKeeper(0, log, vault.Refresher{Refresh: known.people.Refresh}, vault.Refresher{Refresh: known.talos.Refresh}).Refresh(ctx); err != nil {
		client.Close()
		return nil, nil, nil, fmt.Errorf("reading what OpenBao holds: %w", err)
	}
	return known, &Memory{vault.NewAnchors(client)}, client.Close, nil
}

// fileKeys are those of development.
func fileKeys(c *config.Config, development bool, log *slog.Logger) (_ *keys, err error) {
	if !development {
		return nil, cli.Usage(errors.New("openbao is not configured; credentials and keys in files are for development: start with --development, or configure openbao"))
	}
	k := &keys{
		credential: &upstream.FileCredential{Cert: c.Path(c.Talos.Certificate), Key: c.Path(c.Talos.Key), CA: c.Path(c.Talos.CA), Logger: log},
		close:      func() {},
	}
	if c.Digest.Scheme == facts.SchemePlain {
		warnOfPlain(c, log)
		k.digester, err = facts.NewPlain(nil)
	} else {
		k.digester, err = facts.LoadDevelopmentKeys(c.Path(c.Digest.KeysFile))
	}
	if err != nil {
		return nil, err
	}
	k.sealer = noSealer{}
	if c.Seal.KeysFile != "" {
		k.sealer, err = vault.LoadDevelopment(c.Path(c.Seal.KeysFile))
	}
	return k, err
}

func warnOfPlain(c *config.Config, log *slog.Logger) {
	log.Warn("configuration digests are plain SHA-256: whoever can read the database can test guesses of a configuration (digest.scheme)")
}

// noSealer stands where nothing can be sealed.
type noSealer struct{}

var errNoSealer = errors.New("no sealing keys are configured (openbao, or seal.keys_file)")

func (noSealer) Seal(context.Context, []byte, []byte) ([]byte, error) { return nil, errNoSealer }
func (noSealer) Open(context.Context, []byte, []byte) ([]byte, error) { return nil, errNoSealer }

// openBaoCredential gives each cluster's credential from memory.
type openBaoCredential struct{ held *vault.Credentials }

// Credential implements upstream.CredentialSource.
func (o openBaoCredential) Credential(_ context.Context, cluster string) (upstream.Credential, error) {
	one, err := o.held.Get(cluster)
	var known *vault.Error
	if errors.As(err, &known) && known.Kind == vault.KindMissing {
		return upstream.Credential{}, &upstream.CredentialError{Cluster: cluster, Reason: upstream.ReasonNone, Say: known.ForCaller(), Err: err}
	}
	return upstream.Credential(one), err
}

// Clusters implements upstream.CredentialSource.
func (o openBaoCredential) Clusters() []string { return o.held.Clusters() }

// ParseCredential reads what a Talos credential must be, wherever it comes from.
func ParseCredential(certificate, key, ca []byte) (vault.Credential, error) {
	one, err := upstream.ParseCredential(certificate, key, ca)
	if err == nil {
		err = upstream.CheckCredential(one.Certificate, one.CAs, time.Now())
	}
	return vault.Credential(one), err
}

// peopleOf are all whose certificates name people: those of OpenBao, and the configuration's.
func peopleOf(kept *vault.Authority, configured []*x509.Certificate) func() []*x509.Certificate {
	return func() []*x509.Certificate { return slices.Concat(kept.People(), configured) }
}

// openBaoAuthorities are the authority for people, and Talos's own, which speak for nobody.
type openBaoAuthorities struct {
	people *vault.Authority
	talos  *vault.Credentials
}

// People implements identity.AuthoritySource.
func (o openBaoAuthorities) People() []*x509.Certificate { return o.people.People() }

// Forbidden implements identity.AuthoritySource.
func (o openBaoAuthorities) Forbidden() []*x509.Certificate { return o.talos.CAs() }

// digestKeys is the live ring of digest keys, kept like OpenBao's. Safe for concurrent use once
// it was refreshed.
type digestKeys struct {
	*vault.DigestKeys
	now func() time.Time

	mu    sync.Mutex // held while the keys are read
	live  *facts.LiveRing
	known []vault.DigestSecret
}

// refresh reads the keys anew.
func (d *digestKeys) refresh(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	secrets, err := d.Load(ctx, d.known)
	if err != nil {
		return err
	}
	ring := make([]facts.LiveKey, 0, len(secrets))
	for _, s := range secrets {
		ring = append(ring, facts.LiveKey{Version: s.Version, Secret: s.Secret, UsableFrom: s.UsableFrom})
	}
	if d.live == nil {
		d.live, err = facts.NewLiveRing(d.now, ring)
	} else {
		err = d.live.Replace(ring)
	}
	if err == nil {
		d.known = secrets
	}
	return err
}

// Add makes a key, and takes it into this replica's ring at once; the others read it soon.
func (d *digestKeys) Add(ctx context.Context) (version string, usableFrom time.Time, err error) {
	if version, usableFrom, err = d.DigestKeys.Add(ctx); err == nil {
		_ = d.refresh(ctx) // the keeper tries again, and says what is the matter
	}
	return version, usableFrom, err
}

// observeOpenBao makes the metric of questions to OpenBao.
func observeOpenBao(registry prometheus.Registerer) func(vault.Kind, time.Duration) {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "bronzeward_openbao_request_seconds", Help: "Time of one question to OpenBao with its retries, by reason class; ok when it was answered.",
		Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16),
	}, []string{"result"})
	registry.MustRegister(seconds)
	return func(kind vault.Kind, took time.Duration) {
		result := string(kind)
		if result == "" {
			result = "ok"
		}
		seconds.WithLabelValues(result).Observe(took.Seconds())
	}
}
