package control

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"bronzeward/audit"
	"bronzeward/policy"
)

// bea, cleo and dan approve; the machine's operators are anna and boris.
var (
	bea  = policy.Person{Issuer: "https://id.test", Subject: "bea"}
	cleo = policy.Person{Issuer: "https://id.test", Subject: "cleo"}
	dan  = policy.Person{Issuer: "https://id.test", Subject: "dan"}
)

// asksFor is a law that asks for so many approvals by approvers.
func asksFor(n int) policy.Quorum { return policy.Quorum{Required: n, Groups: []string{"approvers"}} }

// proposal is a change of m from digestB to digestA, which one approval is enough for.
func proposal(m Machine) *NewChange {
	return &NewChange{
		ID: ChangeID(uuid.Must(uuid.NewV7())),
		Binding: Binding{
			MachineID: m.ID, Identity: m.Identity, Kind: "apply", Mode: "no-reboot",
			Digest: digestA, Size: 4, Base: digestB, Persistent: digestB,
		},
		Asked: asksFor(1), Sealed: []byte("sealed"), ApproveWithin: 24 * time.Hour, UseWithin: time.Hour,
		MostWaiting: 100, MostBytes: 1 << 20,
	}
}

// capturing is a judge whom only approvals are missing for.
func capturing(n *NewChange) func(Locked) Judgement {
	return func(l Locked) Judgement {
		j := allowOnly(l)
		j.Entry.Verdict, j.Quorum, j.Capture = audit.Denied, n.Asked, n
		return j
	}
}

// propose captures n on the machine for p.
func propose(t testing.TB, s *Store, p policy.Person, n *NewChange) Change {
	t.Helper()
	m, err := s.Machine(t.Context(), n.MachineID)
	if err != nil {
		t.Fatal(err)
	}
	adm, err := s.Admit(t.Context(), apply(*m, p), capturing(n))
	if err != nil {
		t.Fatal(err)
	}
	return *adm.Change
}

// spending is a careless judge: it allows the apply of a change whatever it sees.
func spending(id ChangeID, q policy.Quorum) func(Locked) Judgement {
	return func(l Locked) Judgement {
		j := allow(l)
		j.Attempt.Size, j.Spend, j.Quorum = 4, id, q
		return j
	}
}

// spendOf applies the change for p on the machine's present serial.
func spendOf(t testing.TB, s *Store, p policy.Person, c Change, q policy.Quorum) (*Attempt, error) {
	t.Helper()
	m, err := s.Machine(t.Context(), c.MachineID)
	if err != nil {
		t.Fatal(err)
	}
	adm, err := s.Admit(t.Context(), apply(*m, p), spending(c.ID, q))
	return adm.Attempt, err
}

// errLate is what taking an approval back comes to while its change is being sent.
var errLate = errors.New("it is being sent already")

// takeBack revokes an approval.
func takeBack(ctx context.Context, s *Store, id ApprovalID) error {
	a, err := s.RevokeApproval(ctx, id, "looked again", by(admin, "approvals.revoke"))
	if err == nil && a.SentAs != uuid.Nil {
		return errLate
	}
	return err
}

// approver is p as proven, one of the approvers.
func approver(p policy.Person) Approver {
	return Approver{Person: p, Kind: "human", Groups: []string{"approvers"}}
}

// approveAs approves c for p.
func approveAs(t testing.TB, s *Store, p policy.Person, c Change) (Approval, error) {
	t.Helper()
	list, err := s.Approve(t.Context(), approver(p), []ApproveOne{{ID: c.ID, Digest: c.Digest}}, by(p, "changes.approve"))
	if err != nil {
		return Approval{}, err
	}
	return list[0], nil
}

