package control

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"bronzeward/policy"
)

// takingAway are the acts that take from a change approved by bea and proposed by anna.
var takingAway = []struct {
	name string
	// authority is true when the act waits at the authority lock, whatever else it needs.
	authority bool
	do        func(*testing.T, *Store, Change) error
	// left is what the change is when the act came first; after a decision that was first, it is spent.
	left ChangeState
	// after is whether the act succeeds although the change was spent meanwhile.
	after bool
}{
	{"its approval is revoked", true, func(t *testing.T, s *Store, c Change) error {
		return takeBack(t.Context(), s, c.Approvals[0].ID)
	}, ChangeWaiting, false},
	{"its approver is revoked", true, func(t *testing.T, s *Store, _ Change) error {
		_, err := s.RevokeIdentity(t.Context(), bea, "left", by(admin, "identities.revoke"))
		return err
	}, ChangeWaiting, true},
	{"its requester is revoked", true, func(t *testing.T, s *Store, _ Change) error {
		_, err := s.RevokeIdentity(t.Context(), anna, "left", by(admin, "identities.revoke"))
		return err
	}, ChangeRevoked, true},
	{"its spender is revoked", true, func(t *testing.T, s *Store, _ Change) error {
		_, err := s.RevokeIdentity(t.Context(), boris, "left", by(admin, "identities.revoke"))
		return err
	}, ChangeApproved, true},
	{"it is rejected", true, func(t *testing.T, s *Store, c Change) error {
		_, err := s.Reject(t.Context(), c.ID, "no", by(cleo, "changes.reject"))
		return err
	}, ChangeRejected, false},
	{"it is cancelled", true, func(t *testing.T, s *Store, c Change) error {
		_, err := s.Cancel(t.Context(), c.ID, "no", by(anna, "changes.cancel"))
		return err
	}, ChangeCancelled, false},
	{"it is over", false, func(t *testing.T, s *Store, _ Change) error {
		_, err := s.ExpireChanges(t.Context())
		return err
	}, ChangeApproved, true},
}

// atAuthority is how many sessions wait at the authority lock.
const atAuthority = "select count(*) from pg_locks where relation = 'control_gate.authority'::regclass and not granted"

// I3: whatever takes a change's authority away waits for a decision that is under way, and a
// decision after it has seen it.
func TestWhatTakesAwayWaitsForADecision(t *testing.T) {
	for _, row := range takingAway {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			s := w.house(t, 2)
			ok(t)(s.SetRolloutLimit(t.Context(), "lab", 10, by(admin, "clusters.limit")))
			other := w.store(t, "gw-2", nil)
			c, second := approved(t, s, "w1"), approved(t, s, "w2")
			decision := paused(t, s, apply(get(t, s, "w1"), boris), spending(c.ID, asksFor(1)))
			if !row.authority {
				// Due by a read that is not under the lock: the act itself looks again under it.
				due := sqlChangesDue
				t.Cleanup(func() { sqlChangesDue = due })
				sqlChangesDue = "select id from control.changes"
			}
			done := make(chan error, 1)
			go func() { done <- row.do(t, other, c) }()
			w.waiting(t, 1)
			if n := w.count(t, atAuthority); (n == 1) != row.authority {
				t.Errorf("%d sessions wait at the authority lock", n)
			}
			select {
			case err := <-done:
				t.Fatalf("the act returned (%v) while a decision was under way", err)
			default:
			}
			if _, err := decision(); err != nil {
				t.Fatalf("the decision that was first: %v", err)
			}
			if err := <-done; (err == nil) != row.after {
				t.Fatalf("after the decision: %v", err)
			}
			wantState(t, s, c.ID, ChangeSpent)

			if !row.after {
				if err := row.do(t, other, second); err != nil {
					t.Fatal(err)
				}
			}
			wantState(t, s, second.ID, row.left)
			if _, err := spendOf(t, s, boris, second, asksFor(1)); (err == nil) != !row.authority {
				t.Errorf("a decision after it: %v", err)
			}
		})
	}
}

// unlocked takes row locks off the statements by which changes are locked.
func unlocked(t *testing.T) {
	t.Helper()
	for _, sql := range []*string{&sqlMachineForUpdate, &sqlChangesLockLive, &sqlChangeMachinesLock, &sqlChangesLock} {
		locked := *sql
		t.Cleanup(func() { *sql = locked })
		*sql = strings.NewReplacer("for update of m", "", "for update", "").Replace(locked)
		if *sql == locked {
			t.Fatalf("nothing to take off: %s", locked)
		}
	}
}

