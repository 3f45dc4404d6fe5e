package policy

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// acts is the table of who may do what on Bronzeward itself. The law has it as data;
// this is the same table written down a second time, and the test walks both.
var acts = []struct {
	acts  string
	roles string
	human bool
}{
	{"machines.read changes.read attempts.read drift.read decisions.own identities.read", "viewer operator approver auditor recovery-admin policy-admin", false},
	{"clusters.read", "viewer operator approver auditor recovery-admin policy-admin", false},
	{"certificates.issue", "viewer operator approver auditor recovery-admin policy-admin", false},
	{"digests.compute", "operator approver auditor", false},
	{"digest-keys.read", "auditor recovery-admin", false},
	{"digest-keys.add", "recovery-admin", true},
	{"notices.read", "approver operator auditor recovery-admin policy-admin", false},
	{"decisions.read decisions.follow decisions.export proofs.read", "auditor recovery-admin", false},
	{"policy.read", "policy-admin auditor recovery-admin", false},
	{"machines.update", "operator", true},
	{"machines.add machines.import machines.pin changes.submit changes.apply changes.cancel-own drift.adopt drift.revert", "operator", false},
	{"machines.observe", "operator recovery-admin", false},
	{"machines.freeze", "operator approver recovery-admin", false},
	{"changes.approve changes.reject changes.cancel machines.unfreeze machines.repin clusters.limit", "approver", true},
	{"approvals.revoke", "approver recovery-admin", true},
	{"identities.revoke attempts.account machines.retire machines.release recovery.enter recovery.exit", "recovery-admin", true},
	{"policy.save policy.approve policy.activate policy.rollback", "policy-admin", true},
}

func TestEveryActForEveryRole(t *testing.T) {
	e := lawOf(t, nil)
	known := map[string]bool{}
	for _, row := range acts {
		for _, act := range strings.Fields(row.acts) {
			known[act] = true
			for _, role := range []string{"viewer", "operator", "approver", "auditor", "recovery-admin", "policy-admin"} {
				for _, kind := range []string{"human", "automation"} {
					caller := sampleCaller(role + "s")
					caller.Kind = kind
					d := e.DecideAct(context.Background(), &Act{Version: 1, Act: act, Caller: caller, Change: changeFor(act, caller), Now: sampleNow})
					want := slices.Contains(strings.Fields(row.roles), role) && (kind == "human" || !row.human)
					if d.Allow != want {
						t.Errorf("%s by %s (%s): allow = %v, want %v: %v", act, role, kind, d.Allow, want, d.Codes())
					}
				}
			}
		}
	}
	table, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	api := table.parsed.data["bronzeward"].(map[string]any)["api"].(map[string]any)["acts"].(map[string]any)
	for act := range api {
		if !known[act] {
			t.Errorf("act %s stands in the data and not in this table", act)
		}
	}
	if len(api) != len(known) {
		t.Errorf("%d acts in the data, %d in this table", len(api), len(known))
	}
}

// changeFor is the change an act of this name is about: the caller's own where they take it
// back, and somebody else's where they judge it.
func changeFor(act string, caller Caller) *Change {
	switch act {
	case "changes.approve", "changes.reject", "changes.cancel", "changes.apply":
		return sampleChange()
	case "changes.cancel-own":
		c := sampleChange()
		c.Requester = Person{Issuer: caller.Issuer, Subject: caller.Subject}
		return c
	default:
		return nil
	}
}

