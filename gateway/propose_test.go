package gateway

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// A change is captured without talosctl, by the same judgement, and never sent. What waits for
// its approvals is no refusal here.
func TestAProposalIsCaptured(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	c, created, err := h.acts().Submit(t.Context(), h.actor(t, "olga"), control.Submission{Machine: "w1", Text: labelled("one"), Mode: "no-reboot", Set: "spring"}, nil)
	ok(t, err)
	if !created || c.State != control.ChangeWaiting || c.Set != "spring" || c.Requester.Subject != "olga" || c.Digest != must(digests())(t).Digest(labelled("one")) {
		t.Errorf("created %t: %+v", created, c)
	}
	if n := h.count(t, `select count(*) from audit.entries where id = $1 and kind = 'http' and class = 'act' and method = 'changes.submit' and verdict = 'allow'
		and change_id = $2 and machine_name = 'w1' and digest = $3 and client_address = '192.0.2.7' and coalesce(array_length(codes, 1), 0) = 0`, c.EntryID, c.ID.String(), c.Digest); n != 1 {
		t.Error("the entry does not tell what was proposed")
	}
	// The same through talosctl is the same change, and once it is approved it goes through.
	if id := waits(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one")))); id != c.ID {
		t.Errorf("through talosctl it is %s", id)
	}
	h.sentNothing(t)
	h.approve(t, c.ID, "ada")
	again, created, err := h.submit(t, "otto", labelled("one"))
	ok(t, err)
	if created || again.ID != c.ID || again.State != control.ChangeApproved {
		t.Errorf("proposed once more it is %s, %s, created %t", again.ID, again.State, created)
	}
	h.sentNothing(t)
	succeeded(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))))
	h.is(t, c.ID, control.ChangeSpent)
}

// Where the law asks for no approval a proposal is approved as it stands, and is sent only
// when somebody applies it.
func TestAProposalThatNeedsNobody(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	c, created, err := h.submit(t, "olga", labelled("one"))
	ok(t, err)
	if !created || c.State != control.ChangeApproved || c.UseBy == nil {
		t.Errorf("created %t, %s", created, c.State)
	}
	h.sentNothing(t)
	out, err := h.applyChange(t, "otto", c.ID)
	ok(t, err)
	if out.Attempt.State != control.StateCompleted || out.Attempt.ChangeID != c.ID {
		t.Errorf("the attempt is %+v", out.Attempt)
	}
	h.is(t, c.ID, control.ChangeSpent)
}

// What other rules refuse is refused to a proposal too, with an entry, and not captured.
func TestAProposalThatIsRefused(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, who string
		setup     func(*setup)
		before    func(*testing.T, *house)
		text      []byte
		code      string
		grpc      codes.Code
	}{
		{"outside the window", "olga", func(s *setup) { s.law = closedNow }, nil, labelled("one"), "BW-WINDOWS-001", codes.PermissionDenied},
		{"a side door", "olga", nil, nil, append(labelled("one"), "---\napiVersion: v1alpha1\nkind: SideroLinkConfig\napiUrl: grpc://192.0.2.1\n"...), "BW-CONFIG-011", codes.PermissionDenied},
		{"a viewer", "vera", nil, nil, labelled("one"), "BW-ACT-003", codes.PermissionDenied},
		{"somebody in no role", "mallory", nil, nil, labelled("one"), "BW-ACT-003", codes.PermissionDenied},
		{"a revoked person", "olga", nil, func(t *testing.T, h *house) {
			h.revoke(t, "olga")
			// Before the gateway has heard of it, the law of applies refuses in its own words.
			must(h.store.Refresh(context.Background(), 0))(t)
		}, labelled("one"), "BW-ACT-001", codes.PermissionDenied},
		{"a machine that is away", "olga", nil, func(_ *testing.T, h *house) { h.nodes["w1"].RefuseDials(true) }, labelled("one"), "BW-UPSTREAM-001", codes.Unavailable},
		{"too many waiting", "olga", func(s *setup) { s.gateway = func(c *Config) { c.Changes.WaitingPerCaller = 1 } }, func(t *testing.T, h *house) {
			_, _, err := h.submit(t, "olga", labelled("two"))
			ok(t, err)
		}, labelled("one"), "BW-CHANGE-004", codes.ResourceExhausted},
		{"too many bytes waiting", "olga", func(s *setup) {
			s.gateway = func(c *Config) { c.Changes.WaitingBytesPerCaller = int64(2*len(labelled("one")) - 1) }
		}, func(t *testing.T, h *house) {
			_, _, err := h.submit(t, "olga", labelled("two"))
			ok(t, err)
		}, labelled("one"), "BW-CHANGE-004", codes.ResourceExhausted},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := approving(t, oneApproval, row.setup)
			if row.before != nil {
				row.before(t, h)
			}
			before := h.changes(t)
			_, _, err := h.submit(t, row.who, row.text)
			got := actRefused(t, err, row.code)
			if got.grpc != row.grpc {
				t.Errorf("the door answers %v, want %v", got.grpc, row.grpc)
			}
			h.hasEntry(t, got.entry, row.who)
			if n := h.count(t, "select count(*) from audit.entries where id = $1 and change_id is null", got.entry); n != 1 {
				t.Error("the entry names a change")
			}
			if n := h.changes(t); n != before {
				t.Errorf("%d changes were captured", n-before)
			}
			h.sentNothing(t)
			// Nobody else is held to what this person has waiting.
			if row.grpc == codes.ResourceExhausted {
				refusedWith(t, h.as(t, row.who).apply(t, "w1", noReboot(t, row.text)), row.grpc, "REFUSED BW-CHANGE-004")
				_, _, err := h.submit(t, "otto", row.text)
				ok(t, err)
			}
		})
	}
}

