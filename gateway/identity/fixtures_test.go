package identity_test

import (
	"crypto/x509"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bronzeward/fixtures/gatewaypki"
	"bronzeward/fixtures/idp"
	"bronzeward/gateway/identity"
)

// The world in a box writes tokens and certificates with code of its own. That both sides agree is held here, so that
// neither is its own oracle.
func TestWorldsTokensAndCertificates(t *testing.T) {
	provider, err := idp.Start(idp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Close()
	ca, err := gatewaypki.New(gatewaypki.Config{Name: "people"})
	if err != nil {
		t.Fatal(err)
	}
	a := start(t, identity.Config{
		PeopleCAs: []*x509.Certificate{ca.Cert()},
		Issuers: []identity.IssuerConfig{{
			Issuer: provider.Issuer(), Audience: []string{provider.Audience()}, CACert: []*x509.Certificate{provider.CACert()},
		}},
	})
	certificate := func(t *testing.T, person gatewaypki.Person, defect gatewaypki.Defect) identity.Request {
		t.Helper()
		pair, err := ca.PersonWith(person, defect)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := pair.Leaf()
		if err != nil {
			t.Fatal(err)
		}
		return identity.Request{TLS: shown(leaf)}
	}

	for _, person := range idp.People() {
		t.Run(person.Subject, func(t *testing.T) {
			for name, options := range map[string][]idp.Option{"ID token": nil, "access token": {idp.Access()}} {
				token, err := provider.Token(person.Subject, options...)
				if err != nil {
					t.Fatal(err)
				}
				request := certificate(t, gatewaypki.Person{
					Issuer: provider.Issuer(), Subject: person.Subject, Kind: person.Kind, Groups: person.Groups,
				}, "")
				request.Authorization = basic(person.Subject, token)
				caller, err := a.Identify(t.Context(), request)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				groups := slices.Sorted(slices.Values(person.Groups))
				if diff := cmp.Diff(groups, caller.Groups); len(groups) > 0 && diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
				if caller.Subject != person.Subject || string(caller.Kind) != person.Kind || caller.Proof != identity.ProofBoth {
					t.Errorf("%s: %+v is not %+v", name, caller, person)
				}
			}
		})
	}

	tokenClasses := map[idp.Defect]identity.Class{
		idp.Expired: identity.ClassExpired, idp.NotYetValid: identity.ClassNotYetValid, idp.IssuedAhead: identity.ClassNotYetValid,
		idp.TooLong: identity.ClassLifetime, idp.WrongIssuer: identity.ClassUnknownIssuer, idp.IssuerSlash: identity.ClassUnknownIssuer,
		idp.WrongAudience: identity.ClassWrongAudience, idp.NoAudience: identity.ClassWrongAudience, idp.UnknownKid: identity.ClassUnknownKey,
		idp.OtherKey: identity.ClassBadSignature, idp.BadSignature: identity.ClassBadSignature, idp.NoSignature: identity.ClassBadSignature,
		idp.OtherPayload: identity.ClassBadSignature, idp.AlgNone: identity.ClassAlgorithm, idp.HMACPublicKey: identity.ClassAlgorithm,
		idp.OtherAlgorithm: identity.ClassAlgorithm,
	}
	for _, defect := range idp.Defects() {
		t.Run("token "+string(defect), func(t *testing.T) {
			token, err := provider.Token(idp.People()[0].Subject, idp.With(defect))
			if err != nil {
				t.Fatal(err)
			}
			want, ok := tokenClasses[defect]
			if !ok {
				want = identity.ClassMalformed
			}
			_, err = a.Identify(t.Context(), bearer(token))
			wantClass(t, err, want)
			wantNoBytesOf(t, err, token)
		})
	}

	certificateClasses := map[gatewaypki.Defect]identity.Class{
		gatewaypki.Expired: identity.ClassExpired, gatewaypki.NotYetValid: identity.ClassNotYetValid,
		gatewaypki.WrongCA: identity.ClassUnknownCertificate, gatewaypki.SelfSigned: identity.ClassUnknownCertificate,
	}
	for _, defect := range gatewaypki.Defects() {
		t.Run("certificate "+string(defect), func(t *testing.T) {
			want, ok := certificateClasses[defect]
			if !ok {
				want = identity.ClassMalformedCertificate
			}
			_, err := a.Identify(t.Context(), certificate(t, gatewaypki.Person{
				Issuer: provider.Issuer(), Subject: "ada", Groups: []string{"a"},
			}, defect))
			wantClass(t, err, want)
		})
	}
}
