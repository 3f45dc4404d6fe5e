package control

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"bronzeward/policy"
)

// Revoking an identity ends their waiting changes and takes their unspent approvals back, in
// the same transaction; what is spent, and what is others', stays.
func TestRevokingAnIdentityTakesFromChanges(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 6)
	ok(t)(s.SetRolloutLimit(t.Context(), "lab", 10, by(admin, "clusters.limit")))
	propose1 := func(name string, p policy.Person, required int) Change {
		n := proposal(get(t, s, name))
		n.Asked = asksFor(required)
		return propose(t, s, p, n)
	}
	own := propose1("w1", bea, 1)
	ownApproved := propose1("w2", bea, 1)
	approve(t, s, cleo, ownApproved)
	others := propose1("w3", anna, 1)
	taken := approve(t, s, bea, others)
	enough := propose1("w4", anna, 1)
	approve(t, s, cleo, enough)
	spare := approve(t, s, bea, enough)
	spent := propose1("w5", anna, 1)
	used := approve(t, s, bea, spent)
	if _, err := spendOf(t, s, anna, spent, asksFor(1)); err != nil {
		t.Fatal(err)
	}
	untouched := propose1("w6", anna, 1)
	approve(t, s, cleo, untouched)
	before := w.count(t, "select count(*) from control.change_steps where change_id = $1", uuid.UUID(untouched.ID))

	r, err := s.RevokeIdentity(t.Context(), bea, "left the house", by(admin, "identities.revoke"))
	if err != nil || !r.Seen {
		t.Fatalf("bea has approved, and was seen %t; %v", r.Seen, err)
	}
	for _, row := range []struct {
		name   string
		c      Change
		want   ChangeState
		reason string
		moved  bool
	}{
		{"bea's own", own, ChangeRevoked, "its requester was revoked", true},
		{"bea's own, approved", ownApproved, ChangeRevoked, "its requester was revoked", true},
		{"one that bea's approval was enough for", others, ChangeWaiting, "an approver was revoked", true},
		{"one that another approval is enough for", enough, ChangeApproved, "", false},
		{"one that is spent", spent, ChangeSpent, "", false},
		{"somebody else's", untouched, ChangeApproved, "", false},
	} {
		got := wantState(t, s, row.c.ID, row.want)
		if row.moved && (got.Reason != row.reason || got.By != admin || !got.Since.Equal(r.RevokedAt)) {
			t.Errorf("%s: %q by %v at %s, want %q by the admin at %s", row.name, got.Reason, got.By, got.Since, row.reason, r.RevokedAt)
		}
	}
	for _, row := range []struct {
		a     Approval
		taken bool
	}{{taken, true}, {spare, true}, {used, false}} {
		n := w.count(t, `select count(*) from control.approval_revocations r, control.authority v
			where r.approval_id = $1 and r.authority_version = v.version and r.entry_id = $2`, uuid.UUID(row.a.ID), r.EntryID)
		if (n == 1) != row.taken {
			t.Errorf("approval of %s: %d rows take it back", row.a.ChangeID, n)
		}
	}
	// All of it is one transaction's: the revocation's own row, and every row it moved.
	if n := w.count(t, `select count(distinct x) from (
		select xmin::text x from control.identity_revocations union all select xmin::text from control.approval_revocations
		union all select xmin::text from control.change_states where change_id = any($1)) rows`,
		[]uuid.UUID{uuid.UUID(own.ID), uuid.UUID(ownApproved.ID), uuid.UUID(others.ID)}); n != 1 {
		t.Errorf("%d transactions wrote it", n)
	}
	if n := w.count(t, "select count(*) from control.change_steps where change_id = $1", uuid.UUID(untouched.ID)); n != before {
		t.Error("somebody else's change was written to")
	}
	_, err = approveAs(t, s, bea, others)
	wantGuard(t, err, "caller_not_revoked")
	_, err = approveAs(t, s, cleo, own)
	if wantCode(t, err, "BW-CHANGE-002"); !strings.Contains(err.Error(), "its requester was revoked") {
		t.Errorf("it says %v", err)
	}
}

// Somebody nobody has seen can be revoked, and cannot begin afterwards. There is no way back.
func TestASubjectNobodyHasSeenCanBeRevoked(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	ghost := policy.Person{Issuer: "https://id.test", Subject: "gh\u043est"} // the o is Cyrillic
	first, err := s.RevokeIdentity(t.Context(), ghost, "named in a report", by(admin, "identities.revoke"))
	if err != nil || first.Seen {
		t.Fatalf("seen %t; %v", first.Seen, err)
	}
	_, err = s.RevokeIdentity(t.Context(), ghost, "once more", by(admin, "identities.revoke"))
	wantErr(t, err, ErrConflict)
	if want := "is revoked already, since " + first.RevokedAt.UTC().Format(time.RFC3339) + ": named in a report"; !strings.HasSuffix(err.Error(), want) {
		t.Errorf("no %q in %v", want, err)
	}
	_, err = s.Admit(t.Context(), apply(get(t, s, "w1"), ghost), capturing(proposal(get(t, s, "w1"))))
	wantGuard(t, err, "caller_not_revoked")
	c := propose(t, s, policy.Person{Issuer: ghost.Issuer, Subject: "ghost"}, proposal(get(t, s, "w1")))
	_, err = approveAs(t, s, ghost, c)
	wantGuard(t, err, "caller_not_revoked")
	list, err := s.Revocations(t.Context())
	if err != nil || len(list) != 1 || list[0].Person != ghost || list[0].Reason != "named in a report" || !list[0].RevokedAt.Equal(first.RevokedAt) {
		t.Errorf("the list is %+v, %v", list, err)
	}
}

