package gateway

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// refuse → approve → apply → read back: the same command goes through once the change is
// approved, the node has the very bytes once, and the approval is used up by it.
func TestAnApprovedApplyGoesThroughOnce(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	text := labelled("one")
	request := noReboot(t, text)
	id := h.approved(t, text)
	olga := h.as(t, "olga")
	a := succeeded(t, olga.apply(t, "w1", request))

	applies := h.applies("w1")
	if len(applies) != 1 || len(applies[0].Requests) != 1 || !bytes.Equal(applies[0].Requests[0].Bytes, request) {
		t.Fatalf("the node was sent %d applies, or other bytes", len(applies))
	}
	if active, _ := h.nodes["w1"].Active(); !bytes.Equal(active, text) {
		t.Error("the node does not hold what was approved")
	}
	c := h.is(t, id, control.ChangeSpent)
	attempt := must(h.store.GetAttempt(t.Context(), c.AttemptID))(t)
	if attempt.State != control.StateCompleted || attempt.ChangeID != id || attempt.Digest != c.Digest || attempt.EntryID.String() != a.decisions()[0] {
		t.Errorf("the attempt is %+v", attempt)
	}
	if n := h.count(t, "select count(*) from audit.entries where id::text = $1 and verdict = 'allow' and change_id = $2 and attempt_id = $3 and digest = $4",
		a.decisions()[0], id.String(), c.AttemptID, c.Digest); n != 1 {
		t.Error("the entry does not name change, attempt and digest")
	}
	steps := must(h.store.ChangeSteps(t.Context(), id))(t)
	var went []string
	for _, s := range steps {
		went = append(went, string(s.State)+" by "+s.By.Subject)
	}
	if got := strings.Join(went, ", "); got != "waiting by olga, approved by ada, spent by olga" {
		t.Errorf("the change went %s", got)
	}

	// Once. The machine runs something else than it was proposed against: the same bytes are
	// another change by now.
	again := waits(t, olga.apply(t, "w1", request))
	if again == id {
		t.Error("the spent change waits again")
	}
	h.is(t, id, control.ChangeSpent)
	if n := len(h.applies("w1")); n != 1 {
		t.Errorf("the node was sent %d applies", n)
	}
}

// What is approved is the text, byte for byte; the request that carries it may be encoded in
// another way, and goes on as it came.
func TestTheBytesAtTheNodeAreTheApprovedOnesHoweverEncoded(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	text := labelled("one")
	h.approved(t, text)
	odd := join(field(4, protowire.VarintType, 0x82, 0x80, 0x00), dataField(text))
	succeeded(t, h.as(t, "olga").apply(t, "w1", odd))
	if applies := h.applies("w1"); len(applies) != 1 || !bytes.Equal(applies[0].Requests[0].Bytes, odd) {
		t.Errorf("the node was sent %d applies, or other bytes", len(applies))
	}
}

// Whoever may apply may spend another's approved change; the spender is the one on record.
func TestTheSpenderIsRecorded(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	id := h.approved(t, labelled("one"))
	a := succeeded(t, h.as(t, "otto").apply(t, "w1", noReboot(t, labelled("one"))))
	c := h.is(t, id, control.ChangeSpent)
	if c.By.Subject != "otto" || c.Requester.Subject != "olga" {
		t.Errorf("spent by %s, requested by %s", c.By.Subject, c.Requester.Subject)
	}
	if n := h.count(t, `select count(*) from audit.entries e join control.attempts a on a.entry_id = e.id
		where e.id::text = $1 and e.caller_subject = 'otto' and a.subject = 'otto'`, a.decisions()[0]); n != 1 {
		t.Error("entry and attempt name somebody else")
	}
}

// I6: whatever is almost the same is another change, and goes through on nobody's approval
// of the first. Afterwards the first one still does.
func TestWhatIsAlmostTheSameIsAnotherChange(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, func(s *setup) { s.workers = 2 })
	text := labelled("one")
	id := h.approved(t, text)
	main, rest, found := strings.Cut(string(text), "\n---\n")
	if !found {
		t.Fatal("the base has one document only")
	}
	swapped := strings.TrimRight(rest, "\n") + "\n---\n" + main + "\n"
	for _, row := range []struct {
		name, machine string
		text          string
	}{
		{"a newline more at the end", "w1", string(text) + "\n"},
		{"a newline less at the end", "w1", strings.TrimSuffix(string(text), "\n")},
		{"a space at the end", "w1", string(text) + " "},
		{"a space in a line", "w1", strings.Replace(string(text), "debug: false\n", "debug: false \n", 1)},
		{"a comment", "w1", string(text) + "# nothing\n"},
		{"CRLF in one line", "w1", strings.Replace(string(text), "debug: false\n", "debug: false\r\n", 1)},
		{"CRLF in all", "w1", strings.ReplaceAll(string(text), "\n", "\r\n")},
		{"the documents in another order", "w1", swapped},
		{"a byte order mark", "w1", "\ufeff" + string(text)},
		{"a quoted value", "w1", strings.Replace(string(text), "test.bronzeward/value: one", `test.bronzeward/value: "one"`, 1)},
		{"another value", "w1", string(labelled("two"))},
		{"another machine", "w2", string(text)},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.machine == "w1" && row.text == string(text) {
				t.Fatal("the row changes nothing")
			}
			other := waits(t, h.as(t, "olga").apply(t, row.machine, noReboot(t, []byte(row.text))))
			if c := h.is(t, other, control.ChangeWaiting); other == id || len(c.Approvals) != 0 {
				t.Errorf("it is the approved change, or has %d approvals", len(c.Approvals))
			}
			h.is(t, id, control.ChangeApproved)
			h.sentNothing(t)
		})
	}
	succeeded(t, h.as(t, "olga").apply(t, "w1", noReboot(t, text)))
	h.is(t, id, control.ChangeSpent)
}

// I7: the base has moved, by whatever way: the approved change is superseded with the digest
// of what the machine runs, the refusal says so, and the same bytes are another change.
func TestAnotherBaseIsAnotherChange(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		move func(*talosd.Node) error
		base []byte
	}{
		{"active and persistent", func(n *talosd.Node) error { return n.SetConfig(labelled("elsewhere")) }, labelled("elsewhere")},
		{"active only", func(n *talosd.Node) error { return n.SetActive(labelled("elsewhere")) }, labelled("elsewhere")},
		{"persistent only", func(n *talosd.Node) error { return n.Stage(labelled("elsewhere")) }, labelled("elsewhere")},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := approving(t, oneApproval, nil)
			id := h.approved(t, labelled("one"))
			ok(t, row.move(h.nodes["w1"]))
			a := h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one")))
			other := waits(t, a)
			if other == id {
				t.Error("it is the same change")
			}
			c := h.is(t, id, control.ChangeSuperseded)
			if want := must(digests())(t).Digest(row.base); c.OvertakenBy != want || c.By != (policy.Person{}) {
				t.Errorf("overtaken by %q, by %+v, want %s", c.OvertakenBy, c.By, want)
			}
			if n := h.count(t, "select count(*) from audit.entries where id::text = $1 and 'BW-CHANGE-002' = any (codes)", a.decisions()[0]); n != 1 {
				t.Error("the entry does not say that the change was overtaken")
			}
			h.sentNothing(t)
		})
	}
}
