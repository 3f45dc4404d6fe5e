package vault

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// CAKey is the Transit key of the authority that signs people's certificates.
const CAKey = "bronzeward-ca"

const (
	readingCA = "reading the authority for people"
	signing   = "signing a certificate"
	makingCA  = "making the authority for people"
	// caLife is long because rotation is an act of its own; what matters is the life of
	// people's certificates, which is hours.
	caLife = 5 * 365 * 24 * time.Hour
	// backdated lets a host whose clock is a little behind take a new authority.
	backdated = time.Minute
)

// caFile is what KV holds of the authority: public certificates, and which version of the
// Transit key the current one is of. Previous is trusted while people's certificates of it live;
// PreviousVersion is its key's, 0 when that does not sign any more.
type caFile struct {
	Current         string `json:"current"`
	KeyVersion      int    `json:"key_version"`
	Previous        string `json:"previous,omitempty"`
	PreviousVersion int    `json:"previous_key_version,omitempty"`
}

// signingCA is an authority that signs: its certificate and its key's version.
type signingCA struct {
	certificate *x509.Certificate
	version     int
}

// Authority is the CA for people's certificates. Its private key never leaves OpenBao; what it
// trusts is read from KV by Refresh and kept in memory. Safe for concurrent use.
type Authority struct {
	client *Client
	key    *transitKey
	log    *slog.Logger

	mu      sync.Mutex // guards what follows
	current signingCA
	before  signingCA           // what current follows, while it can sign; else zero
	people  []*x509.Certificate // current first; replaced as a whole
}

// NewAuthority trusts nobody before the first Refresh. log is told of changes; nil: silence.
func NewAuthority(c *Client, log *slog.Logger) *Authority {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Authority{client: c, key: newTransitKey(c, CAKey), log: log}
}

