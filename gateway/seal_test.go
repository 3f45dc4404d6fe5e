package gateway

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"bronzeward/gateway/control"
	"bronzeward/gateway/vault"
)

// With the keys away nothing is captured, and the refusal says whose fault that is; with them
// back the same bytes are.
func TestWithoutTheKeysNothingIsCaptured(t *testing.T) {
	t.Parallel()
	s := &spoilt{Sealer: sealer(t)}
	h := sealedWith(t, s)
	s.breakWith(errAway)
	a := h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one")))
	refusedWith(t, a, codes.Unavailable, "REFUSED BW-CHANGE-005: the change cannot be sealed now, and so is not captured: OpenBao is sealed (sealed) (decision ")
	_, _, err := h.submit(t, "olga", labelled("one"))
	got := actRefused(t, err, "BW-CHANGE-005")
	h.hasEntry(t, got.entry, "olga")
	if n := h.count(t, "select count(*) from audit.entries where id::text = any ($1) and verdict = 'refuse' and codes = '{BW-CHANGE-005}'", append(a.decisions(), got.entry.String())); n != 2 || got.grpc != codes.Unavailable {
		t.Errorf("%d entries, the door answers %v", n, got.grpc)
	}
	if n := h.changes(t); n != 0 {
		t.Errorf("%d changes", n)
	}
	s.breakWith(nil)
	waits(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))))
	h.sentNothing(t)
}

// With the keys away an approved change is not sent: no byte goes out, no attempt is there,
// and the approval is still good afterwards.
func TestWithoutTheKeysAnApprovedChangeIsNotSent(t *testing.T) {
	t.Parallel()
	s := &spoilt{Sealer: sealer(t)}
	h := sealedWith(t, s)
	id := h.approved(t, labelled("one"))
	s.breakWith(errAway)
	a := h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one")))
	refusedWith(t, a, codes.Unavailable, "REFUSED BW-CHANGE-005: the sealed bytes of change "+id.String()+" cannot be opened now: OpenBao is sealed (sealed) (decision ")
	_, err := h.applyChange(t, "olga", id)
	got := actRefused(t, err, "BW-CHANGE-005")
	if n := h.count(t, "select count(*) from audit.entries where id::text = any ($1) and verdict = 'refuse' and change_id = $2 and convert_from(record, 'UTF8') like '%sealed\"%'", append(a.decisions(), got.entry.String()), id.String()); n != 2 {
		t.Errorf("%d entries name the change", n)
	}
	h.is(t, id, control.ChangeApproved)
	h.sentNothing(t)
	if n := len(h.attempts(t)); n != 0 {
		t.Errorf("%d attempts", n)
	}
	s.breakWith(nil)
	succeeded(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))))
	h.is(t, id, control.ChangeSpent)
}

// Whoever is refused for the keys is asked to try again when that may help, and else is told
// whom to tell; nothing is sent or spent either way.
func TestOnlyWhatMayPassAsksToTryAgain(t *testing.T) {
	t.Parallel()
	s := &spoilt{Sealer: sealer(t)}
	h := sealedWith(t, s)
	id := h.approved(t, labelled("one"))
	for kind, passes := range map[vault.Kind]bool{
		vault.KindSealed: true, vault.KindUnreachable: true, vault.KindSlow: true, vault.KindFailing: true, vault.KindGone: true,
		vault.KindForbidden: false, vault.KindMissing: false, vault.KindKeyMissing: false, vault.KindKeyRecreated: false, vault.KindKeyTooOld: false,
		vault.KindKeyUnknown: false, vault.KindMoved: false, vault.KindMalformed: false, "": false, "a_newer_one": false,
	} {
		hint := "\nnothing was sent to the machine; trying again does not help: tell who runs "
		if passes {
			hint = "\nnothing was sent to the machine; try again"
		}
		s.breakWith(&vault.Error{Doing: "opening", Class: vault.ErrRefused, Kind: kind, Reason: "so it is"})
		a := h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one")))
		_, err := h.applyChange(t, "olga", id)
		got := actRefused(t, err, "BW-CHANGE-005")
		if a.code() != codes.Unavailable || got.grpc != codes.Unavailable || !contains(a.text(), hint) || !contains(a.text(), "so it is") || kind != "" && !contains(a.text(), "so it is ("+string(kind)+")") {
			t.Errorf("%q: %v, %v\n%s", kind, a.code(), got.grpc, a.text())
		}
	}
	h.is(t, id, control.ChangeApproved)
	h.sentNothing(t)
}

// Keys that do not answer are waited for no longer than the caller waits.
func TestACallerNeedNotWaitForTheKeys(t *testing.T) {
	t.Parallel()
	s := &spoilt{Sealer: sealer(t), entered: make(chan struct{})}
	h := sealedWith(t, s)
	ctx, hangUp := context.WithCancel(bounded(t))
	answers := h.as(t, "olga").goApply(ctx, "w1", noReboot(t, labelled("one")))
	<-s.entered
	hangUp()
	<-answers
	eventually(t, "the call to be over", func() bool { return h.gw.sessions.count() == 0 })
	if n := h.changes(t); n != 0 {
		t.Errorf("%d changes", n)
	}
}