// A proposal that is no proposal is invalid, and nothing is asked of the machine.
func TestAProposalThatIsMalformed(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	for _, row := range []struct {
		name string
		s    control.Submission
		want error
	}{
		{"another mode", control.Submission{Machine: "w1", Text: labelled("one"), Mode: "auto"}, control.ErrInvalid},
		{"no mode", control.Submission{Machine: "w1", Text: labelled("one")}, control.ErrInvalid},
		{"a machine nobody knows", control.Submission{Machine: "w9", Text: labelled("one"), Mode: "no-reboot"}, control.ErrNotFound},
		{"no text", control.Submission{Machine: "w1", Mode: "no-reboot"}, nil},
		{"a set with a control character", control.Submission{Machine: "w1", Text: labelled("one"), Mode: "no-reboot", Set: "a\nb"}, control.ErrInvalid},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, _, err := h.acts().Submit(context.Background(), h.actor(t, "olga"), row.s, nil)
			if err == nil || row.want != nil && !errors.Is(err, row.want) {
				t.Errorf("it came to %v", err)
			}
			if n := h.changes(t); n != 0 {
				t.Errorf("%d changes", n)
			}
		})
	}
	h.sentNothing(t)
}

// A held machine takes no proposals: what is read of it may be about to change.
func TestAHeldMachineTakesNoProposals(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	id := h.approved(t, labelled("one"))
	h.paused(t, "w1", 1)
	first := h.goApplyChange(t, "olga", id, nil)
	h.held(t, "w1")
	_, _, err := h.submit(t, "otto", labelled("two"))
	if got := tell(err); !strings.HasPrefix(got.code, "BW-HOLDS") {
		t.Errorf("it came to %v", err)
	}
	h.nodes["w1"].Resume()
	ok(t, (<-first).err)
	if n := h.changes(t); n != 1 || len(h.nodes["w1"].Log().Of(talosd.MethodApply)) != 1 {
		t.Errorf("%d changes", n)
	}
	_, _, err = h.submit(t, "otto", labelled("two"))
	ok(t, err)
}

// A law that becomes live while a proposal or an apply by id waits is the one that judges it:
// what its table of acts does not give is refused, and nothing is captured or spent.
func TestTheTableOfActsMovesMeanwhile(t *testing.T) {
	t.Parallel()
	stricter := must(newLaw(quorumData("1", "false", ""), policy.File{Path: "bronzeward/api/data.yaml", Body: []byte(
		"acts: {changes.submit: {roles: [policy-admin], human: true}, changes.apply: {roles: [policy-admin], human: true}}\n")}))(t)
	h := approving(t, oneApproval, func(s *setup) {
		s.ownEngine = true
		s.control = func(c *control.Config) { c.PollEvery = time.Hour } // nobody tells the replica
	})
	id := h.approved(t, labelled("one"))
	release := must(h.db.HoldAuthority(t.Context()))(t)
	submit := inBackground(func() error { _, _, err := h.submit(t, "olga", labelled("two")); return err })
	apply := inBackground(func() error { _, err := h.applyChange(t, "otto", id); return err })
	h.waiting(t, 2)
	// Behind everybody's back, because whoever activates a law waits for the lock as well.
	ok(t, h.db.Exec(t.Context(), "insert into control.bundles (revision, content, entry_id) values ($1, $2, gen_random_uuid())", stricter.bundle.Revision(), stricter.bundle.Bytes()))
	ok(t, h.db.Exec(t.Context(), "update control.live_bundle set revision = $1, counter = counter + 1", stricter.bundle.Revision()))
	ok(t, h.db.Exec(t.Context(), "update control.authority set version = version + 1"))
	ok(t, release())
	for who, done := range map[string]<-chan error{"olga": submit, "otto": apply} {
		h.hasEntry(t, actRefused(t, <-done, "BW-ACT-003").entry, who)
	}
	h.is(t, id, control.ChangeApproved)
	if n := h.changes(t); n != 1 {
		t.Errorf("there are %d changes", n)
	}
	h.sentNothing(t)
}