// Refresh reads the authority's certificates anew. After an error those that are known stay:
// they are public, and each ends by itself. That there is none is an *Error of KindMissing.
func (a *Authority) Refresh(ctx context.Context) error {
	var file caFile
	if _, err := a.client.get(ctx, readingCA, PathCA, &file); err != nil {
		return err
	}
	current, previous, err := file.parse()
	if err != nil {
		return refused(readingCA, KindMalformed, err, "what is at %s/%s is no authority: %v", a.client.kv, PathCA, err)
	}
	people, before := []*x509.Certificate{current}, signingCA{}
	if previous != nil {
		people = append(people, previous)
		if file.PreviousVersion > 0 {
			before = signingCA{previous, file.PreviousVersion}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	same := len(people) == len(a.people)
	for i := 0; same && i < len(people); i++ {
		same = people[i].Equal(a.people[i])
	}
	if same {
		return nil
	}
	if a.people != nil {
		a.log.InfoContext(ctx, "the authority for people's certificates has changed", slog.Int("trusted", len(people)), slog.Int("key_version", file.KeyVersion))
	}
	a.current, a.before, a.people = signingCA{current, file.KeyVersion}, before, people
	return nil
}

func (f caFile) parse() (current, previous *x509.Certificate, err error) {
	one, err := ParseCertificates([]byte(f.Current))
	if err != nil {
		return nil, nil, fmt.Errorf("current: %w", err)
	}
	if len(one) != 1 || !one[0].IsCA || f.KeyVersion < 1 {
		return nil, nil, errors.New("current: not one authority with its key's version")
	}
	if _, ok := one[0].PublicKey.(*ecdsa.PublicKey); !ok {
		return nil, nil, errors.New("current: not an authority with an ECDSA key")
	}
	if f.Previous == "" {
		return one[0], nil, nil
	}
	two, err := ParseCertificates([]byte(f.Previous))
	if err != nil {
		return nil, nil, fmt.Errorf("previous: %w", err)
	}
	if len(two) != 1 || !two[0].IsCA {
		return nil, nil, errors.New("previous: not one authority")
	}
	return one[0], two[0], nil
}

// People are the authorities whose certificates name people: the current one, and the one
// before it during a rotation. The slice is not to be written to.
func (a *Authority) People() []*x509.Certificate {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.people
}

// Issue signs a certificate for a public key, and gives it alone: its authority is the root.
// The life it asks for is cut at the authority's own end. Nothing else of the template is looked
// at: that it names the right person, that it is no authority (IsCA), what it may be used for and
// how long it lives are the caller's to decide, and none of them may come from a request as it
// is. The error is an *Error, or says what is wrong with the template.
func (a *Authority) Issue(ctx context.Context, template *x509.Certificate, pub crypto.PublicKey) ([][]byte, error) {
	ca, version := a.signer(template)
	if ca == nil {
		return nil, unavailable(signing, KindUnreachable, nil, "the authority for people was not read from OpenBao yet")
	}
	cut := *template
	if cut.NotAfter.After(ca.NotAfter) {
		cut.NotAfter = ca.NotAfter
	}
	if !cut.NotAfter.After(cut.NotBefore) {
		return nil, refused(signing, KindMalformed, nil, "the authority for people has ended; bronzeward openbao rotate-ca")
	}
	der, err := x509.CreateCertificate(rand.Reader, &cut, ca, pub, &transitSigner{ctx: ctx, key: a.key, version: version, public: ca.PublicKey})
	if err != nil {
		var known *Error
		if errors.As(err, &known) {
			return nil, known
		}
		return nil, fmt.Errorf("%s: %w", signing, err)
	}
	return [][]byte{der}, nil
}

// signer is the authority that signs a template: a new one only once every replica has had the
// time to read it, so that whoever logs in just then is known at all of them. Both, authority and
// certificates, begin a minute before they were made.
func (a *Authority) signer(template *x509.Certificate) (*x509.Certificate, int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.current
	if b := a.before; b.certificate != nil && template.NotBefore.Before(one.certificate.NotBefore.Add(spreadWithin)) && b.certificate.NotAfter.After(template.NotAfter) {
		one = b
	}
	return one.certificate, one.version
}

// transitSigner is a crypto.Signer over one version of a Transit key. It lives for one
// signature, because crypto.Signer takes no context.
type transitSigner struct {
	ctx     context.Context
	key     *transitKey
	version int
	public  crypto.PublicKey
}

var _ crypto.Signer = (*transitSigner)(nil)

// Public is the public half.
func (s *transitSigner) Public() crypto.PublicKey { return s.public }

// Sign has OpenBao sign a SHA-256 digest and gives the ASN.1 form, which x509 verifies.
func (s *transitSigner) Sign(_ io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	if opts.HashFunc() != crypto.SHA256 {
		return nil, errors.New("the authority signs SHA-256 digests only")
	}
	data, err := s.key.client.write(s.ctx, signing, s.key.client.transit+"/sign/"+s.key.name+"/sha2-256", map[string]any{
		"input": base64.StdEncoding.EncodeToString(digest), "prehashed": true, "key_version": s.version, "marshaling_algorithm": "asn1",
	})
	if err != nil {
		return nil, s.key.diagnoseVersion(s.ctx, signing, s.version, err)
	}
	text, _ := data["signature"].(string)
	signature, version, err := parseSignature(text)
	if err != nil || version != s.version {
		return nil, refused(signing, KindMalformed, err, "OpenBao did not give a signature of version %d", s.version)
	}
	if public, ok := s.public.(*ecdsa.PublicKey); !ok || !ecdsa.VerifyASN1(public, digest, signature) {
		return nil, &Error{
			Doing: signing, Class: ErrRefused, Kind: KindKeyRecreated, KeyVersion: s.key.at(version),
			Reason: "OpenBao's key is not the one of the authority's certificate: it was recreated; bronzeward openbao rotate-ca makes an authority of the key that is there",
		}
	}
	return signature, nil
}
