package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"bronzeward/fixtures/gatewaypki"
	"bronzeward/fixtures/idp"
	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

// approveAs approves one change as an actor of the test's own.
func (h *house) approveAs(t testing.TB, by Actor, id control.ChangeID) ([]control.Approval, error) {
	t.Helper()
	return h.acts().Approve(context.Background(), by, []control.ApproveOne{{ID: id, Digest: h.change(t, id).Digest}}, nil)
}

// approvalsOf is how many approvals the change has, counting ones or not.
func (h *house) approvalsOf(t testing.TB, id control.ChangeID) int {
	t.Helper()
	return h.count(t, "select count(*) from control.approvals where change_id::text = $1", uuidOf(id))
}

// Who may not approve leaves nothing but the refusal's entry, and the change waits.
func TestWhoMayNotApprove(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	id := waits(t, h.as(t, "boris").apply(t, "w1", noReboot(t, labelled("one"))))
	robot := h.actor(t, "bot-ci")
	robot.Caller.Groups = []string{idp.GroupApprovers}
	lead := h.actor(t, "ada")
	lead.Caller.Groups = []string{"other-approvers"}
	late := h.actor(t, "ada")
	late.Caller.ProofEnds = h.store.Snapshot().Now()
	for _, row := range []struct {
		name string
		by   Actor
		code string
	}{
		{"their own change", h.actor(t, "boris"), "BW-APPROVAL-007"},
		{"automation, in the group of the approvers", robot, "BW-ACT-004"},
		{"an operator", h.actor(t, "olga"), "BW-ACT-003"},
		{"a viewer", h.actor(t, "vera"), "BW-ACT-003"},
		{"in another group", lead, "BW-ACT-003"},
		{"with a proof that has ended", late, "BW-ACT-005"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := h.approveAs(t, row.by, id)
			got := tell(err)
			if got.grpc != codes.PermissionDenied || !strings.Contains(got.text, row.code+":") {
				t.Errorf("got %v, want %s", err, row.code)
			}
			h.hasEntry(t, got.entry, row.by.Caller.Subject)
			if n := h.approvalsOf(t, id); n != 0 {
				t.Errorf("%d approvals are written", n)
			}
			h.is(t, id, control.ChangeWaiting)
		})
	}
	refusedWith(t, h.as(t, "boris").apply(t, "w1", noReboot(t, labelled("one"))), codes.PermissionDenied, "BW-APPROVAL-001")
	h.sentNothing(t)
}

// Automation never approves, whatever a careless law says of acts.
func TestNoLawLetsAutomationApprove(t *testing.T) {
	t.Parallel()
	careless := func() (law, error) {
		return newLaw(quorumData("1", "false", ""), policy.File{Path: "bronzeward/api/decision.rego", Body: []byte(`package bronzeward.api

# METADATA
# title: decision
# entrypoint: true
decision := {"allow": true, "reasons": [], "approvals": {"required": 0, "groups": [], "self_approval": false}}
`)})
	}
	h := approving(t, sync.OnceValues(careless), nil)
	id := waits(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))))
	robot := h.actor(t, "bot-ci")
	robot.Caller.Groups = []string{idp.GroupApprovers}
	var guard *control.GuardError
	if _, err := h.approveAs(t, robot, id); !errors.As(err, &guard) {
		t.Errorf("it came to %v", err)
	}
	if n := h.approvalsOf(t, id); n != 0 {
		t.Errorf("%d approvals are written", n)
	}
	h.is(t, id, control.ChangeWaiting)
	// Whom the law lets approve without a group it asks for does not count.
	must(h.approveAs(t, h.actor(t, "vera"), id))(t)
	h.is(t, id, control.ChangeWaiting)
	_, err := h.applyChange(t, "otto", id)
	actRefused(t, err, "BW-APPROVAL-001")
	h.sentNothing(t)
}

// Where data lets one's own approval count, it is marked wherever it is told, with every
// reason that holds.
func TestASelfApprovalByDataIsMarked(t *testing.T) {
	t.Parallel()
	h := approving(t, ownApproval, nil)
	id := waits(t, h.as(t, "boris").apply(t, "w1", noReboot(t, labelled("one"))))
	given := must(h.approveAs(t, h.actor(t, "boris"), id))(t)
	if strings.Join(given[0].Self, " ") != "requester" {
		t.Errorf("the approval is marked %q", given[0].Self)
	}
	out, err := h.applyChange(t, "boris", id)
	ok(t, err)
	const words = "BW-APPROVAL-005: self-approved: boris is the requester and the spender"
	if !strings.Contains(strings.Join(out.Warnings, "\n"), words) {
		t.Errorf("the answer warns of %q", out.Warnings)
	}
	if n := h.count(t, "select count(*) from audit.entries where id = $1 and 'BW-APPROVAL-005' = any (codes)", out.Attempt.EntryID); n != 1 {
		t.Error("the entry does not tell")
	}
	h.is(t, id, control.ChangeSpent)
}

