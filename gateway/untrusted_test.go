package gateway

import (
	"crypto/x509"
	"slices"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"

	"bronzeward/gateway/identity"
)

// moving are authorities that a test changes.
type moving struct {
	people, forbidden atomic.Pointer[[]*x509.Certificate]
}

func (m *moving) People() []*x509.Certificate    { return listOf(&m.people) }
func (m *moving) Forbidden() []*x509.Certificate { return listOf(&m.forbidden) }

func listOf(p *atomic.Pointer[[]*x509.Certificate]) []*x509.Certificate {
	if list := p.Load(); list != nil {
		return *list
	}
	return nil
}

// A stream ends when the authority of the certificate that opened it is dropped, or is forbidden from now on, and does not go
// on until the certificate has ended. With the authority still there it goes on.
func TestOpenStreamsEndWithTheirAuthority(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		move func(m *moving, ca []*x509.Certificate)
		ends bool
	}{
		{"dropped", func(m *moving, _ []*x509.Certificate) { m.people.Store(&[]*x509.Certificate{}) }, true},
		{"forbidden", func(m *moving, ca []*x509.Certificate) { m.forbidden.Store(&ca) }, true},
		{"control: listed as before", func(m *moving, ca []*x509.Certificate) { again := slices.Clone(ca); m.people.Store(&again) }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			m := &moving{}
			var ca []*x509.Certificate
			h := newHouse(t, func(s *setup) {
				s.following = true
				s.identity = func(c *identity.Config) {
					ca = c.PeopleCAs
					c.PeopleCAs, c.Authorities = nil, m
					m.people.Store(&ca)
				}
			})
			olga := must(h.as(t, "olga").openEvents(bounded(t), "w1"))(t)
			h.streams(t, "w1", 1)
			row.move(m, ca)
			if row.ends {
				refusedWith(t, finishCall(olga), codes.Unauthenticated, "BW-CREDENTIAL-004")
				eventually(t, "the node to see its end", func() bool { return h.running("w1", methodEvents) == 0 })
				return
			}
			h.gw.sessions.endUntrusted()
			if n := h.gw.sessions.count(); n != 1 || h.running("w1", methodEvents) != 1 {
				t.Errorf("%d calls are open", n)
			}
		})
	}
}
