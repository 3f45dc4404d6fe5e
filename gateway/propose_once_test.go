package gateway

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/control"
)

// replayed fails the test unless the request was answered with what came of the first, with
// an entry of its own.
func (h *house) replayed(t testing.TB, err error, ref uuid.UUID) {
	t.Helper()
	var before *control.ReplayedError
	if !errors.As(err, &before) {
		t.Fatalf("the repetition came to %v", err)
	}
	if before.Ref != ref {
		t.Errorf("it is answered with %s, want %s", before.Ref, ref)
	}
	if n := h.count(t, "select count(*) from audit.entries where id = $1 and kind = 'http' and verdict = 'allow'", before.Receipt.ID); n != 1 {
		t.Errorf("the repetition has %d entries", n)
	}
}

// A request with an Idempotency-Key is carried out once, and its repetition is answered with
// the attempt, whatever became of it and whatever the machine does meanwhile. Control: without
// the key the very same request goes out again.
func TestAKeyAppliesAChangeOnce(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		fault *talosd.Fault
		state control.State
	}{
		{"completed", nil, control.StateCompleted},
		{"rejected, so that the change is approved again", &talosd.Fault{Kind: talosd.ErrorBefore, Code: uint32(codes.FailedPrecondition)}, control.StateRejected},
		{"unresolved", &talosd.Fault{Kind: talosd.ResetBefore}, control.StateUnresolved},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := approving(t, oneApproval, hurried)
			id := h.approved(t, labelled("one"))
			if row.fault != nil {
				ok(t, h.nodes["w1"].Fault(*row.fault))
			}
			first := <-h.goApplyChange(t, "olga", id, keyed("key-1", "body"))
			ok(t, first.err)
			if first.Attempt.State != row.state {
				t.Fatalf("the attempt is %s", first.Attempt.State)
			}
			h.nodes["w1"].RefuseDials(true)
			h.nodes["w1"].ResetConnections()
			for range 2 {
				h.replayed(t, (<-h.goApplyChange(t, "olga", id, keyed("key-1", "body"))).err, first.Attempt.ID)
			}
			if other := <-h.goApplyChange(t, "olga", id, keyed("key-1", "another body")); !errors.Is(other.err, control.ErrKeyReused) {
				t.Errorf("the key with another body came to %v", other.err)
			}
			h.nodes["w1"].RefuseDials(false)
			if other := <-h.goApplyChange(t, "otto", id, keyed("key-1", "body")); errors.As(other.err, new(*control.ReplayedError)) {
				t.Error("somebody else's key is answered with olga's attempt")
			}
			want := 1
			if row.state == control.StateRejected {
				want = 2 // otto's own: the change was approved again
			}
			if n := len(h.applies("w1")); n != want {
				t.Errorf("the node was sent %d applies, want %d", n, want)
			}
			if row.state == control.StateRejected {
				return
			}
			h.revoke(t, "olga")
			if again := <-h.goApplyChange(t, "olga", id, keyed("key-1", "body")); again.err == nil || errors.As(again.err, new(*control.ReplayedError)) {
				t.Errorf("a revoked person's repetition came to %v", again.err)
			}
		})
	}
	t.Run("control: without a key", func(t *testing.T) {
		t.Parallel()
		h := approving(t, oneApproval, hurried)
		id := h.approved(t, labelled("one"))
		ok(t, h.nodes["w1"].Fault(talosd.Fault{Kind: talosd.ErrorBefore, Code: uint32(codes.FailedPrecondition)}))
		for range 2 {
			_, err := h.applyChange(t, "olga", id)
			ok(t, err)
		}
		if n := len(h.applies("w1")); n != 2 {
			t.Errorf("the node was sent %d applies", n)
		}
	})
}

// Two requests with one key at once are carried out once, and both are answered with the one
// attempt.
func TestAKeyTwiceAtOnce(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	id := h.approved(t, labelled("one"))
	release := must(h.db.HoldAuthority(t.Context()))(t)
	answers := []<-chan applied{h.goApplyChange(t, "olga", id, keyed("k", "b")), h.goApplyChange(t, "olga", id, keyed("k", "b"))}
	h.waiting(t, 2)
	ok(t, release())
	first, second := <-answers[0], <-answers[1]
	if first.err != nil {
		first, second = second, first
	}
	ok(t, first.err)
	h.replayed(t, second.err, first.Attempt.ID)
	if n := len(h.applies("w1")); n != 1 {
		t.Errorf("the node was sent %d applies", n)
	}
}

// What was refused leaves its key free: the same request is carried out once it may be.
func TestAKeyOfARefusedRequestIsFree(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	id := waits(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))))
	actRefused(t, (<-h.goApplyChange(t, "olga", id, keyed("k", "b"))).err, "BW-APPROVAL-001")
	h.approve(t, id, "ada")
	out := <-h.goApplyChange(t, "olga", id, keyed("k", "b"))
	ok(t, out.err)
	h.replayed(t, (<-h.goApplyChange(t, "olga", id, keyed("k", "b"))).err, out.Attempt.ID)
}

// A proposal with a key is captured once; its repetition is answered with the change, also
// when the machine runs something else by then.
func TestAKeyCapturesAChangeOnce(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	submit := func(text []byte) (control.Change, error) {
		c, _, err := h.acts().Submit(context.Background(), h.actor(t, "olga"), control.Submission{Machine: "w1", Text: text, Mode: "no-reboot"}, keyed("k", string(text)))
		return c, err
	}
	c, err := submit(labelled("one"))
	ok(t, err)
	_, err = submit(labelled("one"))
	h.replayed(t, err, uuid.UUID(c.ID))
	ok(t, h.nodes["w1"].SetConfig(labelled("elsewhere")))
	_, err = submit(labelled("one"))
	h.replayed(t, err, uuid.UUID(c.ID))
	if _, err = submit(labelled("two")); !errors.Is(err, control.ErrKeyReused) {
		t.Errorf("the key with another text came to %v", err)
	}
	if n := h.changes(t); n != 1 {
		t.Errorf("there are %d changes", n)
	}
	h.sentNothing(t)
}
