package gateway

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/faults"
	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/control"
)

// Only an attempt that was rejected or never sent leaves its change unspent: it is approved as
// before, and goes through once more without another approval. Anything else counts as used.
func TestWhatTheNodeSaysDecidesWhetherAChangeIsSpent(t *testing.T) {
	t.Parallel()
	lateSend := func(t *testing.T, h *house) func() {
		f := h.proxy.Order(faults.HoldReply, attemptRow)
		return func() {
			<-f.Met()
			eventually(t, "send_by to pass", func() bool {
				return h.count(t, "select count(*) from control.attempts where send_by < clock_timestamp()") == 1
			})
			f.Release()
		}
	}
	fault := func(f talosd.Fault) func(*testing.T, *house) func() {
		return func(t *testing.T, h *house) func() {
			ok(t, h.nodes["w1"].Fault(f))
			return func() {}
		}
	}
	for _, row := range []struct {
		name    string
		spoil   func(*testing.T, *house) (meanwhile func())
		attempt control.State
		change  control.ChangeState
		words   string
		sent    int // of the spoilt attempt
	}{
		{"the node refuses, and nothing moved", fault(talosd.Fault{Kind: talosd.ErrorBefore, Code: uint32(codes.FailedPrecondition), Message: "busy"}), control.StateRejected, control.ChangeApproved, "busy", 1},
		{"the time to send was over", lateSend, control.StateNotSent, control.ChangeApproved, "BW-ATTEMPT-003", 0},
		{"no answer, and nothing is seen", fault(talosd.Fault{Kind: talosd.ResetBefore}), control.StateUnresolved, control.ChangeSpent, "BW-ATTEMPT-004", 1},
		{"an answer of a hop inside the node", fault(talosd.Fault{Kind: talosd.ErrorBefore, Code: uint32(codes.Unavailable)}), control.StateUnresolved, control.ChangeSpent, "BW-ATTEMPT-004", 1},
		{"no answer, and it has landed", fault(talosd.Fault{Kind: talosd.ResetAfter}), control.StateCompleted, control.ChangeSpent, "the node's answer was lost", 1},
	} {
		for _, door := range []string{"talosctl", "by id"} {
			t.Run(row.name+", "+door, func(t *testing.T) {
				t.Parallel()
				h := approving(t, oneApproval, func(s *setup) {
					hurried(s)
					s.proxied = true
				})
				text := labelled("one")
				id := h.approved(t, text)
				useBy := h.change(t, id).UseBy
				meanwhile := row.spoil(t, h)
				var said string
				if door == "by id" {
					answers := h.goApplyChange(t, "olga", id, nil)
					meanwhile()
					a := <-answers
					ok(t, a.err)
					said = a.Message
					if a.Attempt.State != row.attempt || a.Attempt.ChangeID != id {
						t.Errorf("the answer is of attempt %s in state %s", a.Attempt.ID, a.Attempt.State)
					}
				} else {
					answers := h.as(t, "olga").goApply(bounded(t), "w1", noReboot(t, text))
					meanwhile()
					a := <-answers
					said = a.text() + details(t, a)
				}
				if !strings.Contains(said, row.words) {
					t.Errorf("it is told %q, want %q", said, row.words)
				}
				if got := h.attempts(t); len(got) != 1 || got[0] != string(row.attempt) {
					t.Errorf("attempts are %v (%s), want %s", got, h.reason(t), row.attempt)
				}
				c := h.is(t, id, row.change)
				if n := len(h.applies("w1")); n != row.sent {
					t.Errorf("the node was sent %d applies, want %d", n, row.sent)
				}
				h.nodes["w1"].ClearFaults()
				if row.change == control.ChangeSpent {
					_, err := h.applyChange(t, "otto", id)
					if got := actRefused(t, err, "BW-CHANGE-002"); !strings.Contains(got.text, c.AttemptID.String()) {
						t.Errorf("the attempt is not named: %s", got.text)
					}
					if a := h.as(t, "olga").apply(t, "w1", noReboot(t, text)); a.code() != codes.PermissionDenied {
						t.Errorf("the same bytes once more got %v", a.err)
					}
					return
				}
				if c.UseBy == nil || useBy == nil || !c.UseBy.Equal(*useBy) || c.AttemptID.String() != "00000000-0000-0000-0000-000000000000" {
					t.Errorf("the change came back with use_by %v instead of %v, attempt %s", c.UseBy, useBy, c.AttemptID)
				}
				succeeded(t, h.as(t, "olga").apply(t, "w1", noReboot(t, text)))
				h.is(t, id, control.ChangeSpent)
				if got := strings.Join(h.attempts(t), " "); got != string(row.attempt)+" completed" {
					t.Errorf("attempts are %s", got)
				}
			})
		}
	}
}

// details is what the node's answer says.
func details(t testing.TB, a answer) string {
	t.Helper()
	out := ""
	for _, m := range a.messages {
		s := &ownStream{answer: m}
		text, _ := s.said()
		out += text
	}
	return out
}

// Busy leaves it unspent: while another apply holds the cluster, an approved change is
// refused, stays approved, and goes through afterwards.
func TestABusyClusterLeavesTheChangeUnspent(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, func(s *setup) { s.workers = 2 })
	id := h.approved(t, labelled("one"))
	other := waits(t, h.as(t, "otto").apply(t, "w2", noReboot(t, labelled("two"))))
	h.approve(t, other, "abel")
	h.paused(t, "w2", 1)
	first := h.goApplyChange(t, "otto", other, nil)
	h.held(t, "w2")
	_, err := h.applyChange(t, "olga", id)
	if got := tell(err); !strings.HasPrefix(got.code, "BW-HOLDS") {
		t.Errorf("got %v", err)
	}
	refusedWith(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))), codes.PermissionDenied, "BW-HOLDS")
	h.is(t, id, control.ChangeApproved)
	h.nodes["w2"].Resume()
	ok(t, (<-first).err)
	_, err = h.applyChange(t, "olga", id)
	ok(t, err)
	h.is(t, id, control.ChangeSpent)
}

// Spent once: of two people who apply at once one wins, and the other is told of the attempt
// it became.
func TestOfTwoWhoApplyAtOnceOneWins(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		people [2]string
		codes  []string
	}{
		{"two people", [2]string{"olga", "otto"}, []string{"BW-CHANGE-002", "BW-HOLDS-001"}},
		{"one person twice", [2]string{"olga", "olga"}, []string{"BW-ATTEMPT-001"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := approving(t, oneApproval, nil)
			id := h.approved(t, labelled("one"))
			release := must(h.db.HoldAuthority(t.Context()))(t)
			answers := []<-chan applied{h.goApplyChange(t, row.people[0], id, nil), h.goApplyChange(t, row.people[1], id, nil)}
			h.waiting(t, 2)
			ok(t, release())
			won, lost := <-answers[0], <-answers[1]
			if won.err != nil {
				won, lost = lost, won
			}
			if won.err != nil || won.Attempt.State != control.StateCompleted {
				t.Fatalf("nobody won: %v, %v", won.err, lost.err)
			}
			got := tell(lost.err)
			if !strings.Contains(strings.Join(row.codes, " "), got.code) || got.code == "" || !strings.Contains(got.text, won.Attempt.ID.String()) {
				t.Errorf("the other was told %q %s, and the attempt is %s", got.code, got.text, won.Attempt.ID)
			}
			if n := len(h.applies("w1")); n != 1 || len(h.attempts(t)) != 1 {
				t.Errorf("%d applies were sent in %d attempts", n, len(h.attempts(t)))
			}
			h.is(t, id, control.ChangeSpent)
		})
	}
}