// Whoever applies counts as requester: their own approval does not let them apply, and lets
// everybody else.
func TestTheSpendersOwnApprovalDoesNotCount(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	id := waits(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))))
	h.approve(t, id, "boris")
	h.is(t, id, control.ChangeApproved)
	refusedWith(t, h.as(t, "boris").apply(t, "w1", noReboot(t, labelled("one"))), codes.PermissionDenied, "BW-APPROVAL-001")
	_, err := h.applyChange(t, "boris", id)
	actRefused(t, err, "BW-APPROVAL-001")
	h.sentNothing(t)
	h.is(t, id, control.ChangeApproved)
	_, err = h.applyChange(t, "otto", id)
	ok(t, err)
	h.is(t, id, control.ChangeSpent)
}

// What an approval names must be what there is: all or none.
func TestAnApprovalNamesExactlyTheChange(t *testing.T) {
	t.Parallel()
	h := approving(t, twoApprovals, nil)
	one := waits(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))))
	two := waits(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("two"))))
	of := func(id control.ChangeID) control.ApproveOne {
		return control.ApproveOne{ID: id, Digest: h.change(t, id).Digest}
	}
	ada := h.actor(t, "ada")
	for _, row := range []struct {
		name string
		list []control.ApproveOne
		code string
	}{
		{"another change's digest", []control.ApproveOne{{ID: one, Digest: of(two).Digest}}, "BW-CHANGE-003"},
		{"no digest", []control.ApproveOne{{ID: one}}, "BW-CHANGE-003"},
		{"the second with another digest", []control.ApproveOne{of(one), {ID: two, Digest: "hmac-sha256:k1:00"}}, "BW-CHANGE-003"},
		{"one nobody knows", []control.ApproveOne{of(one), {ID: control.ChangeID(newID()), Digest: "x"}}, "BW-CHANGE-001"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := h.acts().Approve(t.Context(), ada, row.list, nil)
			actRefused(t, err, row.code)
			if n := h.approvalsOf(t, one) + h.approvalsOf(t, two); n != 0 {
				t.Errorf("%d approvals are written", n)
			}
		})
	}
	ok(t, func() error {
		_, err := h.acts().Approve(t.Context(), ada, []control.ApproveOne{of(two), of(one)}, nil)
		return err
	}())
	if n := h.count(t, "select count(*) from audit.entries where method = 'changes.approve' and verdict = 'allow' and change_id = any ($1)", []string{one.String(), two.String()}); n != 2 {
		t.Errorf("two approvals in one act have %d entries", n)
	}
	_, err := h.approveAs(t, ada, one)
	actRefused(t, err, "BW-CHANGE-007")
	h.is(t, one, control.ChangeWaiting)
}

// A person is one person, whichever credential they show: issuer and subject. Control: the same
// name at another issuer is somebody else.
func TestCertificateAndTokenAreOnePerson(t *testing.T) {
	t.Parallel()
	provider := must(idp.Start(idp.Config{}))(t)
	t.Cleanup(func() { ok(t, provider.Close()) })
	h := approving(t, oneApproval, func(s *setup) {
		s.identity = func(c *identity.Config) {
			c.Issuers = []identity.IssuerConfig{{Issuer: provider.Issuer(), Audience: []string{provider.Audience()}, CACert: []*x509.Certificate{provider.CACert()}}}
		}
	})
	who := must(idp.Find("boris"))(t)
	pair := must(sharedPKI(t).people.Person(gatewaypki.Person{Issuer: provider.Issuer(), Subject: "boris", Kind: who.Kind, Groups: who.Groups}))(t)
	certificate := must(pair.TLS())(t)
	leaf := must(pair.Leaf())(t)
	bearer := "Bearer " + must(provider.Token("boris"))(t)
	proven := func(r identity.Request) Actor {
		return Actor{Caller: must(h.gw.identity.Identify(t.Context(), r))(t), Address: "192.0.2.7"}
	}
	byToken := proven(identity.Request{Authorization: []string{bearer}})
	byCertificate := proven(identity.Request{TLS: &tls.ConnectionState{HandshakeComplete: true, PeerCertificates: []*x509.Certificate{leaf}}})
	if byToken.Caller.Proof != identity.ProofToken || byCertificate.Caller.Proof != identity.ProofCertificate {
		t.Fatalf("proven by %s and %s", byToken.Caller.Proof, byCertificate.Caller.Proof)
	}

	asked := waits(t, h.with(t, &tls.Config{Certificates: []tls.Certificate{certificate}}).apply(t, "w1", noReboot(t, labelled("one"))))
	_, err := h.approveAs(t, byToken, asked)
	actRefused(t, err, "BW-APPROVAL-007")
	tokenMD := metadata.Join(to("w1"), metadata.Pairs("authorization", bearer))
	other := waits(t, h.with(t, &tls.Config{}).call(bounded(t), talosd.MethodApply, tokenMD, noReboot(t, labelled("two"))))
	if got := h.change(t, other).Requester; got != (policy.Person{Issuer: provider.Issuer(), Subject: "boris"}) {
		t.Errorf("requested by %+v", got)
	}
	_, err = h.approveAs(t, byCertificate, other)
	actRefused(t, err, "BW-APPROVAL-007")

	// Twice the same approver is one approver.
	third := waits(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("three"))))
	must(h.approveAs(t, byToken, third))(t)
	_, err = h.approveAs(t, byCertificate, third)
	actRefused(t, err, "BW-CHANGE-007")

	must(h.approveAs(t, h.actor(t, "boris"), asked))(t) // of issuer https://people.test
	h.is(t, asked, control.ChangeApproved)
}
