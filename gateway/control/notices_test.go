package control

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// addChange puts a bare change into the database, for notices to be of.
func (w *world) addChange(t testing.TB) ChangeID {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	w.exec(t, `insert into control.changes (id, entry_id, machine_id, cluster, kind, mode, try_timeout, digest, size, base_active,
			base_persistent, node_id, talos_cluster_id, smbios, epoch, binding, set_name, issuer, subject,
			created_at, approve_by, use_within)
		values ($1, $1, $1, 'lab', 'apply', 'no-reboot', '0', 'd', 1, 'b', 'b', '', '', '', $1, repeat('0', 64), '', 'i', 's',
			now(), now() + interval '1 day', interval '1 hour')`, id)
	return ChangeID(id)
}

// addNotices captures so many changes' notices, by the gateway's role.
func addNotices(t testing.TB, w *world, s *Store, n int) []ChangeID {
	t.Helper()
	ids := make([]ChangeID, n)
	for i := range ids {
		ids[i] = w.addChange(t)
		if err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error { return addNotice(t.Context(), tx, ids[i]) }); err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

func claim(t testing.TB, s *Store, n int, lease time.Duration) []Notice {
	t.Helper()
	out, err := s.ClaimNotices(t.Context(), n, lease)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func onlyNotice(t testing.TB, s *Store) Notice {
	t.Helper()
	all, err := s.Notices(t.Context(), NoticeFilter{})
	if err != nil || len(all) != 1 {
		t.Fatalf("%d notices, %v", len(all), err)
	}
	return all[0]
}

func okNotice(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestANoticeIsCapturedWithItsChange(t *testing.T) {
	w := newWorld(t)
	s := w.store(t, "gw-1", nil)
	id := addNotices(t, w, s, 1)[0]
	first := onlyNotice(t, s)
	if first.ChangeID != id || first.State != NoticeWaiting || first.Tries != 0 || first.EndedAt != nil {
		t.Errorf("got %+v", first)
	}
	// The same change found again keeps its notice.
	okNotice(t, pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error { return addNotice(t.Context(), tx, id) }))
	if again := onlyNotice(t, s); again.ID != first.ID {
		t.Errorf("another notice: %s, %s", first.ID, again.ID)
	}
	// A capture that is rolled back leaves none, and a change that does not exist has none.
	other := w.addChange(t)
	tx, err := s.pool.Begin(t.Context())
	okNotice(t, err)
	okNotice(t, addNotice(t.Context(), tx, other))
	okNotice(t, tx.Rollback(t.Context()))
	onlyNotice(t, s)
	err = pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
		return addNotice(t.Context(), tx, ChangeID(uuid.Must(uuid.NewV7())))
	})
	wantErr(t, err, ErrNotFound)
}

func TestAClaimIsForItsLease(t *testing.T) {
	w := newWorld(t)
	s, other := w.store(t, "gw-1", nil), w.store(t, "gw-2", nil)
	addNotices(t, w, s, 3)
	got := claim(t, s, 2, time.Minute)
	if len(got) != 2 || got[0].ID == got[1].ID || got[0].Tries != 1 {
		t.Fatalf("claimed %+v", got)
	}
	if until := got[0].NextAt.Sub(got[0].CreatedAt); until < time.Minute || until > 10*time.Minute {
		t.Errorf("the claim ends %s after it was made", until)
	}
	if rest := claim(t, other, 10, time.Minute); len(rest) != 1 || rest[0].ID == got[0].ID || rest[0].ID == got[1].ID {
		t.Errorf("the other replica claimed %+v", rest)
	}
	if none := claim(t, s, 10, time.Minute); len(none) != 0 {
		t.Errorf("claimed %d that are claimed", len(none))
	}
	w.exec(t, "update control.notices set next_at = next_at - interval '1 minute' where id = $1", got[0].ID)
	again := claim(t, other, 10, time.Minute)
	if len(again) != 1 || again[0].ID != got[0].ID || again[0].Tries != 2 {
		t.Errorf("after the lease: %+v", again)
	}
	for _, bad := range []struct {
		n     int
		lease time.Duration
	}{{0, time.Minute}, {-1, time.Minute}, {1, 0}, {1, -time.Minute}} {
		_, err := s.ClaimNotices(t.Context(), bad.n, bad.lease)
		wantErr(t, err, ErrInvalid)
	}
}