// Whoever may not apply makes no key work.
func TestWhoMayNotApplyOpensNothing(t *testing.T) {
	t.Parallel()
	s := &spoilt{Sealer: sealer(t)}
	h := sealedWith(t, s)
	id := h.approved(t, labelled("one"))
	h.revoke(t, "otto")
	for _, who := range []string{"vera", "ada", "mallory", "otto"} {
		if _, err := h.applyChange(t, who, id); err == nil {
			t.Errorf("%s applied it", who)
		}
	}
	if n := s.opens.Load(); n != 0 {
		t.Errorf("the bytes were opened %d times", n)
	}
	_, err := h.applyChange(t, "boris", id)
	ok(t, err)
	if s.opens.Load() == 0 {
		t.Error("nothing was opened at all: this test proves nothing")
	}
}

// What stands in the database in the place of the sealed bytes must be what was sealed for
// this very change: anything else is an integrity failure, nothing is sent and nothing spent.
func TestAlteredSealedBytesAreNotSent(t *testing.T) {
	t.Parallel()
	exec := func(statement string) func(*testing.T, *house, control.ChangeID) {
		return func(t *testing.T, h *house, id control.ChangeID) {
			ok(t, h.db.Exec(t.Context(), statement, uuidOf(id)))
		}
	}
	for _, row := range []struct {
		name  string
		alter func(*testing.T, *house, control.ChangeID)
	}{
		{"one bit", exec("update control.sealed_bytes set sealed = set_byte(sealed, 200, get_byte(sealed, 200) # 1) where change_id::text = $1")},
		{"the last byte", exec("update control.sealed_bytes set sealed = substring(sealed for length(sealed) - 1) where change_id::text = $1")},
		{"nothing left", exec("update control.sealed_bytes set sealed = '' where change_id::text = $1")},
		{"another change's", func(t *testing.T, h *house, id control.ChangeID) {
			other := h.approved(t, labelled("other"))
			ok(t, h.db.Exec(t.Context(), "update control.sealed_bytes set sealed = (select sealed from control.sealed_bytes where change_id::text = $1) where change_id::text = $2", uuidOf(other), uuidOf(id)))
		}},
		{"another change's, with digest, size and approvals", func(t *testing.T, h *house, id control.ChangeID) {
			h.forge(t, h.approved(t, labelled("other")), id)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := approving(t, oneApproval, nil)
			id := h.approved(t, labelled("one"))
			row.alter(t, h, id)
			_, err := h.applyChange(t, "otto", id)
			got := actRefused(t, err, "BW-CHANGE-006")
			if got.grpc != codes.DataLoss {
				t.Errorf("the door answers %v", got.grpc)
			}
			if n := h.count(t, "select count(*) from audit.entries where id = $1 and verdict = 'refuse' and change_id = $2", got.entry, id.String()); n != 1 {
				t.Errorf("%d entries", n)
			}
			a := h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one")))
			if strings.Contains(row.name, "digest") {
				refusedWith(t, a, codes.Unavailable, "REFUSED") // it is nobody's text any more
			} else {
				refusedWith(t, a, codes.DataLoss, "REFUSED BW-CHANGE-006")
			}
			h.is(t, id, control.ChangeApproved)
			h.sentNothing(t)
		})
	}
}

// Control: with a sealer that checks nothing, swapped bytes are still held against the request
// and against the digest. Only when digest and approvals are forged along with them does the
// node get, on the approval of one change, the bytes of another: what the sealed bytes are
// bound to is what keeps that from happening.
func TestWhatASealerThatChecksNothingLetsThrough(t *testing.T) {
	t.Parallel()
	t.Run("swapped bytes are refused", func(t *testing.T) {
		t.Parallel()
		h := sealedWith(t, trusting{})
		id, other := h.approved(t, labelled("one")), h.approved(t, labelled("two"))
		ok(t, h.db.Exec(t.Context(), "update control.sealed_bytes set sealed = (select sealed from control.sealed_bytes where change_id::text = $1) where change_id::text = $2", uuidOf(other), uuidOf(id)))
		refusedWith(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))), codes.DataLoss, "BW-CHANGE-006")
		_, err := h.applyChange(t, "olga", id)
		actRefused(t, err, "BW-CHANGE-006")
		h.sentNothing(t)
		h.is(t, id, control.ChangeApproved)
	})
	t.Run("a newline more is refused", func(t *testing.T) {
		t.Parallel()
		h := sealedWith(t, trusting{})
		id := h.approved(t, labelled("one"))
		// The digest takes no account of it.
		ok(t, h.db.Exec(t.Context(), `update control.sealed_bytes set sealed = sealed || '\x0a'::bytea where change_id::text = $1`, uuidOf(id)))
		refusedWith(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))), codes.DataLoss, "BW-CHANGE-006")
		if _, err := h.applyChange(t, "olga", id); err == nil {
			t.Error("it was sent")
		}
		h.sentNothing(t)
	})
	t.Run("a whole forgery goes out", func(t *testing.T) {
		t.Parallel()
		h := sealedWith(t, trusting{})
		id, other := h.approved(t, labelled("one")), waits(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("two"))))
		h.forge(t, other, id)
		_, err := h.applyChange(t, "otto", id)
		ok(t, err)
		if applies := h.applies("w1"); len(applies) != 1 || !bytes.Equal(applies[0].Requests[0].Bytes, noReboot(t, labelled("two"))) {
			t.Error("the binding is not what refuses")
		}
	})
}
