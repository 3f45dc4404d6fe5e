package gateway

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/control"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
)

// What an adoption changes is told as not known where no copy of what was applied is kept, however
// the change is read. Control: with the copy it is known.
func TestAnAdoptionSaysWhetherItsDifferencesAreKnown(t *testing.T) {
	t.Parallel()
	for _, kept := range []bool{true, false} {
		h := approving(t, oneApproval, nil)
		d := h.patched(t, labelled("patched"))
		if !kept {
			ok(t, h.db.Exec(t.Context(), "delete from control.applied_copies"))
		}
		c, _, err := h.acts().SettleDrift(t.Context(), h.actor(t, "olga"), d.ID, control.KindAdopt, "seen", nil)
		ok(t, err)
		read := must(h.store.GetChange(t.Context(), c.ID))(t)
		listed := must(h.store.ListChanges(t.Context(), control.ChangeFilter{}))(t)
		review := must(h.store.GetReview(t.Context(), c.ID))(t)
		if c.NotCompared == kept || read.NotCompared == kept || listed[0].NotCompared == kept || review.Compared() != kept {
			t.Errorf("with a copy kept %t it is said that nothing could be compared: %t, read %t, listed %t; reviewed as compared %t",
				kept, c.NotCompared, read.NotCompared, listed[0].NotCompared, review.Compared())
		}
	}
}

// lost makes an unresolved attempt of olga's on w1.
func (h *house) lost(t *testing.T) uuid.UUID {
	t.Helper()
	ok(t, h.nodes["w1"].Fault(talosd.Fault{Kind: talosd.ResetRequest}))
	refusedWith(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))), codes.DeadlineExceeded, "BW-ATTEMPT-004")
	return must(uuid.Parse(h.texts(t, "select id::text from control.attempts")[0]))(t)
}

// A retired machine is not asked for anything: who would look at it, or judge its attempt, is told
// that it is retired, and not that it does not answer. Control: before that both look at it.
func TestNobodyLooksAtARetiredMachine(t *testing.T) {
	t.Parallel()
	h := newHouse(t, hurried)
	id := h.lost(t)
	rhea := h.actor(t, "rhea")
	_, err := h.acts().Account(t.Context(), rhea, id, false, "why", nil)
	if !errors.Is(err, control.ErrTooEarly) || !regexp.MustCompile(`^it may land yet: attempt `+id.String()+` may be accounted for from \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC on$`).MatchString(err.Error()) {
		t.Errorf("before the floor: %v", err)
	}
	_ = must(h.acts().Observe(t.Context(), h.actor(t, "otto"), "w1", nil))(t)
	if a := must(h.store.GetAttempt(t.Context(), id))(t); a.Retired {
		t.Error("its machine is said to be retired")
	}
	_ = must(h.acts().RetireMachine(t.Context(), rhea, "w1", "burnt", nil))(t)
	if _, err := h.acts().Observe(t.Context(), h.actor(t, "otto"), "w1", nil); !errors.Is(err, control.ErrRetired) {
		t.Errorf("observing: %v", err)
	}
	if _, err := h.acts().Account(t.Context(), rhea, id, false, "why", nil); !errors.Is(err, control.ErrRetired) {
		t.Errorf("accounting: %v", err)
	}
	if a := must(h.store.GetAttempt(t.Context(), id))(t); !a.Retired || a.State != control.StateUnresolved {
		t.Errorf("the attempt is %s, retired %t", a.State, a.Retired)
	}
}

// A dry run waits for an attempt nobody can answer for, and is told by the law which. Control: it
// passes once that is settled.
func TestADryRunWaitsForAnUnresolvedAttempt(t *testing.T) {
	t.Parallel()
	h := newHouse(t, hurried)
	id := h.lost(t)
	c := h.as(t, "olga")
	dry := applyRequest(t, labelled("two"), machine.ApplyConfigurationRequest_NO_REBOOT, true)
	a := c.apply(t, "w1", dry)
	refusedWith(t, a, codes.PermissionDenied, "BW-HOLDS-002")
	if !strings.Contains(a.text(), "try: bronzeward attempts show "+id.String()) {
		t.Errorf("it does not say what to do: %s", a.text())
	}
	ok(t, h.nodes["w1"].SetConfig(labelled("one")))
	ok(t, h.gw.settleOnce(t.Context()))
	succeeded(t, c.apply(t, "w1", dry))
}

// Where nothing was captured nobody is told of approvals. The book has what the law said. Control: of
// a change that waits it is said.
func TestAHeldMachinesRefusalSpeaksOfNoApprovalThatNobodyCanGive(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	h.freeze(t, "otto", "w1", "stop")
	c := h.as(t, "olga")
	a := c.apply(t, "w1", noReboot(t, labelled("one")))
	refusedWith(t, a, codes.PermissionDenied, "BW-HOLDS-003")
	if strings.Contains(a.text(), "approval") {
		t.Errorf("it speaks of approvals: %s", a.text())
	}
	if n := h.count(t, "select count(*) from audit.entries where codes @> array['BW-HOLDS-003', 'BW-APPROVAL-001']"); n != 1 {
		t.Errorf("%d entries have both reasons", n)
	}
	_ = must(h.acts().UnfreezeMachine(t.Context(), h.actor(t, "ada"), "w1", "fine", nil))(t)
	refusedWith(t, c.apply(t, "w1", noReboot(t, labelled("one"))), codes.PermissionDenied, "BW-APPROVAL-001")
	h.freeze(t, "otto", "w1", "stop")
	a = c.apply(t, "w1", noReboot(t, labelled("one")))
	refusedWith(t, a, codes.PermissionDenied, "BW-HOLDS-003")
	if !strings.Contains(a.text(), "also BW-APPROVAL-001: change chg_") {
		t.Errorf("it does not say that a change waits: %s", a.text())
	}
}

// Of an attempt whose owner's lease has ended it is not claimed that it was sent, nor that its owner
// is gone; of a judgement the book says what it was, and what contradicts it.
func TestTheRecordClaimsNothingThatIsNotKnown(t *testing.T) {
	t.Parallel()
	h := newHouse(t, hurried)
	id := h.lost(t)
	ok(t, h.db.Exec(t.Context(), "update control.attempts set state = 'open', unresolved_at = null, instance = 'elsewhere'"))
	h.leaseEnds(t)
	ok(t, h.gw.settleOnce(t.Context()))
	if got := h.reason(t); got != "the lease of elsewhere ended, and whether it sent the bytes is not known" {
		t.Errorf("it is unresolved because %q", got)
	}
	_ = must(h.acts().Account(t.Context(), h.actor(t, "rhea"), id, true, "I saw it", nil))(t)
	got := h.texts(t, "select state || ' ' || code || ' ' || (convert_from(record, 'utf8')::json->>'message') from audit.outcomes where attempt_id = $1 and kind = 'accounted'", id)
	if len(got) != 1 || got[0] != "failed landed I saw it" {
		t.Errorf("the book says %q", got)
	}
	if _, err := h.acts().Account(t.Context(), h.actor(t, "rhea"), id, true, "again", nil); err == nil || err.Error() != "attempt "+id.String()+" is failed; only an unresolved one is accounted for" {
		t.Errorf("again: %v", err)
	}
}
