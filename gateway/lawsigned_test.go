package gateway

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/idp"
	"bronzeward/gateway/control"
	"bronzeward/policy"
	"bronzeward/policytest/lawsign"
)

// signedLaw is the shipped law with other data, counted and signed as opa sign does.
func signedLaw(t testing.TB, key lawsign.Key, counter int64, ladder string) *policy.Bundle {
	t.Helper()
	b := must(policy.OverlayFiles(must(shippedLaw())(t).bundle, policy.File{Path: "bronzeward/data.yaml", Body: []byte("ladder: {" + ladder + ": warn}\n")}))(t)
	dir := t.TempDir()
	for _, f := range b.Files() {
		at := filepath.Join(dir, filepath.FromSlash(f.Path))
		ok(t, os.MkdirAll(filepath.Dir(at), 0o755))
		ok(t, os.WriteFile(at, f.Body, 0o600))
	}
	ok(t, lawsign.Number(dir, counter))
	ok(t, key.Sign(dir))
	return must(policy.Load(os.DirFS(dir)))(t)
}

func pinnedKey(k lawsign.Key) policy.Key {
	return policy.Key{Algorithm: lawsign.Algorithm, PEM: k.Public}
}

// tried is a draft whose trial is taken as passed: what it is about is what comes after.
func tried(b *policy.Bundle) Draft {
	return Draft{Bundle: b, Tried: policy.Tried{Revision: b.Revision(), Tests: 1, Samples: 1}}
}

// A replica verifies the live law with its own keys when it loads it: a row that somebody changed in the
// database does not become law, nor does a law whose key was removed while it is live. The control pins
// no key, and serves both.
func TestAReplicaVerifiesTheLiveLaw(t *testing.T) {
	t.Parallel()
	key, other := must(lawsign.New())(t), must(lawsign.New())(t)
	for _, row := range []struct {
		name string
		keys policy.Keys
		// signed is whether the signature is saved beside the law.
		signed bool
		want   []string // empty: it serves
	}{
		{"signed by a pinned key", policy.Keys{"2025": pinnedKey(other), "2026": pinnedKey(key)}, true, nil},
		{"its key was removed", policy.Keys{"2025": pinnedKey(other)}, true, []string{
			"is signed by none of the keys in policy.keys (2025): the key 2026 is missing",
			"put the key 2026 back into policy.keys, activate a law signed by another pinned key, then remove it",
		}},
		{"a row of the database", policy.Keys{"2026": pinnedKey(key)}, false, []string{"is saved without a signature"}},
		{"its key was removed, and nothing is pinned", nil, true, nil},
		{"a row of the database, and nothing is pinned", nil, false, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, func(s *setup) {
				s.ownEngine = true
				s.gateway = func(c *Config) { c.LawKeys = row.keys }
			})
			b := signedLaw(t, key, 7, "BW-TEST-001")
			ok(t, h.db.Exec(t.Context(), "insert into control.bundles (revision, content, entry_id) values ($1, $2, gen_random_uuid())", b.Revision(), b.Bytes()))
			if row.signed {
				ok(t, h.db.Exec(t.Context(), "insert into control.bundle_signatures (revision, key_id, counter, signatures, manifest, entry_id) values ($1, '2026', 7, $2, $3, gen_random_uuid())",
					b.Revision(), b.Proof().Signatures, b.Proof().Manifest))
			}
			ok(t, h.db.Exec(t.Context(), "update control.live_bundle set revision = $1, counter = counter + 1", b.Revision()))
			ok(t, h.db.Exec(t.Context(), "update control.authority set version = version + 1"))
			a := h.as(t, "olga").version(t, "w1")
			if len(row.want) == 0 {
				ok(t, a.err)
				return
			}
			if a.code() != codes.PermissionDenied || !strings.Contains(a.text(), "DENIED BW-POLICY-001") {
				t.Errorf("got %v", a.err)
			}
			_, problems := h.gw.Ready(t.Context())
			for _, w := range row.want {
				if !strings.Contains(a.text(), w) || !strings.Contains(strings.Join(problems, "\n"), w) {
					t.Errorf("%q and %q do not say %q", a.text(), problems, w)
				}
			}
			h.untouched(t, "w1")
		})
	}
}

