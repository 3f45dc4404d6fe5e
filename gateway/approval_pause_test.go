package gateway

import (
	"context"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/faults"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// pausing is a judge that can be stopped inside the transaction of an apply: between what it
// reads under the locks and its commit.
type pausing struct {
	*policy.Engine
	armed   atomic.Bool
	seen    atomic.Int32
	reached chan struct{}
	release chan struct{}
}

func (p *pausing) Decide(ctx context.Context, f *policy.Facts) policy.Decision {
	d := p.Engine.Decide(ctx, f)
	// Of an approved change the first final judgement is before the transaction, the second in it.
	if p.armed.Load() && f.Call.Class == policy.ClassApply && f.Phase == "final" && p.seen.Add(1) == 2 {
		close(p.reached)
		<-p.release
	}
	return d
}

// pausedHouse makes a house whose judge can be stopped.
func pausedHouse(t testing.TB) (*house, *pausing) {
	t.Helper()
	judge := &pausing{Engine: must(oneApproval())(t).engine, reached: make(chan struct{}), release: make(chan struct{})}
	return approving(t, oneApproval, func(s *setup) { s.gateway = func(c *Config) { c.Judge = judge } }), judge
}

// I3 with changes: what takes authority away while an apply is being decided waits for that
// decision, whatever it is that is taken; the apply is of before, and the change is spent.
func TestARevocationWaitsForTheApplyThatIsBeingDecidedOnAChange(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		revoke func(testing.TB, *house, control.ChangeID) error
		late   string // what the revocation is told once the change is spent
	}{
		{"of the approval", func(t testing.TB, h *house, id control.ChangeID) error { return h.revokeApproval(t, id) }, "BW-CHANGE-002"},
		{"of the approver", func(t testing.TB, h *house, _ control.ChangeID) error { return h.revokePerson(t, "ada") }, ""},
		{"of the requester", func(t testing.TB, h *house, _ control.ChangeID) error { return h.revokePerson(t, "olga") }, ""},
		{"of the spender", func(t testing.TB, h *house, _ control.ChangeID) error { return h.revokePerson(t, "otto") }, ""},
		{"a rejection", func(t testing.TB, h *house, id control.ChangeID) error {
			_, err := h.acts().Reject(context.Background(), h.actor(t, "abel"), id, "no", nil)
			return err
		}, "BW-CHANGE-002"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h, judge := pausedHouse(t)
			id := h.approved(t, labelled("one"))
			h.acts() // what the revocation needs is there before anything waits
			judge.armed.Store(true)
			apply := h.goApplyChange(t, "otto", id, nil)
			<-judge.reached
			revoked := make(chan error, 1)
			go func() { revoked <- row.revoke(t, h, id) }()
			h.waiting(t, 1)
			select {
			case err := <-revoked:
				t.Fatalf("the revocation came back before the decision was committed: %v", err)
			default:
			}
			close(judge.release)
			a := <-apply
			ok(t, a.err)
			// An approval can be taken back for as long as its attempt is open; that stops nothing.
			if err := <-revoked; tell(err).code != row.late && (err != nil || row.name != "of the approval") {
				t.Errorf("the revocation was told %v, want %q", err, row.late)
			}
			h.is(t, id, control.ChangeSpent)
			if n := len(h.applies("w1")); n != 1 || a.Attempt.State != control.StateCompleted {
				t.Errorf("the node was sent %d applies, the attempt is %s", n, a.Attempt.State)
			}
		})
	}
}

// Control: without the authority lock the revocation of the spender comes back at once. When
// that is before the attempt's row, the row still refuses; when it is between row and commit,
// the apply of somebody who is revoked by then goes out.
func TestWithoutTheLockARevokedSpendersApplyGoesOut(t *testing.T) {
	t.Parallel()
	const noLock = `create or replace function control.lock_authority_shared() returns void language sql as $$ select null::void $$`
	t.Run("before the row", func(t *testing.T) {
		t.Parallel()
		h, judge := pausedHouse(t)
		id := h.approved(t, labelled("one"))
		ok(t, h.db.Exec(t.Context(), noLock))
		judge.armed.Store(true)
		apply := h.goApplyChange(t, "otto", id, nil)
		<-judge.reached
		ok(t, h.revokePerson(t, "otto"))
		close(judge.release)
		actRefused(t, (<-apply).err, "BW-INVARIANT-016")
		h.sentNothing(t)
		h.is(t, id, control.ChangeApproved)
	})
	t.Run("between row and commit", func(t *testing.T) {
		t.Parallel()
		h := approving(t, oneApproval, func(s *setup) { s.proxied = true })
		id := h.approved(t, labelled("one"))
		ok(t, h.db.Exec(t.Context(), noLock))
		f := h.proxy.Order(faults.HoldRequest, attemptRow)
		apply := h.goApplyChange(t, "otto", id, nil)
		<-f.Met()
		ok(t, h.revokePerson(t, "otto"))
		h.sentNothing(t)
		f.Release()
		if a := <-apply; a.err != nil || len(h.applies("w1")) != 1 {
			t.Errorf("the apply came to %v: the lock is not what holds it", a.err)
		}
	})
}

// The attempt's row says it once more: an approval that is taken back under a decision's feet,
// by whoever goes round all locks, leaves nothing to send. Control: without the row's trigger
// the apply goes out on an approval that is revoked.
func TestTheAttemptsRowCountsTheApprovalsAgain(t *testing.T) {
	t.Parallel()
	for _, guarded := range []bool{true, false} {
		t.Run(map[bool]string{true: "trigger", false: "control: no trigger"}[guarded], func(t *testing.T) {
			t.Parallel()
			h, judge := pausedHouse(t)
			h.approved(t, labelled("one"))
			if !guarded {
				ok(t, h.db.Exec(t.Context(), "drop trigger attempts_approved on control.attempts"))
			}
			judge.armed.Store(true)
			apply := h.as(t, "otto").goApply(bounded(t), "w1", noReboot(t, labelled("one")))
			<-judge.reached
			ok(t, h.db.Exec(t.Context(), `insert into control.approval_revocations (approval_id, reason, issuer, subject, authority_version, entry_id, revoked_at)
				select id, 'behind', '', '', 0, gen_random_uuid(), clock_timestamp() from control.approvals`))
			close(judge.release)
			a := <-apply
			if !guarded {
				if a.err != nil || len(h.applies("w1")) != 1 {
					t.Errorf("it came to %v: the trigger is not what refuses", a.err)
				}
				return
			}
			refusedWith(t, a, codes.PermissionDenied, "BW-INVARIANT-016")
			h.sentNothing(t)
			if n := len(h.attempts(t)); n != 0 {
				t.Errorf("%d attempts", n)
			}
		})
	}
}
