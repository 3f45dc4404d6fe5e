package gateway

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/idp"
	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

// quorumData is the shipped law's data of what an apply needs, and what a test adds.
func quorumData(required, self, more string) policy.File {
	return policy.File{Path: "bronzeward/data.yaml", Body: []byte(
		"quorum: {required: " + required + ", groups: [" + idp.GroupApprovers + "], self_approval: " + self + "}\n" + more)}
}

// The shipped law as these tests need it: with a quorum of one or two, with one's own
// approval counting, and with a window that is never open.
var (
	oneApproval  = sync.OnceValues(func() (law, error) { return newLaw(quorumData("1", "false", "")) })
	twoApprovals = sync.OnceValues(func() (law, error) { return newLaw(quorumData("2", "false", "")) })
	ownApproval  = sync.OnceValues(func() (law, error) { return newLaw(quorumData("1", "true", "")) })
	// carelessTwo allows everything, and asks for two approvals.
	carelessTwo = sync.OnceValues(func() (law, error) {
		return newLaw(admission(`"allow": true, "approvals": {"required": 2, "groups": ["`+idp.GroupApprovers+`"], "self_approval": false}`), quorumData("2", "false", ""))
	})
	closedNow = sync.OnceValues(func() (law, error) {
		return newLaw(quorumData("1", "false", "windows: [{name: never, clusters: ["+cluster+"], days: [], from: \"00:00\", to: \"23:59\", zone: UTC}]\n"))
	})
)

// approving makes a house under a law that asks for approvals.
func approving(t testing.TB, of func() (law, error), change func(*setup)) *house {
	t.Helper()
	return newHouse(t, func(s *setup) {
		s.law = of
		if change != nil {
			change(s)
		}
	})
}

var changeName = regexp.MustCompile(`chg_[0-9a-z]{26}`)

// namedChange is the one change a refusal speaks of.
func namedChange(t testing.TB, text string) control.ChangeID {
	t.Helper()
	id, err := control.ParseChangeID(changeName.FindString(text))
	if err != nil {
		t.Fatalf("no change is named: %q", text)
	}
	return id
}

// waits fails the test unless the apply was refused for its approvals and nothing else, and
// gives the change that now waits.
func waits(t testing.TB, a answer) control.ChangeID {
	t.Helper()
	if a.code() != codes.PermissionDenied || !strings.HasPrefix(a.text(), "DENIED BW-APPROVAL-001: change chg_") || strings.Contains(a.text(), "also BW-") {
		t.Fatalf("got %v %q, want a refusal for approvals alone", a.code(), a.text())
	}
	return namedChange(t, a.text())
}

// actor is a person as the HTTP door proves them.
func (h *house) actor(t testing.TB, subject string) Actor {
	t.Helper()
	who := must(idp.Find(subject))(t)
	return Actor{Address: "192.0.2.7", Caller: identity.Caller{
		Issuer: issuer, Subject: who.Subject, Kind: identity.Kind(who.Kind), Groups: who.Groups,
		Proof: identity.ProofCertificate, ProofEnds: h.store.Snapshot().Now().Add(time.Hour),
	}}
}

// acts are the acts of the HTTP door, on this house.
func (h *house) acts() *Acts {
	return &Acts{
		Store: h.store, Judge: h.gw.judge, Upstream: h.upstream, Digester: h.gw.digester,
		Gate: h.gw, Book: h.book, Instance: "gw-1", Told: h.receipts.wrote,
	}
}

func (h *house) change(t testing.TB, id control.ChangeID) control.Change {
	t.Helper()
	return must(h.store.GetChange(context.Background(), id))(t)
}

// approve approves the change as the persons named, by the digest it shows.
func (h *house) approve(t testing.TB, id control.ChangeID, people ...string) []control.Approval {
	t.Helper()
	var out []control.Approval
	for _, who := range people {
		list := []control.ApproveOne{{ID: id, Digest: h.change(t, id).Digest}}
		out = append(out, must(h.acts().Approve(context.Background(), h.actor(t, who), list, nil))(t)...)
	}
	return out
}

// is fails the test unless the change is in that state.
func (h *house) is(t testing.TB, id control.ChangeID, want control.ChangeState) control.Change {
	t.Helper()
	c := h.change(t, id)
	if c.State != want {
		t.Errorf("the change is %s (%s), want %s", c.State, c.Reason, want)
	}
	return c
}

// sentNothing fails the test when any node was sent an apply, a dry run among them.
func (h *house) sentNothing(t testing.TB) {
	t.Helper()
	for name, n := range h.nodes {
		if sent := n.Log().Of(talosd.MethodApply); len(sent) != 0 {
			t.Errorf("%s was sent %d applies", name, len(sent))
		}
	}
}

// changes is how many changes there are, in any state.
func (h *house) changes(t testing.TB) int {
	t.Helper()
	return h.count(t, "select count(*) from control.changes")
}

// entriesAbout are the verdicts of the entries that name the change, oldest first.
func (h *house) entriesAbout(t testing.TB, id control.ChangeID) string {
	t.Helper()
	return strings.Join(h.texts(t, "select verdict || ' ' || method from audit.entries where change_id = $1 order by recorded_at", id.String()), "\n")
}

// approved captures the bytes as olga's change to w1 and has ada approve it.
func (h *house) approved(t testing.TB, text []byte) control.ChangeID {
	t.Helper()
	id := waits(t, h.as(t, "olga").apply(t, "w1", noReboot(t, text)))
	h.approve(t, id, "ada")
	h.is(t, id, control.ChangeApproved)
	return id
}

func uuidOf(id control.ChangeID) string { return uuid.UUID(id).String() }

// onlyApprovalsLaw refuses for one thing: that nobody approved.
var onlyApprovalsLaw = sync.OnceValues(func() (law, error) {
	return newLaw(policy.File{Path: "bronzeward/admission/decision.rego", Body: []byte(`package bronzeward.admission

# METADATA
# title: decision
# entrypoint: true
decision := {
	"allow": input.phase == "early",
	"reasons": [r | input.phase != "early"; r := {"code": "BW-APPROVAL-001", "message": sprintf("change %s", [name]), "rule": "x", "severity": "deny", "hint": ""}],
	"approvals": {"required": 1, "groups": ["` + idp.GroupApprovers + `"], "self_approval": false},
	"upstream_roles": ["os:admin"], "redact": false,
}

default name := "unknown"

name := input.change.id
`)})
})

// lawRefusesForApprovalsOnly judges the facts of a refused call's entry again, by the law alone:
// it is no rule that refused.
func (h *house) lawRefusesForApprovalsOnly(t testing.TB, a answer) {
	t.Helper()
	d := must(h.law())(t).engine.Decide(context.Background(), h.factsOf(t, a))
	if !d.Allow && !OnlyApprovals(d) {
		t.Errorf("the law alone refuses too: this row proves nothing: %+v", d.Reasons)
	}
}

// factsOf are the facts in the entry of a call.
func (h *house) factsOf(t testing.TB, a answer) *policy.Facts {
	t.Helper()
	records := h.texts(t, "select convert_from(record, 'UTF8')::jsonb ->> 'facts' from audit.entries where id::text = any ($1)", a.decisions())
	if len(records) != 1 {
		t.Fatalf("%d entries", len(records))
	}
	var f policy.Facts
	ok(t, json.Unmarshal([]byte(records[0]), &f))
	return &f
}
