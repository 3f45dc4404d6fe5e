package facts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bronzeward/fixtures/oracle"
)

// clock is a clock that a test sets. Safe for concurrent use.
type clock struct {
	mu sync.Mutex // guards at
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

var nine = time.Date(2031, 5, 6, 9, 0, 0, 0, time.UTC)

// liveKey is key kN, of bytes of N, used from some minutes after nine.
func liveKey(n byte, minutes int) LiveKey {
	return LiveKey{Version: fmt.Sprintf("k%d", n), Secret: key(n), UsableFrom: nine.Add(time.Duration(minutes) * time.Minute)}
}

func liveRing(t testing.TB, at *clock, keys ...LiveKey) *LiveRing {
	t.Helper()
	ring, err := NewLiveRing(at.now, keys)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func TestANewKeyIsUsedWhenItsTimeHasComeAndKnownBefore(t *testing.T) {
	at := &clock{at: nine}
	one, two := liveRing(t, at, liveKey(1, 0)), liveRing(t, at, liveKey(1, 0))
	text := []byte("version: v1alpha1\n")
	before := one.Digest(text)
	if !strings.HasPrefix(before, "hmac-sha256:k1:") || before != two.Digest(text) {
		t.Fatalf("digest %s and %s", before, two.Digest(text))
	}
	// The first replica hears of k2 at once, the second later, and k2 is used from five past.
	if err := one.Replace([]LiveKey{liveKey(2, 5), liveKey(1, 0)}); err != nil {
		t.Fatal(err)
	}
	if got := one.Digest(text); got != before {
		t.Errorf("k2 is used before its time: %s", got)
	}
	if err := two.Replace([]LiveKey{liveKey(1, 0), liveKey(2, 5)}); err != nil {
		t.Fatal(err)
	}
	at.set(nine.Add(5*time.Minute - 1))
	if got := one.Digest(text); got != before {
		t.Errorf("k2 is used before its time: %s", got)
	}
	at.set(nine.Add(5 * time.Minute))
	after := one.Digest(text)
	if !strings.HasPrefix(after, "hmac-sha256:k2:") {
		t.Fatalf("k2 is not used at its time: %s", after)
	}
	for name, ring := range map[string]*LiveRing{"first": one, "second": two} {
		for _, digest := range []string{before, after} {
			same, err := ring.Same(text, digest)
			under, underErr := ring.Under(text, digest)
			if err != nil || underErr != nil || !same || under != digest {
				t.Errorf("the %s replica on %s: %t, %s, %v, %v", name, digest, same, under, err, underErr)
			}
		}
	}
	// The control: a replica that never heard of k2 says that it cannot compare.
	var scheme *SchemeError
	if same, err := liveRing(t, at, liveKey(1, 0)).Same(text, after); same || !errors.As(err, &scheme) {
		t.Errorf("without the key: %t, %v", same, err)
	}
	want := []KeyTime{{"k1", nine}, {"k2", nine.Add(5 * time.Minute)}}
	if diff := cmp.Diff(want, one.Keys()); diff != "" || !slices.Equal(one.Versions(), []string{"k1", "k2"}) {
		t.Error(diff, one.Versions())
	}
}

func TestWhichKeyIsCurrent(t *testing.T) {
	for _, row := range []struct {
		name string
		at   int
		keys []LiveKey
		want string
	}{
		{"the only one", 0, []LiveKey{liveKey(1, 0)}, "k1"},
		{"the only one, before its time", -1, []LiveKey{liveKey(1, 0)}, "k1"},
		{"the newest by number and not by text", 9, []LiveKey{liveKey(9, 0), liveKey(10, 1)}, "k10"},
		{"the newest, though another's time came later", 9, []LiveKey{liveKey(1, 5), liveKey(2, 1)}, "k2"},
		{"none yet: the first to come", 0, []LiveKey{liveKey(1, 9), liveKey(2, 5), liveKey(3, 7)}, "k2"},
		{"none yet, two at once: the older", 0, []LiveKey{liveKey(1, 5), liveKey(2, 5)}, "k1"},
		{"without a time", 0, []LiveKey{{Version: "k1", Secret: key(1)}}, "k1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			ring := liveRing(t, &clock{at: nine.Add(time.Duration(row.at) * time.Minute)}, row.keys...)
			if got := ring.Ring().current; got != row.want {
				t.Errorf("%s is current, want %s", got, row.want)
			}
		})
	}
}

func TestARingOnlyGrows(t *testing.T) {
	at := &clock{at: nine.Add(time.Hour)}
	for _, row := range []struct {
		name string
		keys []LiveKey
		want string // empty is good
	}{
		{"the same again", []LiveKey{liveKey(1, 0), liveKey(2, 5)}, ""},
		{"one more", []LiveKey{liveKey(1, 0), liveKey(2, 5), liveKey(3, 9)}, ""},
		{"another time", []LiveKey{liveKey(1, 0), liveKey(2, 6)}, ""},
		{"none", nil, "there is none"},
		{"one gone", []LiveKey{liveKey(2, 5)}, "k1 is gone"},
		{"another one under its name", []LiveKey{{Version: "k1", Secret: key(7)}, liveKey(2, 5)}, "k1 is another one"},
		{"twice", []LiveKey{liveKey(1, 0), liveKey(2, 5), liveKey(2, 5)}, "\"k2\" is there twice"},
		{"too short", []LiveKey{liveKey(1, 0), liveKey(2, 5), {Version: "k3", Secret: key(3)[:31]}}, "k3 is shorter"},
		{"no version", []LiveKey{liveKey(1, 0), liveKey(2, 5), {Version: "three", Secret: key(3)}}, "\"three\" is not k1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			ring := liveRing(t, at, liveKey(1, 0), liveKey(2, 5))
			before, keys := ring.Digest([]byte("x")), ring.Keys()
			err := ring.Replace(row.keys)
			if row.want == "" {
				if err != nil || len(ring.Keys()) != len(row.keys) {
					t.Errorf("got %v, %v", err, ring.Keys())
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Fatalf("got %v, want %q", err, row.want)
			}
			if ring.Digest([]byte("x")) != before || !slices.Equal(ring.Keys(), keys) {
				t.Error("the ring is another one after a set it refused")
			}
		})
	}
	if _, err := NewLiveRing(nil, []LiveKey{liveKey(1, 0)}); err == nil {
		t.Error("a ring without a clock was made")
	}
	if ring, err := NewLiveRing(at.now, nil); err == nil {
		t.Errorf("a ring without keys was made: %v", ring)
	}
}

func TestALiveRingShowsNoKey(t *testing.T) {
	at := &clock{at: nine}
	k := LiveKey{Version: "k1", Secret: []byte("a-secret-of-thirty-two-bytes-long")}
	ring := liveRing(t, at, k)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "ring", ring, "key", k, "plain", NewPlainUnder(ring))
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "ring", ring, "key", k, "plain", NewPlainUnder(ring))
	encoded, _ := json.Marshal([]any{ring, k})
	all := fmt.Sprintf("%v %+v %#v %s", ring, ring, ring, ring) + fmt.Sprintf("%v %+v %#v", k, k, k) + fmt.Sprintf("%v %#v", must(NewPlain(k.Secret)), must(NewPlain(k.Secret))) +
		log.String() + string(encoded)
	for _, form := range []string{"a-secret", "YS1zZWNyZXQ", "612d736563726574", "97 45 115", "0x61, 0x2d"} {
		if strings.Contains(all, form) {
			t.Errorf("%q shows in %s", form, all)
		}
	}
}

