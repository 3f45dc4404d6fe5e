package gateway

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"

	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// What S0 shows first: an apply without its approval is refused and captured, with all that
// an approver and a later sending need, and nothing goes to the machine.
func TestAnApplyWithoutApprovalIsCaptured(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	text := labelled("one")
	active, _ := h.nodes["w1"].Active()
	a := h.as(t, "olga").apply(t, "w1", noReboot(t, text))
	id := waits(t, a)
	want := regexp.MustCompile(`^DENIED BW-APPROVAL-001: change ` + id.String() + ` needs 1 approval from talos-approvers \(decision [0-9a-f-]{36}\)
try: bronzeward changes show ` + id.String() + `, and once it is approved: bronzeward changes apply ` + id.String() + `$`)
	if !want.MatchString(a.text()) {
		t.Errorf("the refusal reads\n%s", a.text())
	}
	h.sentNothing(t)

	d := must(digests())(t)
	c := h.is(t, id, control.ChangeWaiting)
	if c.Digest != d.Digest(text) || c.Base != d.Digest(active) || c.Persistent != d.Digest(active) || c.Size != int64(len(text)) ||
		c.Mode != "no-reboot" || c.Kind != "apply" || c.MachineName != "w1" || c.Identity != h.machine(t, "w1").Identity {
		t.Errorf("the change is for something else: %+v", c.Binding)
	}
	if c.Requester != (policy.Person{Issuer: issuer, Subject: "olga"}) || c.Asked.Required != 1 || !c.Sealed || c.EntryID.String() != a.decisions()[0] {
		t.Errorf("the change is %+v", c)
	}
	review := must(h.store.GetReview(t.Context(), id))(t)
	if !slices.ContainsFunc(review.Changes, func(one policy.ConfigChange) bool {
		return strings.Contains(one.Path, "nodeLabels") && one.Before == nil && one.After == "one"
	}) || c.Diffs != len(review.Changes) || len(review.Discards) != 0 {
		t.Errorf("an approver is shown %+v", review)
	}
	sealed := must(h.store.Sealed(t.Context(), id))(t)
	opened := must(h.gw.sealer.Open(t.Context(), sealed, sealContext(id, c.MachineID, c.Digest)))(t)
	if !bytes.Equal(opened, text) || bytes.Contains(sealed, text[:64]) {
		t.Error("the sealed bytes are not the request's, or are not sealed")
	}
	if got := h.entriesAbout(t, id); got != "deny "+talosd.MethodApply {
		t.Errorf("the entries that name the change are:\n%s", got)
	}
	if n := h.count(t, "select count(*) from audit.entries where kind = 'rpc'"); n != 1 {
		t.Errorf("one call has %d entries", n)
	}
}

// The very same bytes are the same change for as long as it is live, whoever sends them and
// through whichever door; who asked first stays its requester.
func TestTheSameBytesAreTheSameChange(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	text := labelled("one")
	first := waits(t, h.as(t, "olga").apply(t, "w1", noReboot(t, text)))
	for _, who := range []string{"olga", "otto", "bot-ci"} {
		if again := waits(t, h.as(t, who).apply(t, "w1", noReboot(t, text))); again != first {
			t.Errorf("%s got %s, want %s", who, again, first)
		}
	}
	// However the request is encoded: what is approved is the text.
	if again := waits(t, h.as(t, "olga").apply(t, "w1", join(field(4, 0, 2), dataField(text)))); again != first {
		t.Errorf("in another encoding it is %s", again)
	}
	c, created, err := h.acts().Submit(t.Context(), h.actor(t, "otto"), control.Submission{Machine: "w1", Text: text, Mode: "no-reboot"}, nil)
	ok(t, err)
	if c.ID != first || created {
		t.Errorf("through the other door it is %s, created %t", c.ID, created)
	}
	if n := h.changes(t); n != 1 || h.change(t, first).Requester.Subject != "olga" {
		t.Errorf("there are %d changes, requested by %s", n, h.change(t, first).Requester.Subject)
	}
	h.sentNothing(t)
}

// Several people who send the same bytes at once make one change.
func TestTheSameBytesAtOnceAreOneChange(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	release := must(h.db.HoldAuthority(t.Context()))(t)
	var answers []<-chan answer
	for _, who := range []string{"olga", "otto", "boris", "bot-ci"} {
		answers = append(answers, h.as(t, who).goApply(bounded(t), "w1", noReboot(t, labelled("one"))))
	}
	h.waiting(t, len(answers))
	ok(t, release())
	seen := map[control.ChangeID]bool{}
	for _, one := range answers {
		seen[waits(t, <-one)] = true
	}
	if len(seen) != 1 || h.changes(t) != 1 {
		t.Errorf("%d changes are named, and %d are there", len(seen), h.changes(t))
	}
	h.sentNothing(t)
}

