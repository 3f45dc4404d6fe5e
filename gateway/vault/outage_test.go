package vault

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bronzeward/fixtures/openbao/baotest"
)

// What whoever seals or opens is told while OpenBao is away, and that the same call succeeds
// when it is back, with the same client.
func TestOutagesAreNamed(t *testing.T) {
	t.Parallel()
	h := newHouse(t, baotest.Own(t))
	cfg := h.config(t, *h.setup.AppRole)
	cfg.Timeout = 2 * time.Second
	var kinds []Kind
	cfg.Observe = func(kind Kind, _ time.Duration) { kinds = append(kinds, kind) }
	c, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	s := NewSealer(c)
	text := []byte("machine: {token: canary}")
	sealed := sealWith(t, s, text)
	for _, test := range []struct {
		name         string
		begin, after func() error
		kind         Kind
		words        string
	}{
		{"sealed", func() error { return h.Seal(t.Context()) }, func() error { return h.Unseal(t.Context()) }, KindSealed, "OpenBao is sealed"},
		{"stopped", h.Stop, func() error { return h.Restart(t.Context()) }, KindUnreachable, "cannot be reached"},
		{"paused", h.Pause, h.Resume, KindSlow, "did not answer within 2s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := test.begin(); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, opening := s.Open(t.Context(), sealed, change)
			_, sealing := s.Seal(t.Context(), text, change)
			took := time.Since(began)
			_, login := Open(t.Context(), cfg)
			if err := test.after(); err != nil {
				t.Fatal(err)
			}
			for _, err := range []error{opening, sealing, login} {
				wantError(t, err, ErrUnavailable, test.kind, "", test.words)
				nothingOf(t, []string{string(text), h.RootToken()}, err)
			}
			// Both within their timeouts: a retry does not begin another one. The margin is the test's.
			if took > 3*cfg.Timeout {
				t.Errorf("two questions took %s", took)
			}
			if last := kinds[len(kinds)-1]; last != test.kind {
				t.Errorf("%q was observed", last)
			}
			opens(t, s, sealed, text)
			opens(t, s, sealWith(t, s, text), text)
		})
	}
}

// An OpenBao that was restored from before a rotation does not have the version; it says so and
// nobody is accused.
func TestAnOpenBaoOfThePastIsNamed(t *testing.T) {
	t.Parallel()
	h := newHouse(t, baotest.Own(t))
	c := h.gateway(t)
	s := NewSealer(c)
	old := sealWith(t, s, []byte("before"))
	data, past := filepath.Join(h.Dir(), "data"), filepath.Join(t.TempDir(), "past")
	if err := h.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(past, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	if err := h.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.rotate(t, SealKey)
	recent := sealWith(t, s, []byte("after"))
	if !bytes.Contains(recent, []byte("vault:v2:")) {
		t.Fatal("it was not rotated")
	}
	opens(t, s, recent, []byte("after"))
	if err := h.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(data, os.DirFS(past)); err != nil {
		t.Fatal(err)
	}
	if err := h.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := s.Open(t.Context(), recent, change)
	wantError(t, err, ErrRefused, KindKeyUnknown, SealKey+" v2", "up to v1 only: it was restored from an older state")
	opens(t, s, old, []byte("before"))
}