// A claim waits for nobody and takes nothing that another claim, not yet committed, has taken.
func TestTwoClaimsAtOnceTakeDifferentNotices(t *testing.T) {
	w := newWorld(t)
	s := w.store(t, "gw-1", nil)
	addNotices(t, w, s, 3)
	tx, err := s.pool.Begin(t.Context())
	okNotice(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	first := claimIn(t, tx, sqlNoticeClaim, 2)
	second := claim(t, s, 10, time.Minute)
	okNotice(t, tx.Commit(t.Context()))
	if len(first) != 2 || len(second) != 1 || first[second[0].ID] {
		t.Errorf("claimed %v and %+v", first, second)
	}
}

// Control: without the rows' locks, the second claim takes what the first one has.
func TestControlClaimsWithoutLocks(t *testing.T) {
	w := newWorld(t)
	s := w.store(t, "gw-1", nil)
	addNotices(t, w, s, 1)
	unlocked := strings.Replace(sqlNoticeClaim, "for update skip locked", "", 1)
	if unlocked == sqlNoticeClaim {
		t.Fatal("the guard is not where it was")
	}
	tx, err := s.pool.Begin(t.Context())
	okNotice(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	first := claimIn(t, tx, unlocked, 1)
	second := make(chan map[uuid.UUID]bool, 1)
	go func() {
		out := map[uuid.UUID]bool{}
		defer func() { second <- out }()
		notices, err := s.notices(context.WithoutCancel(t.Context()), "claiming", unlocked, 1, time.Minute)
		if err != nil {
			t.Error(err)
		}
		for _, n := range notices {
			out[n.ID] = true
		}
	}()
	w.waiting(t, 1)
	okNotice(t, tx.Commit(t.Context()))
	got := <-second
	for id := range first {
		if !got[id] {
			t.Error("the bad end state did not come: the test above proves nothing")
		}
	}
}

// Control: without the lease, a notice that is being sent is claimed again.
func TestControlClaimsWithoutLease(t *testing.T) {
	w := newWorld(t)
	s := w.store(t, "gw-1", nil)
	addNotices(t, w, s, 1)
	forgetful := strings.Replace(sqlNoticeClaim, ", next_at = clock_timestamp() + $2::interval", ", error = left(error, extract(epoch from $2::interval)::int)", 1)
	if forgetful == sqlNoticeClaim {
		t.Fatal("the guard is not where it was")
	}
	for range 2 {
		got, err := s.notices(t.Context(), "claiming", forgetful, 1, time.Minute)
		if err != nil || len(got) != 1 {
			t.Fatalf("the bad end state did not come (%d, %v): the tests above prove nothing", len(got), err)
		}
	}
}

func claimIn(t testing.TB, tx pgx.Tx, sql string, n int) map[uuid.UUID]bool {
	t.Helper()
	rows, err := tx.Query(t.Context(), sql, n, time.Minute)
	okNotice(t, err)
	out := map[uuid.UUID]bool{}
	for rows.Next() {
		values, err := rows.Values()
		okNotice(t, err)
		out[uuid.UUID(values[0].([16]byte))] = true
	}
	okNotice(t, rows.Err())
	return out
}

func TestHowANoticeEnds(t *testing.T) {
	ended := func(s *Store, n Notice) error { return s.NoticeSent(t.Context(), n.ID) }
	failed := func(s *Store, n Notice) error {
		return s.NoticeFailed(t.Context(), n.ID, n.Tries, "it answered 500", time.Hour)
	}
	dead := func(s *Store, n Notice) error { return s.NoticeDead(t.Context(), n.ID, n.Tries, "it answered 410") }
	late := func(step func(*Store, Notice) error) func(*Store, Notice) error {
		return func(s *Store, n Notice) error { n.Tries--; return step(s, n) }
	}
	for name, test := range map[string]struct {
		steps      []func(*Store, Notice) error
		state, why string
		due        bool
	}{
		"sent":                         {[]func(*Store, Notice) error{ended}, NoticeSent, "", false},
		"sent twice":                   {[]func(*Store, Notice) error{ended, ended}, NoticeSent, "", false},
		"failed":                       {[]func(*Store, Notice) error{failed}, NoticeWaiting, "it answered 500", false},
		"sent after all":               {[]func(*Store, Notice) error{failed, ended}, NoticeSent, "", false},
		"dead":                         {[]func(*Store, Notice) error{dead}, NoticeDead, "it answered 410", false},
		"dead stays dead":              {[]func(*Store, Notice) error{dead, ended, failed}, NoticeDead, "it answered 410", false},
		"sent stays sent":              {[]func(*Store, Notice) error{ended, dead, failed}, NoticeSent, "", false},
		"a failure that comes late":    {[]func(*Store, Notice) error{late(failed)}, NoticeWaiting, "", false},
		"a death that comes late":      {[]func(*Store, Notice) error{late(dead)}, NoticeWaiting, "", false},
		"an arrival that is told late": {[]func(*Store, Notice) error{late(ended)}, NoticeSent, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.store(t, "gw-1", nil)
			addNotices(t, w, s, 1)
			n := claim(t, s, 1, time.Minute)[0]
			for _, step := range test.steps {
				okNotice(t, step(s, n))
			}
			got := onlyNotice(t, s)
			if got.State != test.state || got.Error != test.why || (got.EndedAt == nil) != (test.state == NoticeWaiting) {
				t.Errorf("got %+v", got)
			}
			if test.state == NoticeWaiting && test.why != "" && got.NextAt.Sub(n.NextAt) < 50*time.Minute {
				t.Errorf("due at %s", got.NextAt)
			}
			w.exec(t, "update control.notices set next_at = next_at - interval '1 day'")
			if due := claim(t, s, 1, time.Minute); (len(due) == 1) != (test.state == NoticeWaiting) {
				t.Errorf("%d are due", len(due))
			}
		})
	}
}

func TestNoticesAreListedAndCounted(t *testing.T) {
	w := newWorld(t)
	s := w.store(t, "gw-1", nil)
	addNotices(t, w, s, 4)
	claimed := claim(t, s, 3, time.Minute)
	okNotice(t, s.NoticeDead(t.Context(), claimed[0].ID, 1, "a"))
	okNotice(t, s.NoticeDead(t.Context(), claimed[1].ID, 1, "b"))
	okNotice(t, s.NoticeSent(t.Context(), claimed[2].ID))
	for _, test := range []struct {
		filter NoticeFilter
		want   int
	}{{NoticeFilter{}, 4}, {NoticeFilter{Dead: true}, 2}, {NoticeFilter{Limit: 3}, 3}, {NoticeFilter{Dead: true, Limit: 1}, 1}, {NoticeFilter{Limit: 1 << 30}, 4}} {
		got, err := s.Notices(t.Context(), test.filter)
		if err != nil || len(got) != test.want {
			t.Errorf("%+v: %d, %v", test.filter, len(got), err)
		}
		for i, n := range got {
			if i > 0 && n.CreatedAt.After(got[i-1].CreatedAt) || test.filter.Dead && n.State != NoticeDead {
				t.Errorf("%+v: %+v at %d", test.filter, n, i)
			}
		}
	}
	// Dead ones count while their change waits: the bare changes here have no state at all.
	for _, still := range []int{0, 1, 2} {
		if still > 0 {
			w.exec(t, `insert into control.change_states (change_id, machine_id, binding, since, required, groups, self_approval)
				select id, machine_id, repeat($2, 64), now(), 1, '{}', false from control.changes where id = $1`,
				uuid.UUID(claimed[still-1].ChangeID), fmt.Sprint(still))
		}
		counts, err := s.NoticeCounts(t.Context())
		if err != nil || len(counts) != 2 || counts[NoticeWaiting] != 1 || counts[NoticeDead] != still {
			t.Errorf("%d dead ones of waiting changes: %v, %v", still, counts, err)
		}
	}
}

// Whatever text a try ends with, the row can hold it.
func TestReasonsAreMadeFitForARow(t *testing.T) {
	w := newWorld(t)
	s := w.store(t, "gw-1", nil)
	addNotices(t, w, s, 1)
	n := claim(t, s, 1, time.Minute)[0]
	for why, want := range map[string]string{
		"plain": "plain", "with\x00nul and\nline": "with nul and line", "bad \xff utf-8": "bad \uFFFD utf-8",
		"turned \u202e round": "turned   round", strings.Repeat("é", 400): strings.Repeat("é", 300) + "…",
	} {
		okNotice(t, s.NoticeFailed(t.Context(), n.ID, 1, why, time.Second))
		if got := onlyNotice(t, s).Error; got != want {
			t.Errorf("%q is kept as %q", why, got)
		}
	}
}