// The engine hands the change on to the law: what is refused for it is allowed without.
func TestAnActIsJudgedOnItsChange(t *testing.T) {
	e := lawOf(t, nil)
	act := func(name, group string, change *Change) Decision {
		return e.DecideAct(context.Background(), &Act{Version: 1, Act: name, Caller: sampleCaller(group), Change: change, Now: sampleNow})
	}
	own := sampleChange()
	own.Requester = Person{Issuer: sampleCaller().Issuer, Subject: sampleCaller().Subject}
	for _, c := range []struct {
		claim  string
		got    Decision
		denied string
	}{
		{"another's change is approved", act("changes.approve", "approvers", sampleChange()), ""},
		{"one's own is not", act("changes.approve", "approvers", own), "BW-APPROVAL-007"},
		{"nor none", act("changes.approve", "approvers", nil), "BW-ACT-007"},
		{"one's own is taken back", act("changes.cancel-own", "operators", own), ""},
		{"another's is not", act("changes.cancel-own", "operators", sampleChange()), "BW-ACT-006"},
		{"another's is applied", act("changes.apply", "operators", sampleChange()), ""},
	} {
		if c.denied == "" && !c.got.Allow || c.denied != "" && (c.got.Allow || !slices.Contains(c.got.Codes(), c.denied)) {
			t.Errorf("%s: allow = %v, %v", c.claim, c.got.Allow, c.got.Codes())
		}
	}
}

func TestARevokedCallerDoesNothing(t *testing.T) {
	caller := sampleCaller("operators", "recovery-admins")
	caller.Revoked = true
	d := lawOf(t, nil).DecideAct(context.Background(), &Act{Version: 1, Act: "machines.add", Caller: caller, Now: sampleNow})
	if d.Allow || d.Codes()[0] != "BW-ACT-001" {
		t.Errorf("decision = %+v", d)
	}
}

func TestACertificateIsIssuedOnATokenForTheHoursDataSays(t *testing.T) {
	issue := func(e *Engine, proof string) Decision {
		caller := sampleCaller("viewers")
		caller.Proof = proof
		return e.DecideAct(context.Background(), &Act{Version: 1, Act: "certificates.issue", Caller: caller, Subject: "ab12", Now: sampleNow})
	}
	if d := issue(lawOf(t, nil), "token"); !d.Allow || d.CertificateHours != 8 {
		t.Errorf("by a token: %+v", d)
	}
	for _, proof := range []string{"certificate", ""} {
		if d := issue(lawOf(t, nil), proof); d.Allow || !slices.Contains(d.Codes(), "BW-ACT-009") {
			t.Errorf("by %q: %+v", proof, d)
		}
	}
}

// What a law answers is read strictly: hours that are no hours deny, and so do hours beside
// anything else that is not known.
func TestHoursAreReadStrictly(t *testing.T) {
	const head = `decision := {"allow": true, "reasons": [], "approvals": {"required": 0, "groups": [], "self_approval": false}`
	for _, c := range []struct {
		name, rest string
		hours      int
		code       string
	}{
		{"none", `}`, 0, ""},
		{"the least", `, "certificate_hours": 1}`, 1, ""},
		{"the most", `, "certificate_hours": 24}`, 24, ""},
		{"zero", `, "certificate_hours": 0}`, 0, CodeMalformed},
		{"a day and an hour", `, "certificate_hours": 25}`, 0, CodeMalformed},
		{"a part", `, "certificate_hours": 1.5}`, 0, CodeMalformed},
		{"a text", `, "certificate_hours": "8"}`, 0, CodeMalformed},
		{"null", `, "certificate_hours": null}`, 0, CodeMalformed},
		{"true", `, "certificate_hours": true}`, 0, CodeMalformed},
		{"a list", `, "certificate_hours": [8]}`, 0, CodeMalformed},
		{"beside another key", `, "certificate_hours": 8, "hours": 8}`, 0, CodeMalformed},
		{"misspelled", `, "certificates_hours": 8}`, 0, CodeMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := using(t, EngineConfig{}, map[string]string{
				"a.rego": "package bronzeward.admission\n\ndefault decision := false\n", "b.rego": "package bronzeward.api\n\n" + head + c.rest,
			})
			d := e.DecideAct(context.Background(), &Act{Version: 1, Act: "certificates.issue", Caller: sampleCaller("viewers"), Now: sampleNow})
			if d.CertificateHours != c.hours || d.Allow != (c.code == "") || c.code != "" && !slices.Contains(d.Codes(), c.code) {
				t.Errorf("%+v", d)
			}
		})
	}
}
