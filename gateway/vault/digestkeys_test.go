package vault

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"bronzeward/fixtures/openbao/baotest"

	"github.com/google/go-cmp/cmp"
)

func load(t testing.TB, d *DigestKeys, known []DigestSecret) []DigestSecret {
	t.Helper()
	all, err := d.Load(t.Context(), known)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func names(keys []DigestSecret) (out []string) {
	for _, k := range keys {
		out = append(out, k.Version)
	}
	return out
}

// together calls f n times at once and gives the errors.
func together(n int, f func(int) error) []error {
	errs := make([]error, n)
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	all.Wait()
	return errs
}

// forget removes a path of KV with all its versions.
func (h *house) forget(t testing.TB, path string) {
	t.Helper()
	h.root(t, "DELETE", h.kv+"/metadata/"+path, nil)
}

func TestDigestKeysAreMadeOnce(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	h.forget(t, PathDigestKeys)
	made := make([]bool, 8)
	for _, err := range together(len(made), func(i int) (err error) {
		made[i], err = NewDigestKeys(h.operator, nil).Ensure(t.Context())
		return err
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	n := 0
	for _, one := range made {
		if one {
			n++
		}
	}
	keys := load(t, NewDigestKeys(h.gateway(t), nil), nil)
	if n != 1 || len(keys) != 1 || keys[0].Version != "k1" || len(keys[0].Secret) != digestSecretSize {
		t.Fatalf("%d of 8 made %v", n, keys)
	}
	if keys[0].UsableFrom.After(time.Now()) {
		t.Error("the first one is not used from the start")
	}
	nothingOf(t, []string{string(keys[0].Secret)}, keys, keys[0])
}

// Two replicas that add at once: one of them does, the other is told, and no key is lost.
// An OpenBao that is set up anew beside an older book begins above the keys that the book names.
func TestDigestKeysBeginWhereTheyAreTold(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	h.forget(t, PathDigestKeys)
	h.setup.FirstDigestKey = 7
	h.run(t)
	d := NewDigestKeys(h.gateway(t), nil)
	if version, _, err := d.Add(t.Context()); err != nil || version != "k8" {
		t.Fatalf("the second is %s, %v", version, err)
	}
	all, err := d.Load(t.Context(), nil)
	if err != nil || len(all) != 2 || all[0].Version != "k7" || all[1].Version != "k8" {
		t.Errorf("got %v, %v", all, err)
	}
	// What is there stays: the number is of the first one alone.
	h.setup.FirstDigestKey = 1
	h.run(t)
	if all, err = d.Load(t.Context(), nil); err != nil || len(all) != 2 {
		t.Errorf("got %v, %v", all, err)
	}
}

func TestAddedDigestKeysAreNeverLost(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	clock := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	replicas := []*DigestKeys{
		NewDigestKeys(h.gateway(t), func() time.Time { return clock }),
		NewDigestKeys(h.gateway(t), func() time.Time { return clock }),
	}
	want := []string{"k1"}
	for range 5 {
		before := load(t, replicas[0], nil)
		added := make([]string, 2)
		for i, err := range together(2, func(i int) (err error) {
			var from time.Time
			added[i], from, err = replicas[i].Add(t.Context())
			if err == nil && !from.Equal(clock.Add(spreadWithin).Truncate(time.Second)) {
				return fmt.Errorf("used from %s", from)
			}
			return err
		}) {
			switch {
			case err == nil:
				want = append(want, added[i])
			default:
				wantError(t, err, ErrRefused, KindMoved, "", "somebody else")
			}
		}
		after := load(t, replicas[1], nil)
		if diff := cmp.Diff(want, names(after)); diff != "" {
			t.Fatalf("what was said to be added, and what is there: %s", diff)
		}
		for i, k := range before {
			if !bytes.Equal(k.Secret, after[i].Secret) || !k.UsableFrom.Equal(after[i].UsableFrom) {
				t.Fatalf("%s is another one now", k)
			}
		}
	}
	if len(want) < 6 { // each round adds one at least
		t.Errorf("only %v were added", want)
	}
}

func TestOnlyUnknownDigestKeysAreUnwrapped(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	d := NewDigestKeys(h.gateway(t), nil)
	known := load(t, d, nil)
	if _, _, err := d.Add(t.Context()); err != nil {
		t.Fatal(err)
	}
	decrypt := h.transit + "/decrypt/"
	for _, test := range []struct {
		name  string
		known []DigestSecret
		asked int
	}{{"none is known", nil, 2}, {"one is known", known, 1}, {"all are known", load(t, d, known), 0}} {
		before := h.asked(t, decrypt)
		if got := load(t, d, test.known); len(got) != 2 {
			t.Fatalf("%s: %v", test.name, got)
		}
		if n := h.asked(t, decrypt) - before; n != test.asked {
			t.Errorf("%s: Transit was asked %d times, want %d", test.name, n, test.asked)
		}
	}
}

// A key that is another one by now under the same name is not taken for the one that is known: whoever holds the known one
// would go on with it, and whoever starts now would compare with the other.
func TestAReplacedDigestKeyIsNotTakenForTheKnownOne(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	d := NewDigestKeys(h.gateway(t), nil)
	known := load(t, d, nil)
	h.forget(t, PathDigestKeys)
	if made, err := NewDigestKeys(h.operator, nil).Ensure(t.Context()); err != nil || !made {
		t.Fatal(made, err)
	}
	fresh := load(t, d, nil)
	if got := load(t, d, known); len(got) != 1 || bytes.Equal(got[0].Secret, known[0].Secret) || !bytes.Equal(got[0].Secret, fresh[0].Secret) {
		t.Errorf("with k1 known, %v is still the one before", got)
	}
	// Wrapped anew by a rotated key, it is the same one, and no trouble.
	h.rotate(t, DigestKey)
	answer := h.root(t, "POST", h.transit+"/encrypt/"+DigestKey, map[string]any{"plaintext": base64.StdEncoding.EncodeToString(fresh[0].Secret)})
	wrapped := answer["data"].(map[string]any)["ciphertext"].(string)
	h.root(t, "POST", h.kv+"/data/"+PathDigestKeys, map[string]any{"data": map[string]any{"keys": map[string]any{
		"k1": map[string]any{"wrapped": wrapped, "key_made": h.key(t, DigestKey).made[2], "usable_from": fresh[0].UsableFrom},
	}}})
	if got := load(t, d, fresh); !bytes.Equal(got[0].Secret, fresh[0].Secret) {
		t.Error("a key that was wrapped anew is another one")
	}
}

// What may happen to the keys, and what is said of it. None of it makes new ones.
func TestDigestKeysThatCannotBeHadAreNamed(t *testing.T) {
	put := func(keys map[string]any) func(*testing.T, *house) {
		return func(t *testing.T, h *house) {
			h.root(t, "POST", h.kv+"/data/"+PathDigestKeys, map[string]any{"data": map[string]any{"keys": keys}})
		}
	}
	good := map[string]any{"wrapped": "vault:v1:AAAA", "key_made": 1, "usable_from": "2030-01-02T03:04:05Z"}
	many := map[string]any{}
	for i := range mostDigestKeys + 1 {
		many[fmt.Sprintf("k%d", i+1)] = good
	}
	for name, test := range map[string]struct {
		after  func(*testing.T, *house)
		class  error
		kind   Kind
		key    string
		words  string
		ensure Kind // what Ensure says; empty: nothing, and makes nothing
	}{
		"never made":         {func(t *testing.T, h *house) { h.forget(t, PathDigestKeys); h.drop(t, DigestKey) }, ErrRefused, KindMissing, "", "run bronzeward openbao setup", KindKeyMissing},
		"soft-deleted":       {func(t *testing.T, h *house) { h.root(t, "DELETE", h.kv+"/data/"+PathDigestKeys, nil) }, ErrRefused, KindMissing, "", "bring them back", KindMissing},
		"an empty list":      {put(map[string]any{}), ErrRefused, KindMalformed, "", "0 digest keys", ""},
		"too many":           {put(many), ErrRefused, KindMalformed, "", "101 digest keys", ""},
		"another name":       {put(map[string]any{"k01": good}), ErrRefused, KindMalformed, "", "not named k1", ""},
		"not wrapped":        {put(map[string]any{"k1": map[string]any{"wrapped": "canary", "key_made": 1, "usable_from": "2030-01-02T03:04:05Z"}}), ErrRefused, KindMalformed, "", "k1 is not wrapped", ""},
		"without a time":     {put(map[string]any{"k1": map[string]any{"wrapped": "vault:v1:AAAA", "key_made": 1}}), ErrRefused, KindMalformed, "", "lacks a time", ""},
		"another shape":      {put(map[string]any{"k1": "canary"}), ErrRefused, KindMalformed, "", "another shape", KindMalformed},
		"its key is gone":    {func(t *testing.T, h *house) { h.drop(t, DigestKey) }, ErrRefused, KindKeyMissing, DigestKey, "no such key", ""},
		"its key is another": {func(t *testing.T, h *house) { h.recreate(t, DigestKey, "aes256-gcm96") }, ErrRefused, KindKeyRecreated, DigestKey + " v1", "recreated", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, baotest.Server(t))
			d := NewDigestKeys(h.gateway(t), nil)
			test.after(t, h)
			all, err := d.Load(t.Context(), nil)
			if all != nil {
				t.Fatalf("got %v", all)
			}
			wantError(t, err, test.class, test.kind, test.key, test.words)
			nothingOf(t, []string{"canary"}, err)
			made, err := NewDigestKeys(h.operator, nil).Ensure(t.Context())
			if made || kindOf(err) != test.ensure {
				t.Fatalf("Ensure made: %v, %v", made, err)
			}
			if test.kind == KindMalformed || test.kind == KindMissing {
				if version, _, err := d.Add(t.Context()); err == nil {
					t.Fatalf("%s was added to it", version)
				}
			}
		})
	}
}

// A key that OpenBao does not give back as it was given is never written: digests made with it
// could not be compared after a restart.
func TestADigestKeyIsReadBackBeforeItIsWritten(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	for name, answer := range map[string]string{
		"another key": `{"data": {"plaintext": "AAAA"}}`,
		"no key":      `{"data": {}}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newProxy(t, h)
			p.answer(h.transit+"/decrypt/", 200, answer)
			d := NewDigestKeys(p.gateway(t), nil)
			_, _, err := d.Add(t.Context())
			wantClass(t, err, ErrRefused)
			if kindOf(err) != KindMalformed {
				t.Error(err)
			}
			if got := names(load(t, NewDigestKeys(h.gateway(t), nil), nil)); len(got) != 1 {
				t.Fatalf("it was written: %v", got)
			}
		})
	}
}

// An answer that is lost on its way is asked for again, and finds its own writing there.
func TestAnAddWhoseAnswerIsLostIsStillOne(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	p := newProxy(t, h)
	d := NewDigestKeys(p.gateway(t), nil)
	p.lose(h.kv+"/data/"+PathDigestKeys, "PUT", 1)
	version, _, err := d.Add(t.Context())
	if err != nil || version != "k2" {
		t.Fatalf("got %s, %v", version, err)
	}
	if p.left() != 0 {
		t.Fatal("no answer was lost, so nothing was tried")
	}
	if diff := cmp.Diff([]string{"k1", "k2"}, names(load(t, d, nil))); diff != "" {
		t.Error(diff)
	}
	// The control: another's writing in between is not taken for one's own.
	p.between(h.kv+"/data/"+PathDigestKeys, "PUT", func() {
		if _, _, err := NewDigestKeys(h.gateway(t), nil).Add(t.Context()); err != nil {
			t.Error(err)
		}
	})
	_, _, err = d.Add(t.Context())
	var e *Error
	if !errors.As(err, &e) || e.Kind != KindMoved {
		t.Fatalf("got %v", err)
	}
}
