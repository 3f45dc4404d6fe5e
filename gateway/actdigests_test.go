package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"bronzeward/gateway/control"
	"bronzeward/gateway/facts"
	"bronzeward/gateway/vault"
	"bronzeward/policy"
)

// keeper keeps digest keys in this process and adds to a live ring, a minute before they are used.
type keeper struct {
	ring   *facts.LiveRing
	keys   []facts.LiveKey
	now    func() time.Time
	fails  error
	before func()
}

func newKeeper(t testing.TB, now func() time.Time) *keeper {
	t.Helper()
	k := &keeper{now: now, keys: []facts.LiveKey{{Version: "k1", Secret: []byte(strings.Repeat("k", 32))}}}
	k.ring = must(facts.NewLiveRing(now, k.keys))(t)
	return k
}

func (k *keeper) Add(context.Context) (string, time.Time, error) {
	if k.before != nil {
		k.before()
	}
	if k.fails != nil {
		return "", time.Time{}, k.fails
	}
	secret := make([]byte, 32)
	rand.Read(secret)
	next := facts.LiveKey{Version: fmt.Sprintf("k%d", len(k.keys)+1), Secret: secret, UsableFrom: k.now().Add(time.Minute)}
	k.keys = append(k.keys, next)
	return next.Version, next.UsableFrom, k.ring.Replace(k.keys)
}

// keeping is a house whose digest keys grow.
func keeping(t testing.TB) (*house, *keeper, *Acts) {
	t.Helper()
	h := newHouse(t, func(s *setup) { s.workers = 0 })
	k := newKeeper(t, func() time.Time { return h.store.Snapshot().Now() })
	a := h.acts()
	a.Digester, a.DigestKeys = k.ring, k
	return h, k, a
}

func onceOf(key string) *control.Once {
	o := &control.Once{Key: key, Route: "POST /digest-keys", Body: "b", SameBody: func(kept string) bool { return kept == "b" }}
	o.Answer = func() (int, []byte, error) {
		done, is := o.Result.(control.AddedDigestKey)
		if !is {
			return 0, nil, errors.New("no key to keep")
		}
		return 201, []byte(done.Version), nil
	}
	return o
}

func TestADigestIsComputedUnderEveryKeyAndTheTextStaysOut(t *testing.T) {
	h, _, a := keeping(t)
	ctx, text := context.Background(), []byte("machine:\n  token: c4nary-of-the-test\n")
	_, err := a.AddDigestKey(ctx, h.actor(t, "rhea"), nil)
	ok(t, err)
	got := must(a.ComputeDigest(ctx, h.actor(t, "olga"), text, nil))(t)
	if got.Digest != a.Digester.Digest(text) || got.Under["k1"] != got.Digest || !strings.HasPrefix(got.Under["k2"], "hmac-sha256:k2:") || len(got.Under) != 2 {
		t.Errorf("got %+v", got)
	}
	entry := h.texts(t, "select verdict || ' ' || digest || ' ' || convert_from(record, 'utf8') from audit.entries where method = 'digests.compute' and id::text = $1", got.EntryID.String())
	if len(entry) != 1 || !strings.HasPrefix(entry[0], "allow "+got.Digest+" ") || !strings.Contains(entry[0], fmt.Sprintf("%d bytes", len(text))) || strings.Contains(entry[0], "c4nary") {
		t.Errorf("the entry is %q", entry)
	}
	_, err = a.ComputeDigest(ctx, h.actor(t, "vera"), text, nil)
	wantDenied(t, err, "BW-ACT-003")
	if n := h.count(t, "select count(*) from audit.entries where digest <> '' and verdict <> 'allow'"); n > 0 {
		t.Errorf("%d refusals name the digest", n)
	}
	a.Digester = must(facts.NewPlain(nil))(t)
	if plain := must(a.ComputeDigest(ctx, h.actor(t, "olga"), text, nil))(t); plain.Under != nil || !strings.HasPrefix(plain.Digest, "sha256:") {
		t.Errorf("with the plain scheme: %+v", plain)
	}
}

