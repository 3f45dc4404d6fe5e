package gateway

import (
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

// Issuer signs people's certificates.
type Issuer interface {
	// Issue signs the template for a key and gives the chain in DER, leaf first. It is a network call, bounded by ctx. An error may
	// have the method ReasonClass: then its class and its text, which hold no secret, go to the caller.
	Issue(ctx context.Context, template *x509.Certificate, key crypto.PublicKey) (chain [][]byte, err error)
}

const (
	// DefaultCertificateLifetime is a working day.
	DefaultCertificateLifetime = 8 * time.Hour
	// signWithin bounds signing: whoever logs in waits for it.
	signWithin = 15 * time.Second
)

// issuance is one certificate on its way.
type issuance struct {
	*Acts
	by    Actor
	key   crypto.PublicKey
	asked time.Duration // zero asks for the most there is
	// subject is what the act is about: serial and key.
	subject string
	// lifetime is what was signed; zero before that.
	lifetime time.Duration
	issued   identity.Issued
	// repeated is true when the request's Idempotency-Key has an answer already.
	repeated bool
}

// IssueCertificate has a certificate signed that names the caller as their token proves them, for a key whose private half they
// have shown to hold. asked is how long it may last; zero, and more than there is, take the most that the configuration and the law
// grant. Nothing is given before its entry is durable.
func (a *Acts) IssueCertificate(ctx context.Context, by Actor, key crypto.PublicKey, asked time.Duration, once *control.Once) (control.IssuedCertificate, error) {
	var none control.IssuedCertificate
	if a.Issuer == nil {
		return none, refusal(codes.Unimplemented, audit.Receipt{}, "BW-CERTIFICATE-001", "no authority for people's certificates is configured (openbao)",
			"use a token instead")
	}
	serial, err := identity.NewSerial()
	if err != nil {
		return none, err
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return none, fmt.Errorf("%w: the key cannot be written down", control.ErrInvalid)
	}
	spki := sha256.Sum256(der)
	i := &issuance{Acts: a, by: by, key: key, asked: asked, subject: fmt.Sprintf("serial %s, key %s", serial.Text(16), hex.EncodeToString(spki[:]))}
	if once != nil {
		var before *control.ReplayedError
		switch err := a.Store.Replayed(ctx, once, by.Caller.Issuer, by.Caller.Subject); {
		case errors.As(err, &before):
			i.repeated = true // it is answered below, once it is known that the caller is not revoked
		case err != nil:
			return none, err
		}
	}
	// A crash up to here, or while it is signed, leaves a certificate that nobody was given.
	if err := i.sign(ctx, serial); err != nil {
		return none, err
	}
	act, said, err := a.actBesides(ctx, by, ActCertificates, i.subject, "", besides{judge: i.judge, entry: i.note})
	if err != nil {
		return none, err
	}
	act.Once = once
	out := control.IssuedCertificate{PEM: i.issued.PEM, Serial: i.issued.Serial, NotAfter: i.issued.NotAfter, Clusters: a.clusters(ctx, by)}
	_, err = a.Store.Attest(ctx, act, func(entry uuid.UUID) (any, error) {
		if i.lifetime == 0 {
			return nil, fmt.Errorf("%w: the kept answer of this Idempotency-Key is gone; try again", control.ErrUnavailable)
		}
		out.EntryID = entry
		return out, nil
	})
	if err = a.replayed(ctx, by, ActCertificates, i.subject, a.denied(ctx, err, said)); err != nil {
		return none, err
	}
	return out, nil
}

// mostLifetime is what the configuration grants.
func (a *Acts) mostLifetime() time.Duration {
	if a.CertificateLifetime <= 0 {
		return DefaultCertificateLifetime
	}
	return min(a.CertificateLifetime, identity.MaxCertificateLifetime)
}

// sign judges without a lock and, when that allows it, has the certificate signed: no network call is made inside a transaction.
// What is denied here is left to the transaction, which judges for good and writes the refusal down.
func (i *issuance) sign(ctx context.Context, serial *big.Int) error {
	if i.repeated {
		return nil
	}
	snap, err := i.current(ctx)
	if err != nil {
		return err
	}
	_, d := i.judged(ctx, i.by, ActCertificates, i.subject, snap)
	if d.Allow {
		d = i.allowed(d)
	}
	if !d.Allow {
		return nil
	}
	lifetime := min(i.mostLifetime(), granted(d))
	if i.asked > 0 {
		lifetime = min(lifetime, i.asked)
	}
	template, err := identity.CertificateTemplate(i.by.Caller, serial, snap.Now(), lifetime)
	if errors.Is(err, identity.ErrNames) {
		return i.refuse(ctx, codes.FailedPrecondition, "BW-CERTIFICATE-003", err.Error(), err)
	}
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, signWithin)
	defer cancel()
	chain, err := i.Issuer.Issue(bounded, template, i.key)
	if err == nil {
		i.issued, err = identity.CheckIssued(chain, template, i.key)
	}
	if err != nil {
		away := keysAwayOf(err)
		return i.refuse(ctx, codes.Unavailable, "BW-CERTIFICATE-002", "the certificate could not be signed, and none was given: "+away.why, err, away.next())
	}
	i.lifetime = lifetime
	return nil
}