// With keys pinned an unsigned, a foreign and an older law are refused, with an entry each that says
// why; the way back to an older one is a rollback, and its entry says so.
func TestOnlySignedAndNewerLawsBecomeLive(t *testing.T) {
	t.Parallel()
	key, other := must(lawsign.New())(t), must(lawsign.New())(t)
	h := newHouse(t, func(s *setup) { s.ownEngine = true })
	acts, sven := h.acts(), h.actor(t, "sven")
	acts.Keys = policy.Keys{"2026": pinnedKey(key)}
	ctx := context.Background()
	first, second := signedLaw(t, key, 5, "BW-TEST-001"), signedLaw(t, key, 7, "BW-TEST-002")
	// The gateway of this house pins nothing; the law that is live is the shipped one, unsigned, and has
	// been loaded before the keys were pinned.
	h.as(t, "olga").version(t, "w1")
	live := func(want *policy.Bundle) {
		t.Helper()
		if got := must(h.store.Refresh(ctx, 0))(t).LiveRevision; got != want.Revision() {
			t.Errorf("%.8s is live, want %.8s", got, want.Revision())
		}
	}
	for _, b := range []*policy.Bundle{first, second} {
		must(acts.Activate(ctx, sven, tried(b), nil))(t)
		live(b)
	}
	for code, b := range map[string]*policy.Bundle{
		"BW-BUNDLE-001": must(shippedLaw())(t).bundle,
		"BW-BUNDLE-002": first,
	} {
		_, err := acts.Activate(ctx, sven, tried(b), nil)
		wantDenied(t, err, code)
	}
	_, err := acts.Activate(ctx, sven, tried(signedLaw(t, other, 9, "BW-TEST-003")), nil)
	wantDenied(t, err, "BW-BUNDLE-001")
	_, err = acts.Activate(ctx, sven, Draft{Bundle: second}, nil)
	if err == nil {
		t.Error("a law without its trial is live")
	}
	live(second)
	never := signedLaw(t, key, 8, "BW-TEST-004")
	must(acts.SavePolicy(ctx, sven, tried(never), nil))(t)
	_, err = acts.Rollback(ctx, sven, tried(never), nil)
	wantDenied(t, err, "BW-BUNDLE-003")
	before := must(acts.SavedLaw(ctx, "previous"))(t)
	if before.Revision() != first.Revision() {
		t.Fatalf("the law before is %.8s", before.Revision())
	}
	must(acts.Rollback(ctx, sven, tried(before), nil))(t)
	live(first)
	if n := h.count(t, `select count(*) from audit.entries where method = 'policy.rollback' and verdict = 'allow'
		and convert_from(record, 'UTF8') like '%' || $1 || '; back to a law that was live before, whatever its counter; trial passed with 1 tests and 1 sample calls; signed by key 2026 with counter 5%'`, first.Revision()); n != 1 {
		t.Errorf("%d entries say that it went back: %q", n, h.texts(t, "select verdict || convert_from(record, $1) from audit.entries where method = $2", "UTF8", ActPolicyRollback))
	}
	// A signature that a key of today does not prove is no way back either.
	acts.Keys = policy.Keys{"2027": pinnedKey(other)}
	_, err = acts.Rollback(ctx, sven, tried(must(acts.SavedLaw(ctx, second.Revision()[:8]))(t)), nil)
	wantDenied(t, err, "BW-BUNDLE-001")
	live(first)
}

// One process without keys is no way round the counter: it activates no signed law once laws counted, and what it makes live
// unsigned does not come back by an old signature that is saved later. The control is a rollback.
func TestAProcessWithoutKeysIsNoWayRoundTheCounter(t *testing.T) {
	t.Parallel()
	key := must(lawsign.New())(t)
	h := newHouse(t, func(s *setup) {
		s.ownEngine = true
		s.gateway = func(c *Config) { c.LawKeys = policy.Keys{"2026": pinnedKey(key)} }
	})
	ctx, sven := context.Background(), h.actor(t, "sven")
	pinned, bare := h.acts(), h.acts()
	pinned.Keys, pinned.Gate = policy.Keys{"2026": pinnedKey(key)}, nil
	bare.Keys, bare.Gate = nil, nil
	bare.Judge = policy.New(policy.EngineConfig{})
	pinned.Judge = bare.Judge // as it would be with the shipped law loaded before
	old, lost, now := signedLaw(t, key, 5, "BW-TEST-001"), signedLaw(t, key, 6, "BW-TEST-002"), signedLaw(t, key, 7, "BW-TEST-003")
	for _, b := range []*policy.Bundle{old, now} {
		must(bare.current(ctx))(t)
		must(pinned.Activate(ctx, sven, tried(b), nil))(t)
	}
	succeeded(t, h.as(t, "olga").version(t, "w1"))
	for _, b := range []*policy.Bundle{old, old.WithProof(policy.Proof{})} {
		_, err := bare.Activate(ctx, sven, tried(b), nil)
		wantDenied(t, err, "BW-BUNDLE-002")
	}
	must(bare.Activate(ctx, sven, tried(lost.WithProof(policy.Proof{})), nil))(t)
	must(bare.SavePolicy(ctx, sven, tried(lost), nil))(t)
	ok(t, h.gw.laws.prepareOnce(ctx, h.gw, lost.Revision())) // compiled ahead, it is held to the counter as well
	a := h.as(t, "olga").version(t, "w1")
	if a.code() != codes.PermissionDenied || !strings.Contains(a.text(), "carries the counter 6, and a law with the counter 7 was live before it") {
		t.Errorf("an older law judges: %v", a.err)
	}
	must(bare.Rollback(ctx, sven, tried(old), nil))(t)
	succeeded(t, h.as(t, "olga").version(t, "w1"))
}