// A change that is being sent while somebody is revoked, and then comes back because its
// attempt changed nothing, does not come back with what was revoked.
func TestAChangeGivenBackLooksAgain(t *testing.T) {
	rows := []struct {
		name   string
		who    policy.Person
		want   ChangeState
		reason string
	}{
		{"its requester was revoked", anna, ChangeRevoked, "its requester was revoked"},
		{"its approver was revoked", bea, ChangeWaiting, "an approver was revoked"},
		{"its spender was revoked", boris, ChangeApproved, "its attempt changed nothing"},
		{"somebody else was revoked", dan, ChangeApproved, "its attempt changed nothing"},
	}
	for _, to := range []State{StateRejected, StateNotSent} {
		w := newWorld(t)
		s := w.house(t, len(rows))
		ok(t)(s.SetRolloutLimit(t.Context(), "lab", 100, by(admin, "clusters.limit")))
		for i, row := range rows {
			t.Run(row.name+", "+string(to), func(t *testing.T) {
				// Whoever is revoked for one row has no part in the others.
				part := func(p policy.Person) policy.Person {
					if p != row.who {
						p.Subject += fmt.Sprint(i)
					}
					return p
				}
				c := propose(t, s, part(anna), proposal(get(t, s, fmt.Sprintf("w%d", i+1))))
				approve(t, s, part(bea), c)
				a, err := spendOf(t, s, part(boris), c, asksFor(1))
				if err != nil {
					t.Fatal(err)
				}
				revoked(t)(s.RevokeIdentity(t.Context(), row.who, "left", by(admin, "identities.revoke")))
				wantState(t, s, c.ID, ChangeSpent)
				if err := s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: to}); err != nil {
					t.Fatal(err)
				}
				if got := wantState(t, s, c.ID, row.want); !strings.HasPrefix(got.Reason, row.reason) {
					t.Errorf("the reason is %q", got.Reason)
				}
			})
		}
	}
}

// A revocation and the end of an attempt at once: the revocation locks what is being sent, so
// that whichever is first, the change does not come back with what was revoked. Control: when
// it locks live changes only, it does.
func TestARevocationWaitsForWhatIsBeingGivenBack(t *testing.T) {
	for _, locks := range []bool{true, false} {
		w := newWorld(t)
		s := w.house(t, 1)
		c := approved(t, s, "w1")
		a, err := spendOf(t, s, boris, c, asksFor(1))
		if err != nil {
			t.Fatal(err)
		}
		if !locks {
			of := sqlChangesOfPerson
			t.Cleanup(func() { sqlChangesOfPerson = of })
			sqlChangesOfPerson = strings.Replace(of, "t.state = 'open'", "false", 1)
		}
		tx, err := s.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context())
		locked, now, err := lockAttempt(t.Context(), tx, a.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "update control.attempts set state = 'not_sent', closed_at = $2 where id = $1", a.ID, now); err != nil {
			t.Fatal(err)
		}
		if err := afterAttempt(t.Context(), tx, &locked, StateNotSent, "", ""); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := s.RevokeIdentity(t.Context(), anna, "left", by(admin, "identities.revoke"))
			done <- err
		}()
		if locks {
			w.waiting(t, 1)
		} else if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !locks {
			wantState(t, s, c.ID, ChangeApproved) // of somebody who was revoked: the bad end state
			continue
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		wantState(t, s, c.ID, ChangeRevoked)
	}
}

// One who revokes needs a reason, of printable bytes, and nothing is written without.
func TestTakingBackNeedsAReason(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	c := approved(t, s, "w1")
	for _, reason := range []string{"", "a\x00b", "a\nb", "\xff", strings.Repeat("x", maxReason+1)} {
		_, err := s.RevokeApproval(t.Context(), c.Approvals[0].ID, reason, by(admin, "approvals.revoke"))
		wantErr(t, err, ErrInvalid)
		_, err = s.Reject(t.Context(), c.ID, reason, by(bea, "changes.reject"))
		wantErr(t, err, ErrInvalid)
		_, err = s.Cancel(t.Context(), c.ID, reason, by(anna, "changes.cancel"))
		wantErr(t, err, ErrInvalid)
		_, err = s.RevokeIdentity(t.Context(), bea, reason, by(admin, "identities.revoke"))
		wantErr(t, err, ErrInvalid)
	}
	_, err := s.RevokeApproval(t.Context(), ApprovalID(newID(t)), "no", by(admin, "approvals.revoke"))
	wantErr(t, err, ErrNotFound)
	got := wantState(t, s, c.ID, ChangeApproved)
	if got.Approvals[0].Revoked || w.count(t, "select count(*) from control.identity_revocations") != 0 {
		t.Error("something was taken back")
	}
}