// The entry is durable before a key is made, and an outcome says what came of it.
func TestADigestKeyIsWrittenDownAddedAndAccountedFor(t *testing.T) {
	h, k, a := keeping(t)
	ctx := context.Background()
	entries := func() int {
		return h.count(t, "select count(*) from audit.entries where method = 'digest-keys.add' and verdict = 'allow'")
	}
	outcomes := func(entry string) []string {
		return h.texts(t, "select state || ' ' || coalesce(code, '') || ' ' || (convert_from(record, 'utf8')::json->>'message') from audit.outcomes where entry_id::text = $1", entry)
	}
	k.before = func() {
		if n := entries(); n != 1 {
			t.Errorf("%d entries when the key is made", n)
		}
	}
	added := must(a.AddDigestKey(ctx, h.actor(t, "rhea"), onceOf("one")))(t)
	if said := outcomes(added.EntryID.String()); len(said) != 1 || !strings.HasPrefix(said[0], "done  digest key k2 is used from ") {
		t.Errorf("outcomes %q", said)
	}
	if list := a.ListDigestKeys(); len(list) != 2 || list[1] != added.DigestKey || !added.UsableFrom.After(k.now()) {
		t.Errorf("list %v, added %v", list, added)
	}
	k.before = nil

	// Asked again with its key, it is not done again.
	_, err := a.AddDigestKey(ctx, h.actor(t, "rhea"), onceOf("one"))
	var before *control.ReplayedError
	if !errors.As(err, &before) || string(before.Body) != "k2" || len(k.keys) != 2 {
		t.Errorf("again: %v, %d keys", err, len(k.keys))
	}

	// Sealed: the outcome has the class, and the same request may be made again.
	k.fails = awayError{"sealed", "OpenBao is sealed"}
	_, err = a.AddDigestKey(ctx, h.actor(t, "rhea"), onceOf("two"))
	var refused *refusedError
	if !errors.As(err, &refused) || refused.status != codes.Unavailable || refused.code != "BW-DIGEST-002" || !strings.Contains(refused.message, "OpenBao is sealed (sealed)") {
		t.Fatalf("sealed: %v", err)
	}
	if said := outcomes(refused.entry.ID.String()); len(said) != 1 || said[0] != "failed sealed adding a digest key failed: OpenBao is sealed (sealed)" {
		t.Errorf("outcomes %q", said)
	}
	// What a next try meets all the same says so.
	k.fails = &vault.Error{Doing: "adding a digest key", Class: vault.ErrRefused, Kind: vault.KindKeyMissing, Reason: "OpenBao has no key of this name"}
	_, err = a.AddDigestKey(ctx, h.actor(t, "rhea"), onceOf("two"))
	if !errors.As(err, &refused) || refused.status != codes.Unavailable || refused.message != "adding a digest key failed: OpenBao has no key of this name (key_missing)" ||
		strings.Join(refused.hints, "") != "trying again does not help: tell who runs OpenBao" {
		t.Fatalf("key missing: %v", err)
	}
	k.fails = nil
	if again := must(a.AddDigestKey(ctx, h.actor(t, "rhea"), onceOf("two")))(t); again.Version != "k3" {
		t.Errorf("afterwards: %+v", again)
	}
}

func TestADigestKeyIsNotAddedForWhom(t *testing.T) {
	h, k, a := keeping(t)
	ctx := context.Background()
	robot := h.actor(t, "rhea")
	robot.Caller.Kind = "automation"
	revoked := h.actor(t, "rhea")
	for _, row := range []struct {
		name string
		by   Actor
		code string
	}{
		{"an operator", h.actor(t, "olga"), "BW-ACT-003"},
		{"automation", robot, "BW-ACT-004"},
		{"somebody revoked", revoked, "BW-ACT-001"},
	} {
		if row.code == "BW-ACT-001" {
			must(h.store.RevokeIdentity(ctx, policy.Person{Issuer: issuer, Subject: "rhea"}, "left", admin("identities.revoke")))(t)
		}
		_, err := a.AddDigestKey(ctx, row.by, nil)
		wantDenied(t, err, row.code)
	}
	if len(k.keys) != 1 || h.count(t, "select count(*) from audit.outcomes") != 0 {
		t.Errorf("%d keys", len(k.keys))
	}
	a.DigestKeys = nil
	var refused *refusedError
	if _, err := a.AddDigestKey(ctx, h.actor(t, "rhea"), nil); !errors.As(err, &refused) || refused.status != codes.Unimplemented || !strings.Contains(refused.message, "(openbao)") {
		t.Errorf("without a keeper: %v", err)
	}
}