// A law that asks for the agreement of others becomes live with it and not without, and none is taken that
// nobody could agree to a change of.
func TestALawBecomesLiveWithTheAgreementOfOthers(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.ownEngine = true })
	acts, sven, ada := h.acts(), h.actor(t, "sven"), h.actor(t, "ada")
	ada.Caller.Groups = []string{idp.GroupPolicyAdmins}
	ctx := context.Background()
	law := func(n, ladder string) *policy.Bundle {
		return must(policy.OverlayFiles(must(shippedLaw())(t).bundle,
			policy.File{Path: "bronzeward/api/data.yaml", Body: []byte("policy_approvals: " + n + "\n")},
			policy.File{Path: "bronzeward/data.yaml", Body: []byte("ladder: {" + ladder + ": warn}\n")}))(t)
	}
	one := law("1", "BW-TEST-001")
	if _, err := acts.Activate(ctx, sven, tried(one), nil); err == nil || !strings.Contains(err.Error(), "only 0 other people are known here") {
		t.Errorf("nobody else is known, and: %v", err)
	}
	must(acts.ApprovePolicy(ctx, ada, one.Revision(), nil))(t) // now she is known
	must(acts.Activate(ctx, sven, tried(one), nil))(t)

	next := law("1", "BW-TEST-002")
	must(acts.SavePolicy(ctx, sven, tried(next), nil))(t)
	activate := func() error {
		_, err := acts.Activate(ctx, sven, tried(next), nil)
		return err
	}
	refused := func(says string) {
		t.Helper()
		err := activate()
		wantDenied(t, err, "BW-APPROVAL-004")
		if !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "bronzeward policy approve "+next.Revision()[:12]) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
	refused("1 of them missing (nobody has agreed yet)")
	must(acts.ApprovePolicy(ctx, sven, next.Revision(), nil))(t) // one's own does not count
	refused("nobody has agreed yet")
	_, err := acts.ApprovePolicy(ctx, h.actor(t, "olga"), next.Revision(), nil)
	wantDenied(t, err, "BW-ACT-003")
	robot := ada
	robot.Caller.Kind = "automation"
	_, err = acts.ApprovePolicy(ctx, robot, next.Revision(), nil)
	wantDenied(t, err, "BW-ACT-004")
	must(acts.ApprovePolicy(ctx, ada, next.Revision(), nil))(t)
	if _, err := acts.ApprovePolicy(ctx, ada, next.Revision(), nil); err == nil || !strings.Contains(err.Error(), "you agreed to the law") {
		t.Errorf("agreeing again: %v", err)
	}
	ok(t, activate())
	if n := h.count(t, "select count(*) from audit.entries where method = 'policy.activate' and verdict = 'allow' and convert_from(record, 'UTF8') like '%; agreed: ada%'"); n != 2 {
		t.Errorf("%d entries say who agreed, of two", n)
	}
	refused("nobody has agreed yet") // another law is live since
	// A revocation between the agreement and the activation counts.
	must(acts.ApprovePolicy(ctx, ada, next.Revision(), nil))(t)
	_, err = h.store.RevokeIdentity(ctx, personOf(ada.Caller), "left", admin("identities.revoke"))
	ok(t, err)
	if err := activate(); err == nil || !strings.Contains(err.Error(), "only 0 other people") {
		t.Errorf("after the revocation: %v", err)
	}
	must(h.store.Refresh(ctx, 0))(t)
	if n := h.count(t, "select count(*) from control.bundle_activations where way = $1 and required = 1", control.WayActivate); n != 1 {
		t.Errorf("%d activations were agreed to", n)
	}
}
