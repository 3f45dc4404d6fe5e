package gateway

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// An approved change is sent by its id, the same way through the same function: judged, spent,
// written, sent once, read back. The requester may do it, and any other operator, who then is
// the spender on record.
func TestAnApprovedChangeIsAppliedByItsID(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"olga", "otto", "bot-ci"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			h := approving(t, oneApproval, nil)
			text := labelled("one")
			id := h.approved(t, text)
			out, err := h.applyChange(t, who, id)
			ok(t, err)
			if out.Attempt.State != control.StateCompleted || out.Attempt.ChangeID != id || out.Attempt.Caller.Subject != who || !strings.Contains(out.Message, "without a reboot") {
				t.Errorf("the answer is %+v", out)
			}
			applies := h.applies("w1")
			if len(applies) != 1 || !bytes.Equal(applies[0].Requests[0].Bytes, noReboot(t, text)) {
				t.Errorf("the node was sent %d applies, or other bytes", len(applies))
			}
			if c := h.is(t, id, control.ChangeSpent); c.By.Subject != who || c.AttemptID != out.Attempt.ID {
				t.Errorf("spent by %s as %s", c.By.Subject, c.AttemptID)
			}
			if n := h.count(t, `select count(*) from audit.entries where id = $1 and kind = 'http' and verdict = 'allow' and method = $2
				and change_id = $3 and attempt_id = $4 and caller_subject = $5 and client_address = '192.0.2.7'`,
				out.Attempt.EntryID, talosd.MethodApply, id.String(), out.Attempt.ID, who); n != 1 {
				t.Error("the entry does not tell who applied what through which door")
			}
			actRefused(t, func() error { _, err := h.applyChange(t, who, id); return err }(), "BW-CHANGE-002")
			if n := len(h.applies("w1")); n != 1 {
				t.Errorf("the node was sent %d applies", n)
			}
		})
	}
}

// Who may not apply may not apply by id either; the refusal is in the book as what it was, and
// the change stays as it is.
func TestWhoMayNotApplyAChange(t *testing.T) {
	t.Parallel()
	// Everybody may apply through the Talos API here, and the table of acts says otherwise.
	careless := sync.OnceValues(func() (law, error) {
		return newLaw(quorumData("1", "false", "permissions: {viewer: {classes: [read, apply], methods: [], see_secrets: false}}\n"))
	})
	// And here the table of acts lets viewers apply, and the rules about methods do not.
	actsOnly := sync.OnceValues(func() (law, error) {
		return newLaw(quorumData("1", "false", ""), policy.File{
			Path: "bronzeward/api/data.yaml", Body: []byte("acts: {changes.apply: {roles: [operator, viewer], human: false}}\n"),
		})
	})
	for _, row := range []struct {
		who, code string
		law       func() (law, error)
	}{
		{"vera", "BW-ACT-003", oneApproval},
		{"ada", "BW-ACT-003", oneApproval},
		{"rhea", "BW-ACT-003", oneApproval},
		{"mallory", "BW-ACT-003", oneApproval},
		{"vera", "BW-ACT-003", careless},
		{"vera", "BW-METHODS-009", actsOnly},
	} {
		t.Run(row.who+" "+row.code, func(t *testing.T) {
			t.Parallel()
			h := approving(t, row.law, nil)
			id := h.approved(t, labelled("one"))
			_, err := h.applyChange(t, row.who, id)
			got := tell(err)
			if !strings.HasPrefix(got.code, row.code) || got.grpc != codes.PermissionDenied {
				t.Errorf("got %v, want %s", err, row.code)
			}
			h.hasEntry(t, got.entry, row.who)
			if n := h.count(t, "select count(*) from audit.entries where id = $1 and change_id = $2", got.entry, id.String()); n != 1 {
				t.Error("the entry does not name the change")
			}
			h.is(t, id, control.ChangeApproved)
			h.sentNothing(t)
		})
	}
}

// A change that is not approved yet is refused by its id as its bytes are, and nothing new is
// captured.
func TestAWaitingChangeIsNotApplied(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	id := waits(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))))
	for _, who := range []string{"olga", "otto"} {
		_, err := h.applyChange(t, who, id)
		got := actRefused(t, err, "BW-APPROVAL-001")
		if !strings.Contains(got.text, "change "+id.String()+" needs 1 approval") {
			t.Errorf("the refusal reads %s", got.text)
		}
		h.hasEntry(t, got.entry, who)
	}
	h.is(t, id, control.ChangeWaiting)
	if n := h.changes(t); n != 1 {
		t.Errorf("there are %d changes", n)
	}
	h.sentNothing(t)
}

