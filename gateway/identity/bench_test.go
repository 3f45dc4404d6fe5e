package identity_test

import (
	"context"
	"crypto/x509"
	"testing"

	"bronzeward/gateway/identity"
)

// BenchmarkIdentify measures what a call pays to be known: seen before, and for the first time.
func BenchmarkIdentify(b *testing.B) {
	ca, key := newAuthority(b, "people", nil), newKey(b)
	p := &fakeIDP{}
	p.serve(b, publish(b, key.Public(), map[string]any{"kid": "k"}))
	cfg := tokenConfig(p)
	cfg.PeopleCAs = []*x509.Certificate{ca.cert}
	cfg.ForbiddenCAs = []*x509.Certificate{newAuthority(b, "talos", nil).cert}
	cfg.DenyList = []identity.DenyRule{{Issuer: testIssuer, Subject: "mallory"}, {TokenID: "stolen"}}
	known := start(b, cfg)
	cfg.CacheSize = 1
	forgetful := start(b, cfg)

	tokens := [2][]string{
		basic("ada", signES256(b, key, "k", claimsAt(noon, nil))),
		basic("ada", signES256(b, key, "k", claimsAt(noon, map[string]any{"jti": "t-2"}))),
	}
	certs := [2]*x509.Certificate{ca.person(b, nil), ca.person(b, nil)}
	for _, row := range []struct {
		name    string
		who     *identity.Authenticator
		request func(i int) identity.Request
	}{
		{"token/seen", known, func(int) identity.Request { return identity.Request{Authorization: tokens[0]} }},
		{"token/first", forgetful, func(i int) identity.Request { return identity.Request{Authorization: tokens[i%2]} }},
		{"certificate/seen", known, func(int) identity.Request { return identity.Request{TLS: shown(certs[0])} }},
		{"certificate/first", forgetful, func(i int) identity.Request { return identity.Request{TLS: shown(certs[i%2])} }},
		{"both/seen", known, func(int) identity.Request {
			return identity.Request{TLS: shown(certs[0]), Authorization: tokens[0]}
		}},
	} {
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				if _, err := row.who.Identify(context.Background(), row.request(i)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("token/seen/parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := known.Identify(context.Background(), identity.Request{Authorization: tokens[0]}); err != nil {
					b.Error(err)
				}
			}
		})
	})
}
