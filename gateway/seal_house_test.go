package gateway

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bronzeward/gateway/control"
	"bronzeward/gateway/facts"
	"bronzeward/gateway/vault"
)

// spoilt is a sealer whose keys can be away, and that counts what it is asked.
type spoilt struct {
	Sealer
	mu    sync.Mutex // guards err
	err   error
	opens atomic.Int32
	// entered, when set, is told of each Seal and Open, which then wait for their context's end.
	entered chan struct{}
}

var errAway = &vault.Error{Doing: "sealing", Class: vault.ErrUnavailable, Kind: vault.KindSealed, Reason: "OpenBao is sealed"}

func (s *spoilt) breakWith(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *spoilt) broken(ctx context.Context) error {
	if s.entered != nil {
		s.entered <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *spoilt) Seal(ctx context.Context, plaintext, associated []byte) ([]byte, error) {
	if err := s.broken(ctx); err != nil {
		return nil, err
	}
	return s.Sealer.Seal(ctx, plaintext, associated)
}

func (s *spoilt) Open(ctx context.Context, sealed, associated []byte) ([]byte, error) {
	s.opens.Add(1)
	if err := s.broken(ctx); err != nil {
		return nil, err
	}
	return s.Sealer.Open(ctx, sealed, associated)
}

// trusting is a sealer that seals nothing and checks nothing.
type trusting struct{}

func (trusting) Seal(_ context.Context, plaintext, _ []byte) ([]byte, error) { return plaintext, nil }

func (trusting) Open(_ context.Context, sealed, _ []byte) ([]byte, error) {
	if len(sealed) == 0 {
		return nil, errors.New("nothing is sealed")
	}
	return sealed, nil
}

// sealedWith makes a house whose changes are sealed by s.
func sealedWith(t testing.TB, s Sealer) *house {
	t.Helper()
	return approving(t, oneApproval, func(set *setup) { set.gateway = func(c *Config) { c.Sealer = s } })
}

// restart stops the gateway and starts another one on the same database and machines.
func (h *house) restart(t testing.TB, change func(*Config)) {
	t.Helper()
	h.gw.Stop(time.Second)
	h.gateway = change
	h.start(t)
}

// ring is a key ring whose keys are made of their names.
func ring(t testing.TB, current string, versions ...string) *facts.KeyRing {
	t.Helper()
	keys := map[string][]byte{}
	for _, v := range versions {
		keys[v] = []byte(strings.Repeat(v[1:], 32))
		if v == "k1" {
			keys[v] = []byte(strings.Repeat("k", 32)) // the one every house begins with
		}
	}
	return must(facts.NewKeyRing(current, keys))(t)
}

// forge writes into the database what its owner can write: one change's bytes, digest and size
// into another, its approvals along with it.
func (h *house) forge(t testing.TB, from, into control.ChangeID) {
	t.Helper()
	for _, statement := range []string{
		"update control.sealed_bytes set sealed = (select sealed from control.sealed_bytes where change_id::text = $1) where change_id::text = $2",
		"update control.changes set (digest, size) = (select digest, size from control.changes where id::text = $1) where id::text = $2",
		"update control.approvals set digest = (select digest from control.changes where id::text = $1) where change_id::text = $2",
	} {
		ok(t, h.db.Exec(context.Background(), statement, uuidOf(from), uuidOf(into)))
	}
}
