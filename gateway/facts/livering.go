package facts

import (
	"crypto/hmac"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// LiveKey is one key of a LiveRing. Printing it shows no key.
type LiveKey struct {
	// Version is "k1", "k2" and so on.
	Version string
	// Secret has at least 32 random bytes.
	Secret []byte `json:"-"`
	// UsableFrom is when new digests are made with it: late enough that every replica knows the key by then, so
	// that none meets a digest it cannot compare. The zero time is always past.
	UsableFrom time.Time
}

// String shows the version and the time, and no key.
func (k LiveKey) String() string {
	return fmt.Sprintf("digest key %s, used from %s", escape(k.Version), k.UsableFrom.UTC().Format(time.RFC3339))
}

// GoString shows what String shows.
func (k LiveKey) GoString() string { return k.String() }

// KeyTime is a key version and when it is used from.
type KeyTime struct {
	Version    string
	UsableFrom time.Time
}

// LiveRing is hmac-sha256 with keys that are added while the process runs. It compares with every key from the moment it has it,
// and makes new digests and fingerprints with the newest one whose time has come. It implements Digester, is safe for
// concurrent use, and printing it shows no key.
//
// Two digests that are made one after the other may be of two versions. Who compares texts compares texts, or digests by Same and
// Under; who needs several of one version asks Ring once.
type LiveRing struct {
	now   func() time.Time
	state atomic.Pointer[liveState]
}

// liveState is one set of keys. It is not changed any more.
type liveState struct {
	times []KeyTime           // by version, oldest first
	rings map[string]*KeyRing // by version: the same keys, with that one current
}

// NewLiveRing makes a ring of at least one key. now is the clock that keys' times are held against, the same on every replica: the
// database's.
func NewLiveRing(now func() time.Time, keys []LiveKey) (*LiveRing, error) {
	if now == nil {
		return nil, errors.New("making a live key ring: it has no clock")
	}
	l := &LiveRing{now: now}
	if err := l.Replace(keys); err != nil {
		return nil, err
	}
	return l, nil
}

// Replace makes these the keys. On an error the ring stays what it was. A key that is gone, or is another one under a version that
// was there, is an error: whoever holds the keys has an older or another set, and digests that are stored would no longer compare.
// Only a restart takes keys away. A time may change.
func (l *LiveRing) Replace(keys []LiveKey) error {
	next, err := newLiveState(keys)
	if err != nil {
		return fmt.Errorf("taking digest keys: %w", err)
	}
	for {
		last := l.state.Load()
		if err := next.continues(last); err != nil {
			return fmt.Errorf("taking digest keys: %w", err)
		}
		if l.state.CompareAndSwap(last, next) {
			return nil
		}
	}
}

func newLiveState(keys []LiveKey) (*liveState, error) {
	if len(keys) == 0 {
		return nil, errors.New("there is none")
	}
	secrets := make(map[string][]byte, len(keys))
	s := &liveState{rings: make(map[string]*KeyRing, len(keys))}
	for _, k := range keys {
		if _, twice := secrets[k.Version]; twice {
			return nil, fmt.Errorf("key %s is there twice", escape(k.Version))
		}
		secrets[k.Version] = k.Secret
		s.times = append(s.times, KeyTime{Version: k.Version, UsableFrom: k.UsableFrom})
	}
	first, err := NewKeyRing(keys[0].Version, secrets)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		s.rings[k.Version] = &KeyRing{current: k.Version, keys: first.keys}
	}
	slices.SortFunc(s.times, func(a, b KeyTime) int { return versionNumber(a.Version) - versionNumber(b.Version) })
	return s, nil
}

// versionNumber is 12 for k12; the version is valid.
func versionNumber(version string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(version, "k"))
	return n
}

// continues says whether the set has every key of the one before.
func (s *liveState) continues(last *liveState) error {
	if last == nil {
		return nil
	}
	for _, t := range last.times {
		now, ok := s.rings[t.Version]
		if !ok {
			return fmt.Errorf("key %s is gone; the keys held stay", t.Version)
		}
		if !hmac.Equal(now.keys[t.Version].digest, last.rings[t.Version].keys[t.Version].digest) {
			return fmt.Errorf("key %s is another one than before; the keys held stay", t.Version)
		}
	}
	return nil
}

// current is the newest version whose time has come. When none has, as for the very first key of a house, it is the one whose time
// comes first: there is no older one that a replica could know instead.
func (s *liveState) current(now time.Time) *KeyRing {
	first := s.times[0]
	for _, t := range slices.Backward(s.times) {
		if !t.UsableFrom.After(now) {
			return s.rings[t.Version]
		}
		if !t.UsableFrom.After(first.UsableFrom) {
			first = t
		}
	}
	return s.rings[first.Version]
}

// Ring is the ring as it is now: for who needs several digests or fingerprints of one key.
func (l *LiveRing) Ring() *KeyRing { return l.state.Load().current(l.now()) }

// Keys are the versions and their times, oldest first.
func (l *LiveRing) Keys() []KeyTime { return slices.Clone(l.state.Load().times) }

// Versions are the key versions of the ring, oldest first.
func (l *LiveRing) Versions() []string {
	var out []string
	for _, t := range l.state.Load().times {
		out = append(out, t.Version)
	}
	return out
}

// Digest implements Digester, under the key that is current now.
func (l *LiveRing) Digest(text []byte) string { return l.Ring().Digest(text) }

// Fingerprint implements Digester, under the key that is current now.
func (l *LiveRing) Fingerprint(value []byte) string { return l.Ring().Fingerprint(value) }

// Same implements Digester, under whichever key the digest names.
func (l *LiveRing) Same(text []byte, digest string) (bool, error) { return l.Ring().Same(text, digest) }

// Under implements Digester.
func (l *LiveRing) Under(text []byte, digest string) (string, error) {
	return l.Ring().Under(text, digest)
}

// DigestUnder is the digest under a named key version.
func (l *LiveRing) DigestUnder(version string, text []byte) (string, error) {
	return l.Ring().DigestUnder(version, text)
}

// String shows the versions and no key.
func (l *LiveRing) String() string { return "live " + l.Ring().String() }

// GoString shows what String shows.
func (l *LiveRing) GoString() string { return l.String() }

func (l *LiveRing) pinned() Digester { return l.Ring() }

// pin is the Digester as it is now: what is made for one call is made with one key.
func pin(d Digester) Digester {
	if live, ok := d.(interface{ pinned() Digester }); ok {
		return live.pinned()
	}
	return d
}
