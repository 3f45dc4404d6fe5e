package control

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// Replicas are asked for the laws that were named last, few of them, and of saved ones only; asking again moves one to
// the front, and makes nothing live.
func TestFewLawsAreAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.house(t, 0)
	third := "3333333333333333333333333333333333333333333333333333333333333333"
	for _, revision := range []string{revision2, third} {
		if _, err := s.SaveBundle(t.Context(), revision, []byte("law"), nil, by(admin, "policy.save")); err != nil {
			t.Fatal(err)
		}
	}
	asked := func(want ...string) {
		t.Helper()
		all, err := s.AskedLaws(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, one := range all {
			got = append(got, one.Revision)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	asked()
	for _, step := range []struct {
		ask  string
		want []string
	}{
		{revision1, []string{revision1}},
		{revision2, []string{revision2, revision1}},
		{third, []string{third, revision2}},
		{revision1, []string{revision1, third}},
		{revision1, []string{revision1, third}},
	} {
		if err := s.AskPrepared(t.Context(), step.ask); err != nil {
			t.Fatal(err)
		}
		asked(step.want...)
	}
	if err := s.AskPrepared(t.Context(), "4444444444444444444444444444444444444444444444444444444444444444"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a law nobody saved: %v", err)
	}
	if snap, err := s.Refresh(t.Context(), 0); err != nil || snap.LiveRevision != revision1 {
		t.Errorf("%q is live, %v", snap.LiveRevision, err)
	}
}

// What a replica has compiled ahead comes back as it told, and goes when it tells otherwise.
func TestReplicasTellWhatTheyHavePrepared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.house(t, 0)
	r := ReplicaReport{Process: uuid.New(), Loaded: revision1}
	tell := func(a Ahead, want Preparation) {
		t.Helper()
		r.Ahead = a
		if err := s.ReportReplica(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		all := w.replicas(t, s)
		if len(all.List) != 1 || all.List[0].Preparation(revision2) != want || all.List[0].Preparation(revision1) != Done {
			t.Errorf("%+v: want %d", all.List, want)
		}
	}
	tell(Ahead{}, Unaware)
	tell(Ahead{Preparing: []string{revision2}}, UnderWay)
	tell(Ahead{Unprepared: []string{revision2}}, Failed)
	tell(Ahead{Prepared: []string{revision1, revision2}}, Done)
	tell(Ahead{Prepared: []string{revision1}, Preparing: []string{"another"}}, Unaware)
}