// refuse writes down that no certificate is given, and why. cause is for the log.
func (i *issuance) refuse(ctx context.Context, status codes.Code, code, message string, cause error, hints ...string) error {
	return i.refusedAct(ctx, i.by, ActCertificates, i.subject, status, code, message, cause, hints...)
}

// judge is what a certificate needs besides the law's word, under the lock: what was signed is within what is granted now.
func (i *issuance) judge(_ control.Stamp, d policy.Decision) policy.Decision {
	if d = i.allowed(d); !d.Allow || i.repeated {
		return d
	}
	if i.lifetime == 0 || i.lifetime > granted(d) {
		return sameLaw(d, overtaken(d.Revision))
	}
	return d
}

// allowed is what no law can waive: a token proves the caller and their groups, and the law says for how long.
func (i *issuance) allowed(d policy.Decision) policy.Decision {
	c := i.by.Caller
	switch {
	case c.Proof != identity.ProofToken && c.Proof != identity.ProofBoth:
		return sameLaw(d, policy.Deny("BW-INVARIANT-020", "a certificate does not renew itself: no token was shown", "show a token of your identity provider"))
	case c.CertificateGroups:
		return sameLaw(d, policy.Deny("BW-INVARIANT-020", "the groups of a certificate do not renew themselves, and the token shows none",
			"show the token alone, or one with groups"))
	case granted(d) < identity.MinCertificateLifetime:
		return sameLaw(d, policy.Deny(policy.CodeMalformed, "the policy allows a certificate and grants it no hours", "bronzeward policy check DIR"))
	}
	return d
}

// note puts the certificate into the entry.
func (i *issuance) note(e *audit.Entry) {
	if e.Verdict == audit.Allowed && i.lifetime > 0 {
		e.Detail = fmt.Sprintf("%s, not after %s", i.subject, i.issued.NotAfter.Format(time.RFC3339))
	}
}

// granted is the most that the law grants.
func granted(d policy.Decision) time.Duration { return time.Duration(d.CertificateHours) * time.Hour }

// sameLaw is a denial of our own in place of what the law said: the law that was asked is named all the same.
func sameLaw(said, d policy.Decision) policy.Decision {
	d.Revision, d.OPA = said.Revision, said.OPA
	return d
}

// clusters are the names of all clusters that have machines, for whoever may look at machines.
func (a *Acts) clusters(ctx context.Context, by Actor) []string {
	out := []string{}
	snap := a.Store.Snapshot()
	if _, d := a.judged(ctx, by, "machines.read", "", snap); !d.Allow {
		return out
	}
	for _, m := range snap.Machines {
		out = append(out, m.Cluster)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