// Only what nothing else refuses is captured: each of these is refused for what is wrong with
// it, and no change is made of it. Control: with nothing wrong it is captured.
func TestOnlyWhatNothingElseRefusesIsCaptured(t *testing.T) {
	t.Parallel()
	node := func(do func(*talosd.Node) error) func(*testing.T, *house) {
		return func(t *testing.T, h *house) { ok(t, do(h.nodes["w1"])) }
	}
	type row struct {
		name   string
		setup  func(*setup)
		before func(*testing.T, *house)
		who    string // olga unless set
		text   []byte // labelled("one") unless set
		mode   machine.ApplyConfigurationRequest_Mode
		code   codes.Code
		reason string
	}
	for _, row := range []row{
		{name: "control: nothing is wrong"},
		{name: "outside the window", setup: func(s *setup) { s.law = closedNow }, reason: "BW-WINDOWS-001"},
		{name: "another mode", mode: machine.ApplyConfigurationRequest_AUTO, reason: "BW-MODE-"},
		{name: "mode staged", mode: machine.ApplyConfigurationRequest_STAGED, reason: "BW-MODE-"},
		{name: "a configuration with a side door", text: append(labelled("one"), "---\napiVersion: v1alpha1\nkind: SideroLinkConfig\napiUrl: grpc://192.0.2.1\n"...), reason: "BW-CONFIG-"},
		{name: "a configuration that cannot be read", text: []byte("machine: [\x01"), reason: "BW-CONFIG-"},
		{name: "another machine type", text: bytes.Replace(labelled("one"), []byte("type: worker"), []byte("type: controlplane"), 1), reason: "BW-CONFIG-"},
		{name: "a row of a control plane", before: func(t *testing.T, h *house) {
			ok(t, h.db.Exec(t.Context(), "update control.machines set role = 'controlplane'"))
			must(h.store.Refresh(t.Context(), 0))(t)
		}, reason: "BW-TARGET-"},
		{name: "a machine that is not pinned", before: func(t *testing.T, h *house) {
			ok(t, h.db.Exec(t.Context(), "update control.machines set pinned_at = null, node_id = '', talos_cluster_id = '', smbios = ''"))
		}, reason: "BW-TARGET-"},
		{name: "pinned to something else", before: node(func(n *talosd.Node) error { return n.SwapIdentity(talosd.Identity{NodeID: "node-z"}) }), reason: "BW-TARGET-"},
		{name: "in maintenance", before: node(func(n *talosd.Node) error { return n.SetStage("maintenance") }), reason: "BW-TARGET-"},
		{name: "another Talos minor", before: node(func(n *talosd.Node) error { return n.SetVersion("v1.14.0") }), reason: "BW-TARGET-"},
		{name: "a held machine", setup: hurried, before: func(t *testing.T, h *house) {
			ok(t, h.nodes["w1"].Fault(talosd.Fault{Kind: talosd.ResetRequest}))
			h.approved(t, labelled("held"))
			if a := h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("held"))); a.code() != codes.DeadlineExceeded {
				t.Fatalf("the attempt is not unresolved: %v", a.err)
			}
		}, reason: "BW-HOLDS-"},
		{name: "a revoked caller", before: func(t *testing.T, h *house) { h.revoke(t, "olga") }, reason: "BW-IDENTITY-001"},
		{name: "a viewer", who: "vera", reason: "BW-METHODS-"},
		{name: "an approver", who: "ada", reason: "BW-METHODS-"},
		{name: "a machine that is away", before: func(_ *testing.T, h *house) {
			h.nodes["w1"].RefuseDials(true)
			h.nodes["w1"].ResetConnections()
		}, code: codes.Unavailable, reason: "BW-UPSTREAM-001"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := approving(t, oneApproval, row.setup)
			if row.before != nil {
				row.before(t, h)
			}
			if row.text == nil {
				row.text = labelled("one")
			}
			if row.who == "" {
				row.who = "olga"
			}
			if row.mode == 0 {
				row.mode = machine.ApplyConfigurationRequest_NO_REBOOT
			}
			if row.code == codes.OK {
				row.code = codes.PermissionDenied
			}
			before := h.changes(t)
			a := h.as(t, row.who).apply(t, "w1", applyRequest(t, row.text, row.mode, false))
			if row.reason == "" {
				waits(t, a)
				if n := h.changes(t) - before; n != 1 {
					t.Errorf("%d changes were captured: the other rows prove nothing", n)
				}
				return
			}
			refusedWith(t, a, row.code, row.reason)
			if n := h.changes(t) - before; n != 0 {
				t.Errorf("%d changes were captured", n)
			}
			if strings.Contains(a.text(), "chg_") {
				t.Errorf("a change is named: %s", a.text())
			}
			if n := h.count(t, "select count(*) from audit.entries where id::text = any ($1) and change_id is null", a.decisions()); n != 1 {
				t.Errorf("%d entries without a change", n)
			}
			if n := len(h.applies("w1")); n != 0 {
				t.Errorf("the node was sent %d applies", n)
			}
		})
	}
}
