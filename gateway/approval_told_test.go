package gateway

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/idp"
	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
)

// stillMember is the law that asks for approvers who are in the group still.
var stillMember = sync.OnceValues(func() (law, error) {
	f := quorumData("1", "false", "")
	f.Body = []byte(strings.Replace(string(f.Body), "self_approval: false}", "self_approval: false, still_member: true}", 1))
	return newLaw(f)
})

// Losing a group does not withdraw an approval: it is shown on the change once a fresh token
// shows it, and where data asks for members it does not count. A certificate's groups are as
// old as the certificate, and show nothing.
func TestAnApproverWhoLeavesTheGroup(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		law   func() (law, error)
		goes  bool
		proof identity.Proof
		now   []string
	}{
		{"known behaviour", oneApproval, true, identity.ProofToken, []string{idp.GroupViewers}},
		{"where data asks for members", stillMember, false, identity.ProofToken, []string{idp.GroupViewers}},
		{"who is a member still", stillMember, true, identity.ProofToken, []string{idp.GroupApprovers, idp.GroupViewers}},
		{"by a certificate", oneApproval, true, identity.ProofCertificate, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := approving(t, row.law, nil)
			id := waits(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))))
			h.approve(t, id, "ada")
			seen := h.actor(t, "ada").Caller
			seen.Proof, seen.Groups, seen.ProofEnds = row.proof, []string{idp.GroupViewers}, seen.ProofEnds.Add(time.Minute)
			if row.now != nil {
				seen.Groups = row.now
			}
			h.gw.Saw(seen)
			h.gw.background.Wait()
			c := h.is(t, id, control.ChangeApproved)
			if a := c.Approvals[0]; !slices.Equal(a.GroupsNow, row.now) || a.Revoked || !slices.Contains(a.Groups, idp.GroupApprovers) {
				t.Errorf("the approval is shown with groups %q, now %q", a.Groups, a.GroupsNow)
			}
			a := h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one")))
			if row.goes {
				succeeded(t, a)
				return
			}
			refusedWith(t, a, codes.PermissionDenied, "BW-APPROVAL-001")
			h.sentNothing(t)
		})
	}
}

// What approvers are told of a change is what it is now, and names the paths, not the values.
func TestWhatApproversAreTold(t *testing.T) {
	t.Parallel()
	h := approving(t, twoApprovals, func(s *setup) { s.gateway = func(c *Config) { c.Changes.Notify = true } })
	c, _, err := h.acts().Submit(t.Context(), h.actor(t, "olga"), control.Submission{Machine: "w1", Text: labelled("one"), Mode: "no-reboot", Set: "spring"}, nil)
	ok(t, err)
	if n := h.count(t, "select count(*) from control.notices where change_id::text = $1 and state = 'waiting'", uuidOf(c.ID)); n != 1 {
		t.Errorf("%d notices", n)
	}
	told := must(h.gw.Describe(t.Context(), c.ID))(t).(Announcement)
	if told.ID != c.ID.String() || told.State != "waiting" || told.Machine != "w1" || told.Cluster != cluster || told.Digest != c.Digest || told.Set != "spring" ||
		told.Requester.Subject != "olga" || told.Required != 2 || !slices.Equal(told.Groups, []string{idp.GroupApprovers}) || !told.ApproveBy.Equal(c.ApproveBy) {
		t.Errorf("approvers are told %+v", told)
	}
	if len(told.Paths) != 1 || !strings.Contains(told.Paths[0], "nodeLabels") || strings.Contains(text(t, told), `"one"`) {
		t.Errorf("the paths are %q", told.Paths)
	}
	must(h.acts().Reject(t.Context(), h.actor(t, "ada"), c.ID, "no", nil))(t)
	if told := must(h.gw.Describe(t.Context(), c.ID))(t).(Announcement); told.State != "rejected" {
		t.Errorf("after its end they are told it is %s", told.State)
	}
	if _, err := h.gw.Describe(t.Context(), control.ChangeID(newID())); tell(err).code != "BW-CHANGE-001" {
		t.Errorf("of what nobody knows they are told %v", err)
	}
	// A second sending of the same bytes tells nobody again.
	again := waits(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("two"))))
	waits(t, h.as(t, "otto").apply(t, "w1", noReboot(t, labelled("two"))))
	if n := h.count(t, "select count(*) from control.notices where change_id::text = $1", uuidOf(again)); n != 1 {
		t.Errorf("%d notices", n)
	}
}