// Fingerprints of the plain scheme are the ring's, so that two replicas agree, and follow it.
func TestThePlainSchemeTakesTheFingerprintsOfARing(t *testing.T) {
	at := &clock{at: nine}
	ring := liveRing(t, at, liveKey(1, 0), liveKey(2, 5))
	one, two := NewPlainUnder(ring), NewPlainUnder(liveRing(t, at, liveKey(1, 0), liveKey(2, 5)))
	value := []byte("hunter2")
	first := one.Fingerprint(value)
	if first != two.Fingerprint(value) || first != ring.Fingerprint(value) || first != must(NewPlain(key(1))).Fingerprint(value) {
		t.Error("fingerprints of one key differ")
	}
	at.set(nine.Add(time.Hour))
	if second := one.Fingerprint(value); second == first || second != ring.Fingerprint(value) {
		t.Error("the fingerprints did not follow the ring")
	}
	if got := one.Digest(value); got != must(NewPlain(nil)).Digest(value) {
		t.Errorf("the digest is %s", got)
	}
}

// flipping is a clock at which another key is current each time it is asked.
type flipping struct {
	mu    sync.Mutex
	asked int
}

func (f *flipping) now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return nine.Add(time.Duration(f.asked%2) * time.Hour)
}

// What is read of one configuration is of one key, whenever another key's time comes: an unchanged secret would look changed, and
// an unchanged configuration like another one. The control is the same ring asked twice.
func TestOneReadingIsOfOneKey(t *testing.T) {
	clock := &flipping{}
	ring, err := NewLiveRing(clock.now, []LiveKey{liveKey(1, 0), liveKey(2, 30)})
	if err != nil {
		t.Fatal(err)
	}
	if first := ring.Digest(nil); first == ring.Digest(nil) {
		t.Fatal("the key does not move, so this test shows nothing")
	}
	text := oracle.Base()
	for name, d := range map[string]Digester{"hmac": ring, "plain": NewPlainUnder(ring)} {
		for range 2 {
			got := ReadConfig(context.Background(), append([]byte("# the same\n"), text...), text, text, d)
			if len(got.Problems) > 0 || got.Base != got.Persistent {
				t.Fatalf("%s: %v, base %s, persistent %s", name, got.Problems, got.Base, got.Persistent)
			}
			if len(got.Changes) > 0 {
				t.Errorf("%s: %d changes in a configuration that is the same: %+v", name, len(got.Changes), got.Changes[0])
			}
		}
		shown, err := RedactConfig([]byte("machine:\n    token: same-secret-1\n    ca: {crt: \"\", key: \"\"}\ncluster:\n    token: same-secret-1\nversion: v1alpha1\n"), d)
		if err != nil {
			t.Fatal(err)
		}
		if prints := fingerprintsIn(shown); len(prints) != 1 {
			t.Errorf("%s: one secret has %d fingerprints in\n%s", name, len(prints), shown)
		}
	}
}

func fingerprintsIn(text string) map[string]bool {
	out := map[string]bool{}
	for _, word := range strings.Fields(text) {
		if strings.HasPrefix(word, "fp:") {
			out[word] = true
		}
	}
	return out
}

func TestALiveRingIsSafeForConcurrentUse(t *testing.T) {
	at := &clock{at: nine}
	ring := liveRing(t, at, liveKey(1, 0))
	text := []byte("x")
	stored := ring.Digest(text)
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for range 300 {
				if same, err := ring.Same(text, stored); !same || err != nil {
					t.Errorf("%t, %v", same, err)
				}
				if same, err := ring.Same(text, ring.Digest(text)); !same || err != nil {
					t.Errorf("its own: %t, %v", same, err)
				}
			}
		})
	}
	group.Go(func() {
		keys := []LiveKey{liveKey(1, 0)}
		for n := byte(2); n < 20; n++ {
			keys = append(keys, liveKey(n, int(n)))
			if err := ring.Replace(keys); err != nil {
				t.Error(err)
			}
			at.set(nine.Add(time.Duration(n) * time.Minute))
		}
	})
	group.Wait()
}
