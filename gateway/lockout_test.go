package gateway

import (
	"errors"
	"strings"
	"testing"

	"bronzeward/fixtures/idp"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// No law is taken under which whoever brings it could not bring another: activating is more than one act, and agreement to
// something else than a law is given to nobody. The control is the same law with the act in the right hands.
func TestNoLawIsTakenThatLocksEverybodyOut(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.ownEngine = true })
	acts, sven, ada := h.acts(), h.actor(t, "sven"), h.actor(t, "ada")
	ada.Caller.Groups = []string{idp.GroupPolicyAdmins}
	shipped := must(shippedLaw())(t).bundle
	asking := func(acts string) policy.File {
		const path = "bronzeward/api/decision.rego"
		for _, f := range shipped.Files() {
			if f.Path == path {
				return policy.File{Path: path, Body: []byte(strings.Replace(string(f.Body),
					`if input.act in {"policy.activate", "policy.rollback"}`, acts, 1))}
			}
		}
		t.Fatal("the law has no " + path)
		return policy.File{}
	}
	saving := func(role string) policy.File {
		return policy.File{Path: "bronzeward/api/data.yaml", Body: []byte("acts: {policy.save: {roles: [" + role + "], human: true}}\n")}
	}
	one := policy.File{Path: "bronzeward/api/data.yaml", Body: []byte("policy_approvals: 1\n")}
	for _, row := range []struct {
		name  string
		files []policy.File
		says  string // empty: it becomes live
	}{
		{"nobody who activates may save", []policy.File{saving("viewer")}, "could not save another one (BW-ACT-003)"},
		{"agreement is asked for saving", []policy.File{one, asking(`if startswith(input.act, "policy.")`)}, "could not save another one (BW-APPROVAL-004)"},
		{"agreement is asked for agreeing", []policy.File{one, asking(`if input.act in {"policy.activate", "policy.approve"}`)}, "only 0 other people are known here"},
		{"control: a policy-admin saves", []policy.File{saving("policy-admin")}, ""},
	} {
		b := must(policy.OverlayFiles(shipped, row.files...))(t)
		must(acts.ApprovePolicy(t.Context(), ada, saved(t, acts, sven, b), nil))(t) // she is known, and could agree
		_, err := acts.Activate(t.Context(), sven, tried(b), nil)
		live := h.texts(t, "select revision from control.live_bundle")[0] == b.Revision()
		switch {
		case row.says == "":
			if err != nil || !live {
				t.Errorf("%s: %v", row.name, err)
			}
		case !errors.Is(err, ErrLockOut) || !errors.Is(err, control.ErrConflict) || !strings.Contains(err.Error(), row.says) || live:
			t.Errorf("%s: live %t, %v", row.name, live, err)
		}
	}
}

func saved(t *testing.T, acts *Acts, by Actor, b *policy.Bundle) string {
	t.Helper()
	must(acts.SavePolicy(t.Context(), by, tried(b), nil))(t)
	return b.Revision()
}
