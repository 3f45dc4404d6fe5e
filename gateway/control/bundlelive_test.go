package control

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/policy"
)

// laws is a store with three saved laws, the first of which is live.
func (w *world) laws(t *testing.T) *Store {
	t.Helper()
	s := w.store(t, "gw-1", nil)
	w.activate(t, s, revision1)
	for _, r := range []string{revision2, revision3} {
		ok(t)(s.SaveBundle(t.Context(), r, []byte("bundle "+r[:1]), nil, by(admin, "policy.save")))
	}
	return s
}

var revision3 = strings.Repeat("3", 64)

func live(s *Store, n NewLive, who policy.Person) error {
	_, err := s.ActivateBundle(context.Background(), n, by(who, "policy."+n.Way))
	return err
}

func (w *world) liveNow(t *testing.T, want string) {
	t.Helper()
	if n := w.count(t, "select count(*) from control.live_bundle where revision = $1", want); n != 1 {
		t.Errorf("%.8s is not live", want)
	}
}

// The counter of signed laws goes upward through every activation, whichever was highest; only a
// rollback makes an older one live, and none that never was. The control has no trigger: the older law
// is live.
func TestTheCounterOfSignedLawsGoesUpward(t *testing.T) {
	w := newWorld(t)
	s := w.laws(t)
	signed := func(revision, way string, counter int64) error {
		return live(s, NewLive{Revision: revision, Way: way, Signed: counter}, admin)
	}
	wantGuard(t, signed(revision3, WayRollback, 9), "bundle_activations_was_live")
	for i, revision := range []string{revision1, revision2} {
		if err := signed(revision, WayActivate, int64(5+2*i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, counter := range []int64{1, 5, 7} {
		wantGuard(t, signed(revision1, WayActivate, counter), "bundle_activations_counter_upward")
	}
	w.liveNow(t, revision2)
	if err := signed(revision1, WayRollback, 5); err != nil {
		t.Fatal(err)
	}
	w.liveNow(t, revision1)
	wantGuard(t, signed(revision2, WayActivate, 7), "bundle_activations_counter_upward") // the highest stays
	past, err := s.BundleActivations(t.Context())
	if err != nil || len(past) != 4 || past[0].Way != WayRollback || past[0].Signed != 5 || past[0].Person != admin || past[0].Counter != 4 {
		t.Errorf("%+v, %v", past, err)
	}
	w.exec(t, "drop trigger bundle_activations_counter_upward on control.bundle_activations")
	if err := signed(revision2, WayActivate, 7); err != nil {
		t.Fatalf("the control: %v", err)
	}
	w.liveNow(t, revision2)
}

// agree is an act that agrees; asks is one that needs so many others.
func agree(s *Store, revision string, who policy.Person) error {
	_, err := s.ApproveBundle(context.Background(), revision, Approver{Person: who, Kind: "human", Groups: []string{"g"}}, by(who, "policy.approve"))
	return err
}

func asking(revision string, n int) NewLive {
	return NewLive{Revision: revision, Way: WayActivate, Required: func(uuid.UUID) int { return n }}
}

// An activation is refused by the row itself when too few others agreed to that very law after the live
// one, in this epoch, and are not revoked. The controls drop the trigger: it is live without them.
func TestAnActivationHasTheAgreementItNeeds(t *testing.T) {
	for name, c := range map[string]struct {
		before func(t *testing.T, w *world, s *Store)
		fits   bool
	}{
		"nobody agreed":     {func(*testing.T, *world, *Store) {}, false},
		"the activator did": {func(t *testing.T, _ *world, s *Store) { must0(t, agree(s, revision2, admin)) }, false},
		"to another law":    {func(t *testing.T, _ *world, s *Store) { must0(t, agree(s, revision3, anna)) }, false},
		"another did":       {func(t *testing.T, _ *world, s *Store) { must0(t, agree(s, revision2, anna)) }, true},
		"another, twice": {func(t *testing.T, _ *world, s *Store) {
			must0(t, agree(s, revision2, anna))
			wantErr(t, agree(s, revision2, anna), ErrConflict)
		}, true},
		"before another law became live": {func(t *testing.T, _ *world, s *Store) {
			must0(t, agree(s, revision2, anna))
			must0(t, live(s, asking(revision3, 0), admin))
		}, false},
		"and was revoked": {func(t *testing.T, _ *world, s *Store) {
			must0(t, agree(s, revision2, anna))
			revoked(t)(s.RevokeIdentity(t.Context(), anna, "left", by(boris, "identities.revoke")))
		}, false},
		"in another epoch": {func(t *testing.T, w *world, s *Store) {
			must0(t, agree(s, revision2, anna))
			w.exec(t, "update control.installation set epoch = gen_random_uuid()")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.laws(t)
			c.before(t, w, s)
			var told LawStamp
			act := by(admin, "policy.activate")
			entry := act.Entry
			act.Entry = func(st Stamp) audit.Entry { told = st.Law; return entry(st) }
			_, err := s.ActivateBundle(t.Context(), asking(revision2, 1), act)
			if c.fits {
				must0(t, err)
				w.liveNow(t, revision2)
				if len(told.Agreed) != 1 || told.Agreed[0].Person != anna {
					t.Errorf("the judge is told %+v", told)
				}
				return
			}
			wantGuard(t, err, "bundle_activations_agreed")
			if n := w.count(t, "select count(*) from control.live_bundle where revision = $1", revision2); n != 0 {
				t.Error("it is live")
			}
			w.exec(t, "drop trigger bundle_activations_agreed on control.bundle_activations")
			must0(t, live(s, asking(revision2, 1), admin))
			w.liveNow(t, revision2)
		})
	}
}

func must0(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A proof is kept once, and a revision may be signed again by another key.
func TestProofsOfABundleAreKept(t *testing.T) {
	w := newWorld(t)
	s := w.store(t, "gw-1", nil)
	for i, key := range []string{"2025", "2026", "2026"} {
		p := BundleProof{KeyID: key, Counter: 3, Signatures: []byte("by " + key), Manifest: []byte("{}")}
		if _, err := s.SaveBundle(t.Context(), revision1, []byte("one"), &p, by(admin, "policy.save")); err != nil {
			t.Fatal(i, err)
		}
	}
	got, err := s.BundleProofs(t.Context(), revision1)
	if err != nil || len(got) != 2 || got[0].KeyID != "2026" || string(got[1].Signatures) != "by 2025" || got[1].Counter != 3 || string(got[1].Manifest) != "{}" {
		t.Errorf("%+v, %v", got, err)
	}
	if revision, err := s.BundleNamed(t.Context(), revision1[:8]); err != nil || revision != revision1 {
		t.Errorf("%s, %v", revision, err)
	}
	_, err = s.BundleNamed(t.Context(), revision2[:8])
	wantErr(t, err, ErrNotFound)
	_, err = s.BundleNamed(t.Context(), "11")
	wantErr(t, err, ErrInvalid)
}
