package identity_test

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"bronzeward/gateway/identity"
)

// source is an AuthoritySource whose lists a test sets.
type source struct {
	mu                sync.Mutex // guards both
	people, forbidden []*x509.Certificate
}

func (s *source) set(people, forbidden []*x509.Certificate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.people, s.forbidden = people, forbidden
}

func (s *source) People() []*x509.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.people
}

func (s *source) Forbidden() []*x509.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forbidden
}

func certs(list ...authority) (out []*x509.Certificate) {
	for _, one := range list {
		out = append(out, one.cert)
	}
	return out
}

// shownClass is how a certificate is refused; empty when it is taken.
func shownClass(t testing.TB, a *identity.Authenticator, cert *x509.Certificate) identity.Class {
	t.Helper()
	_, err := a.Identify(context.Background(), identity.Request{TLS: shown(cert)})
	var refusal *identity.Refusal
	if err != nil && !errors.As(err, &refusal) {
		t.Fatal(err)
	}
	if refusal == nil {
		return ""
	}
	return refusal.Class
}

// A rotation, step by step. Every certificate was remembered before the step that is to refuse it; a set that is asked for
// only once would go on taking it.
func TestAuthoritiesChangeWhileRunning(t *testing.T) {
	fixed, old, next, talos := newAuthority(t, "fixed", nil), newAuthority(t, "people", nil), newAuthority(t, "people", nil), newAuthority(t, "talos", nil)
	src := &source{}
	cfg := certificateConfig(fixed)
	cfg.Authorities = src
	a := start(t, cfg)
	ofFixed, ofOld, ofNext, ofTalos := fixed.person(t, nil), old.person(t, nil), next.person(t, nil), talos.person(t, nil)
	const unknown, forbidden = identity.ClassUnknownCertificate, identity.ClassForbiddenCA
	for _, step := range []struct {
		name                   string
		people, forbidden      []*x509.Certificate
		fixed, old, new, talos identity.Class
	}{
		{"nothing yet", nil, nil, "", unknown, unknown, unknown},
		{"the first", certs(old), certs(talos), "", "", unknown, forbidden},
		{"both, during the rotation", certs(next, old), certs(talos), "", "", "", forbidden},
		{"the old one dropped", certs(next), certs(talos), "", unknown, "", forbidden},
		{"the old one forbidden", certs(next), certs(talos, old), "", forbidden, "", forbidden},
		{"the new one forbidden and trusted", certs(next), certs(next), "", unknown, forbidden, unknown},
		{"the configuration's own forbidden", nil, certs(fixed), forbidden, unknown, unknown, unknown},
		{"and not any more", certs(old, next), nil, "", "", "", unknown},
		{"more than two", certs(old, next, talos), nil, "", unknown, unknown, unknown},
		{"something that is none", []*x509.Certificate{nil, ofOld}, []*x509.Certificate{nil}, "", unknown, unknown, unknown},
		{"the source away", nil, nil, "", unknown, unknown, unknown},
	} {
		src.set(step.people, step.forbidden)
		for range 2 { // proven, and from memory
			for who, want := range map[*x509.Certificate]identity.Class{ofFixed: step.fixed, ofOld: step.old, ofNext: step.new, ofTalos: step.talos} {
				if got := shownClass(t, a, who); got != want {
					t.Errorf("%s: a certificate of %s is %q, want %q", step.name, who.Issuer, got, want)
				}
			}
		}
	}
}

// A forbidden authority need not be one by its constraints to take its key's word away.
func TestAForbiddenKeySpeaksForNobodyWhateverItsCertificateSays(t *testing.T) {
	ca := newAuthority(t, "people", nil)
	plain := certify(t, &x509.Certificate{SerialNumber: ca.cert.SerialNumber, Subject: ca.cert.Subject, NotBefore: ca.cert.NotBefore, NotAfter: ca.cert.NotAfter},
		ca.cert, ca.key.Public(), ca.key)
	src := &source{people: certs(ca)}
	cfg := identity.Config{Authorities: src, Now: func() time.Time { return noon }}
	a := start(t, cfg)
	one := ca.person(t, nil)
	if got := shownClass(t, a, one); got != "" {
		t.Fatalf("the control is %q", got)
	}
	src.set(certs(ca), []*x509.Certificate{plain})
	if got := shownClass(t, a, one); got == "" {
		t.Error("a forbidden key still speaks for people")
	}
}

func TestAChangeOfAuthoritiesIsSaidOnce(t *testing.T) {
	ca := newAuthority(t, "people", nil)
	var log strings.Builder
	src := &source{people: certs(ca)}
	cfg := identity.Config{Authorities: src, Now: func() time.Time { return noon }, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	a := start(t, cfg)
	for range 5 {
		shownClass(t, a, ca.person(t, nil))
	}
	src.set(certs(ca), certs(ca))
	for range 5 {
		shownClass(t, a, ca.person(t, nil))
	}
	if said, warned := strings.Count(log.String(), "are others now"), strings.Count(log.String(), "is not trusted"); said != 2 || warned != 1 {
		t.Errorf("said %d and warned %d times:\n%s", said, warned, log.String())
	}
}

func TestAuthoritiesAreSafeForConcurrentUse(t *testing.T) {
	old, next := newAuthority(t, "people", nil), newAuthority(t, "people", nil)
	src := &source{people: certs(old)}
	a := start(t, identity.Config{Authorities: src, Now: func() time.Time { return noon }})
	ofOld := old.person(t, nil)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 200 {
				shownClass(t, a, ofOld)
			}
		})
	}
	group.Go(func() {
		for range 100 {
			src.set(certs(next), nil)
			src.set(certs(old), nil)
		}
		src.set(certs(next), nil)
	})
	group.Wait()
	if got := shownClass(t, a, ofOld); got != identity.ClassUnknownCertificate {
		t.Errorf("dropped at last, and %q", got)
	}
}