// without are the guards between a revoked approval and a decision that read it before, in the
// order they stand.
var without = []struct {
	name string
	take func(*testing.T, *world)
	// holds is true while what is left of the guards still holds.
	waits, holds bool
	says         string
}{
	{"the authority lock", func(t *testing.T, w *world) {
		w.exec(t, `create or replace function control.lock_authority_shared() returns void language sql as $$ select null::void $$`)
	}, true, false, ""},
	{"and the row locks", func(t *testing.T, _ *world) { unlocked(t) }, false, true, "attempts_approvals"},
	{"and the row that counts", func(t *testing.T, w *world) {
		w.exec(t, "drop trigger attempts_approved on control.attempts")
	}, false, true, "does not become spent"},
	{"and the table of steps", func(t *testing.T, w *world) {
		w.exec(t, "drop trigger change_states_step on control.change_states")
	}, false, false, ""},
}

// Control: one guard after the other is taken off. With the last one, a decision commits that
// counted an approval which had been revoked before, and had returned.
func TestControlADecisionThatCountsARevokedApproval(t *testing.T) {
	for n, last := range without {
		t.Run("without "+last.name, func(t *testing.T) {
			w := newWorld(t)
			s := w.house(t, 1)
			other := w.store(t, "gw-2", nil)
			c := approved(t, s, "w1")
			for _, row := range without[:n+1] {
				row.take(t, w)
			}
			decision := paused(t, s, apply(get(t, s, "w1"), boris), spending(c.ID, asksFor(1)))
			done := make(chan error, 1)
			go func() {
				done <- takeBack(t.Context(), other, c.Approvals[0].ID)
			}()
			if last.waits {
				w.waiting(t, 1)
				if _, err := decision(); err != nil {
					t.Fatal(err)
				}
				wantErr(t, <-done, errLate)
				return
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			_, err := decision()
			if last.holds {
				if err == nil || !strings.Contains(err.Error(), last.says) {
					t.Fatalf("got %v, want a refusal that says %q", err, last.says)
				}
				return
			}
			if err != nil {
				t.Fatalf("without any guard: %v", err)
			}
			bad := w.count(t, `select count(*) from control.attempts a join control.approvals p on p.change_id = a.change_id
				join control.approval_revocations r on r.approval_id = p.id join audit.entries e on e.id = a.entry_id
				where a.state = 'open' and a.approvals_required = 1 and r.revoked_at < e.recorded_at`)
			if bad != 1 {
				t.Error("the bad end state did not come: the tests above prove nothing")
			}
		})
	}
}

// Control: without the authority lock, a decision commits for a spender whose revocation had
// returned; no row of the change stands in the way of that one, and the attempt's does.
func TestControlADecisionForARevokedSpender(t *testing.T) {
	for _, rows := range []bool{true, false} {
		w := newWorld(t)
		s := w.house(t, 1)
		c := approved(t, s, "w1")
		w.exec(t, `create or replace function control.lock_authority_shared() returns void language sql as $$ select null::void $$`)
		if !rows {
			w.exec(t, "drop trigger attempts_open on control.attempts")
		}
		decision := paused(t, s, apply(get(t, s, "w1"), boris), spending(c.ID, asksFor(1)))
		revoked(t)(s.RevokeIdentity(t.Context(), boris, "left", by(admin, "identities.revoke")))
		_, err := decision()
		if rows {
			wantGuard(t, err, "attempts_caller_not_revoked")
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := w.count(t, `select count(*) from control.attempts a join control.identity_revocations r on (r.issuer, r.subject) = (a.issuer, a.subject)
			where a.change_id = $1 and a.state = 'open'`, uuid.UUID(c.ID)); n != 1 {
			t.Error("the bad end state did not come")
		}
	}
}

// A revocation that waits is not overtaken: decisions that come later queue behind it.
func TestLaterDecisionsQueueBehindARevocation(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 2)
	ok(t)(s.SetRolloutLimit(t.Context(), "lab", 10, by(admin, "clusters.limit")))
	one, two := approved(t, s, "w1"), approved(t, s, "w2")
	decision := paused(t, s, apply(get(t, s, "w1"), boris), spending(one.ID, asksFor(1)))
	revoked := make(chan error, 1)
	go func() {
		_, err := s.RevokeIdentity(t.Context(), bea, "left", by(admin, "identities.revoke"))
		revoked <- err
	}()
	w.waiting(t, 1)
	later := make(chan error, 1)
	r := apply(get(t, s, "w2"), boris)
	go func() {
		_, err := s.Admit(t.Context(), r, spending(two.ID, asksFor(1)))
		later <- err
	}()
	w.waiting(t, 2)
	if _, err := decision(); err != nil {
		t.Fatal(err)
	}
	if err := <-revoked; err != nil {
		t.Fatal(err)
	}
	wantGuard(t, <-later, "attempts_approvals")
	wantState(t, s, two.ID, ChangeWaiting)
	var none policy.Person
	if got := change(t, s, one.ID); len(got.Counting(asksFor(1), none, got.Epoch)) != 0 {
		t.Error("bea's approval still counts")
	}
}