// The base moved after the approval: the change is superseded with the digest that overtook
// it, nothing is captured in its place, and nothing is sent.
func TestAChangeWhoseBaseMovedIsNotApplied(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	id := h.approved(t, labelled("one"))
	ok(t, h.nodes["w1"].SetConfig(labelled("elsewhere")))
	_, err := h.applyChange(t, "olga", id)
	got := actRefused(t, err, "BW-CHANGE-002")
	if got.grpc != codes.FailedPrecondition {
		t.Errorf("the door answers %v", got.grpc)
	}
	h.hasEntry(t, got.entry, "olga")
	if n := h.count(t, "select count(*) from audit.entries where id = $1 and change_id = $2", got.entry, id.String()); n != 1 {
		t.Error("the entry names another change")
	}
	want := must(digests())(t).Digest(labelled("elsewhere"))
	if c := h.is(t, id, control.ChangeSuperseded); c.OvertakenBy != want {
		t.Errorf("overtaken by %s, want %s", c.OvertakenBy, want)
	}
	if again := actRefused(t, func() error { _, err := h.applyChange(t, "olga", id); return err }(), "BW-CHANGE-002"); !strings.Contains(again.text, want) {
		t.Errorf("what overtook it is not named: %s", again.text)
	}
	if n := h.changes(t); n != 1 {
		t.Errorf("there are %d changes", n)
	}
	h.sentNothing(t)
}

// What has ended is not applied, however it ended.
func TestAChangeThatHasEndedIsNotApplied(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	for _, row := range []struct {
		name  string
		end   func(t *testing.T, id control.ChangeID)
		words string
	}{
		{"rejected", func(t *testing.T, id control.ChangeID) {
			must(h.acts().Reject(t.Context(), h.actor(t, "ada"), id, "not on a Friday", nil))(t)
		}, "rejected: not on a Friday"},
		{"cancelled by its requester", func(t *testing.T, id control.ChangeID) {
			must(h.acts().Cancel(t.Context(), h.actor(t, "olga"), id, "a typo", nil))(t)
		}, "cancelled: a typo"},
		{"cancelled by an approver", func(t *testing.T, id control.ChangeID) {
			must(h.acts().Cancel(t.Context(), h.actor(t, "abel"), id, "old", nil))(t)
		}, "cancelled: old"},
		{"approved and not used in time", func(t *testing.T, id control.ChangeID) {
			ok(t, h.db.Exec(t.Context(), "update control.change_states set use_by = clock_timestamp() where change_id::text = $1", uuidOf(id)))
		}, "is expired"},
		{"not approved in time", func(t *testing.T, id control.ChangeID) {
			must(h.acts().RevokeApproval(t.Context(), h.actor(t, "ada"), h.change(t, id).Approvals[0].ID, "too early", nil))(t)
			ok(t, h.db.Exec(t.Context(), "update control.changes set approve_by = clock_timestamp() where id::text = $1", uuidOf(id)))
		}, "is expired"},
	} {
		t.Run(row.name, func(t *testing.T) {
			id := h.approved(t, labelled(strings.ReplaceAll(row.name, " ", "-")))
			row.end(t, id)
			_, err := h.applyChange(t, "olga", id)
			if got := actRefused(t, err, "BW-CHANGE-002"); !strings.Contains(got.text, row.words) {
				t.Errorf("it is told %q, want %q", got.text, row.words)
			}
			h.sentNothing(t)
		})
	}
	if _, err := h.applyChange(t, "olga", control.ChangeID(newID())); tell(err).code != "BW-CHANGE-001" {
		t.Errorf("a change nobody knows: %v", err)
	}
}

// What is staged is discarded only by a change that says so to its approvers.
func TestWhatIsStagedIsDiscardedByAnApprovedChangeOnly(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	ok(t, h.nodes["w1"].Stage(labelled("staged")))
	id := waits(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))))
	review := must(h.store.GetReview(t.Context(), id))(t)
	if len(review.Discards) != 1 || review.Discards[0].After != "staged" || !strings.Contains(review.Discards[0].Path, "nodeLabels") {
		t.Errorf("the approver is not told what would be discarded: %+v", review.Discards)
	}
	if len(review.Warnings) != 1 || review.Warnings[0].Code != "BW-MODE-009" || review.Warnings[0].Severity != policy.SeverityWarn {
		t.Errorf("the warnings are %+v", review.Warnings)
	}
	h.sentNothing(t)
	h.approve(t, id, "ada")
	out, err := h.applyChange(t, "olga", id)
	ok(t, err)
	if active, _ := h.nodes["w1"].Active(); out.Attempt.State != control.StateCompleted || !bytes.Equal(active, labelled("one")) {
		t.Errorf("the attempt is %s", out.Attempt.State)
	}
	if persistent, _ := h.nodes["w1"].Persistent(); !bytes.Equal(persistent, labelled("one")) {
		t.Error("what was staged is still there")
	}
	if !strings.Contains(strings.Join(out.Warnings, "\n"), "BW-MODE-009") {
		t.Errorf("whoever applies is warned of %q", out.Warnings)
	}

	// Where the law asks for nobody, nobody has agreed to it.
	none := newHouse(t, nil)
	ok(t, none.nodes["w1"].Stage(labelled("staged")))
	if a := none.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))); a.code() != codes.PermissionDenied || strings.Contains(a.text(), "chg_") {
		t.Errorf("without a quorum it got %v", a.err)
	}
	none.sentNothing(t)
}