func approve(t testing.TB, s *Store, p policy.Person, c Change) Approval {
	t.Helper()
	a, err := approveAs(t, s, p, c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// approved is a change of the machine that bea has approved and nobody has spent.
func approved(t testing.TB, s *Store, name string) Change {
	t.Helper()
	c := propose(t, s, anna, proposal(get(t, s, name)))
	approve(t, s, bea, c)
	return change(t, s, c.ID)
}

func change(t testing.TB, s *Store, id ChangeID) Change {
	t.Helper()
	c, err := s.GetChange(context.WithoutCancel(t.Context()), id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wantState(t testing.TB, s *Store, id ChangeID, want ChangeState) Change {
	t.Helper()
	c := change(t, s, id)
	if c.State != want {
		t.Fatalf("change %s is %s (%s), want %s", id, c.State, c.Reason, want)
	}
	return c
}

func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	var c *ChangeError
	if !errors.As(err, &c) || c.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
}

// The table in Go and the one in the database are the same, and what has ended has ended.
func TestTheTransitionTableOfChangesIsOne(t *testing.T) {
	w := newWorld(t)
	for _, from := range ChangeStates() {
		for _, to := range ChangeStates() {
			n := w.count(t, "select control.change_may_become($1, $2)::int", string(from), string(to))
			if (n == 1) != from.MayBecome(to) {
				t.Errorf("%s to %s: the database says %d, Go says %t", from, to, n, from.MayBecome(to))
			}
			if !from.Live() && from != ChangeSpent && from.MayBecome(to) {
				t.Errorf("%s is not final: it may become %s", from, to)
			}
		}
	}
}

// moveRow is a step that meets every constraint but the trigger's table of steps.
const moveRow = `update control.change_states set state = $2::text, since = clock_timestamp(), reason = 'because',
	use_by = clock_timestamp() + interval '1 hour', attempt_id = case when $2::text = 'spent' then $3::uuid end where change_id = $1`

// Whatever the code says, a change's row takes no step outside the table, and a step that is
// taken is written down.
func TestAChangesRowRefusesOtherSteps(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	c := approved(t, s, "w1")
	a, err := spendOf(t, s, anna, c, asksFor(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: StateRejected, Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	for _, from := range ChangeStates() {
		for _, to := range ChangeStates() {
			w.exec(t, moveRow, uuid.UUID(c.ID), string(from), a.ID)
			before := w.count(t, "select count(*) from control.change_steps")
			_, err := w.root.Exec(t.Context(), moveRow, uuid.UUID(c.ID), string(to), a.ID)
			steps := w.count(t, "select count(*) from control.change_steps") - before
			if may := from == to || from.MayBecome(to); (err == nil) != may {
				t.Errorf("%s to %s: %v", from, to, err)
			}
			if want := map[bool]int{true: 1}[from.MayBecome(to)]; steps != want {
				t.Errorf("%s to %s: %d steps are written down, want %d", from, to, steps, want)
			}
		}
	}
	for _, state := range States() {
		t.Run("given back by an attempt that is "+string(state), func(t *testing.T) {
			w.exec(t, moveRow, uuid.UUID(c.ID), "spent", a.ID)
			w.exec(t, `update control.attempts set state = $2::text, unresolved_at = clock_timestamp(), landed = true, reason = 'x',
				closed_at = case when $2::text not in ('open', 'unresolved') then clock_timestamp() end,
				read_active = digest, read_persistent = digest where id = $1`, a.ID, string(state))
			_, err := w.root.Exec(t.Context(), moveRow, uuid.UUID(c.ID), "approved", a.ID)
			if may := state == StateRejected || state == StateNotSent; (err == nil) != may {
				t.Errorf("%v", err)
			}
		})
	}
}

// A change, its review and its approvals stay as they were written, for the owner's hand too.
func TestChangesAndApprovalsAreImmutable(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 2)
	c := approved(t, s, "w1")
	taken := approve(t, s, cleo, c)
	if _, err := s.RevokeApproval(t.Context(), taken.ID, "a slip", by(admin, "approvals.revoke")); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"changes", "change_reviews", "change_steps", "approvals", "approval_revocations", "change_states"} {
		for _, sql := range []string{"delete from control.%s", "truncate control.%s cascade"} {
			if _, err := w.root.Exec(t.Context(), fmt.Sprintf(sql, table)); err == nil {
				t.Errorf("taken: "+sql, table)
			}
		}
	}
	for _, sql := range []string{
		"update control.changes set digest = 'x'", "update control.change_reviews set changes = '[]'",
		"update control.change_steps set reason = 'x'", "update control.approvals set digest = 'x'",
		"update control.approval_revocations set reason = 'x'", "update control.sealed_bytes set sealed = 'x'",
		"update control.change_states set binding = repeat('0', 64)", "update control.change_states set machine_id = (select id from control.machines where name = 'w2')",
		"update control.approvals set kind = 'automation'",
	} {
		var pg *pgconn.PgError
		if _, err := w.root.Exec(t.Context(), sql); !errors.As(err, &pg) {
			t.Errorf("taken: %s", sql)
		}
	}
	if got := change(t, s, c.ID); got.Digest != digestA || len(got.Approvals) != 2 {
		t.Errorf("the change is %+v", got)
	}
}
