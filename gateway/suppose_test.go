package gateway

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"bronzeward/fixtures/idp"
	"bronzeward/fixtures/oracle"
	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

// asTalosctl is the message of talosctl's apply.
func asTalosctl(t testing.TB, text []byte, mode machine.ApplyConfigurationRequest_Mode, dry bool) []byte {
	t.Helper()
	return must(proto.Marshal(&machine.ApplyConfigurationRequest{Data: text, Mode: mode, DryRun: dry, TryModeTimeout: durationpb.New(time.Minute)}))(t)
}

// cannotKnow takes what a supposition cannot know from the record: the id of the change, the
// database's time and the end of the credential.
func cannotKnow(t testing.TB, supposed, recorded *policy.Facts) {
	t.Helper()
	supposed.Now, supposed.Caller.ProofEnds = recorded.Now, recorded.Caller.ProofEnds
	if (supposed.Change == nil) != (recorded.Change == nil) {
		t.Fatalf("one of them has a change: supposed %+v, recorded %+v", supposed.Change, recorded.Change)
	}
	if supposed.Change != nil {
		supposed.Change.ID = recorded.Change.ID
	}
}

// supposes holds the facts in the entry of a call, and its verdict and codes, against those of the
// same call supposed.
func (h *house) supposes(t *testing.T, a answer, s *Supposed) *policy.Facts {
	t.Helper()
	recorded := h.factsOf(t, a)
	row := must(h.store.GetMachine(context.Background(), recorded.Machine.Name))(t)
	s.Machine = control.Machine{Name: row.Name, Cluster: row.Cluster, Role: row.Role, Labels: row.Labels}
	s.Caller = identity.Caller{
		Issuer: recorded.Caller.Issuer, Subject: recorded.Caller.Subject, Kind: identity.Kind(recorded.Caller.Kind),
		Groups: must(idp.Find(recorded.Caller.Subject))(t).Groups, Proof: identity.ProofCertificate, ProofEnds: recorded.Caller.ProofEnds,
	}
	s.Version, s.Stage, s.Now, s.Digester = recorded.Evidence.Version, "running", recorded.Now, h.gw.digester
	engine := must(h.law())(t).engine
	got, d, err := s.Facts(context.Background(), func(f *policy.Facts) policy.Decision { return engine.Decide(context.Background(), f) })
	ok(t, err)
	cannotKnow(t, got, recorded)
	if diff := cmp.Diff(recorded, got); diff != "" {
		t.Errorf("recorded (-) and supposed (+) facts differ:\n%s", diff)
	}
	verdict := "deny"
	if d.Allow {
		verdict = "allow"
	}
	want := h.texts(t, "select verdict || ' ' || coalesce(array_to_string(codes, ' '), '') from audit.entries where id::text = any ($1)", a.decisions())
	if have := strings.TrimSpace(verdict + " " + strings.Join(d.Codes(), " ")); len(want) != 1 || strings.TrimSpace(want[0]) != have {
		t.Errorf("recorded %q, supposed %q", want, have)
	}
	return got
}

// An apply that is supposed is judged on the facts that a gateway records of the same apply: what
// waits for approvals, what is refused for what it would change, a dry run, and what is approved and
// sent, over something staged too.
func TestASupposedApplyHasTheFactsOfARealOne(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, func(s *setup) { s.workers = 2 })
	as := h.as(t, "olga")
	noReboot := machine.ApplyConfigurationRequest_NO_REBOOT
	base, one := oracle.Base(), labelled("one")
	danger := bytes.Replace(one, []byte("machine:\n"), []byte("machine:\n    time:\n        servers: [time.example]\n"), 1)

	captured := as.apply(t, "w1", asTalosctl(t, one, noReboot, false))
	id := waits(t, captured)
	got := h.supposes(t, captured, &Supposed{Proposed: one, Current: base, Mode: "no-reboot"})
	// The control: facts of something else are not equal.
	if recorded := h.factsOf(t, captured); len(recorded.Config.Changes) != 1 || cmp.Equal(recorded.Config, h.supposesOther(t, got)) {
		t.Error("the facts of another configuration are no other ones")
	}
	h.supposes(t, as.apply(t, "w1", asTalosctl(t, danger, noReboot, false)), &Supposed{Proposed: danger, Current: base, Mode: "no-reboot"})
	h.supposes(t, as.apply(t, "w1", asTalosctl(t, one, noReboot, true)), &Supposed{Proposed: one, Current: base, Mode: "no-reboot", DryRun: true})
	nothing := []byte("nothing that could be a configuration")
	h.supposes(t, as.apply(t, "w1", asTalosctl(t, nothing, noReboot, false)), &Supposed{Proposed: nothing, Current: base, Mode: "no-reboot"})

	h.approve(t, id, "ada")
	spent := as.apply(t, "w1", asTalosctl(t, one, noReboot, false))
	succeeded(t, spent)
	ada := h.change(t, id).Approvals[0]
	h.supposes(t, spent, &Supposed{
		Proposed: one, Current: base, Mode: "no-reboot",
		Approvals: []control.Approval{{Approver: ada.Approver, Kind: ada.Kind, Groups: ada.Groups, GroupsNow: ada.GroupsNow}},
	})

	// On w2, which nothing was applied to before, what is staged is no drift.
	ok(t, h.nodes["w2"].Stage(labelled("staged")))
	h.supposes(t, as.apply(t, "w2", asTalosctl(t, one, noReboot, false)),
		&Supposed{Proposed: one, Current: base, Persistent: labelled("staged"), Mode: "no-reboot"})
}

// supposesOther are the configuration facts of another text.
func (h *house) supposesOther(t *testing.T, f *policy.Facts) *policy.Config {
	t.Helper()
	s := Supposed{Proposed: labelled("other"), Current: oracle.Base(), Mode: "no-reboot", Version: f.Evidence.Version, Stage: "running", Digester: h.gw.digester}
	other, _, err := s.Facts(context.Background(), func(*policy.Facts) policy.Decision { return policy.Decision{} })
	ok(t, err)
	return other.Config
}

// Without a key of somebody's, a value has another fingerprint each time, so that nobody can look
// guesses up.
func TestASuppositionHasAKeyOfItsOwn(t *testing.T) {
	var seen []string
	for range 2 {
		s := Supposed{Proposed: labelled("one"), Current: oracle.Base(), Mode: "no-reboot", Version: "v1.13.6", Stage: "running"}
		f, _, err := s.Facts(t.Context(), func(*policy.Facts) policy.Decision { return policy.Decision{} })
		ok(t, err)
		seen = append(seen, f.Config.Digest)
	}
	if seen[0] == seen[1] {
		t.Errorf("two keys make one digest: %s", seen[0])
	}
}

func TestWhatCannotBeSupposed(t *testing.T) {
	good := Supposed{Proposed: labelled("one"), Current: oracle.Base(), Mode: "no-reboot", Version: "v1.13.6", Stage: "running"}
	for name, row := range map[string]struct {
		change func(*Supposed)
		want   string
	}{
		"nothing proposed":        {func(s *Supposed) { s.Proposed = nil }, "no configuration is proposed"},
		"too large":               {func(s *Supposed) { s.Proposed = bytes.Repeat([]byte("#"), MaxConfiguration+1) }, "no apply can carry it"},
		"a machine of no text":    {func(s *Supposed) { s.Current = []byte("machine: [") }, "what the machine runs cannot be read"},
		"a machine of bytes":      {func(s *Supposed) { s.Current = []byte("\x00\x01") }, "NUL byte"},
		"a machine of documents":  {func(s *Supposed) { s.Current = []byte("apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: a\n") }, "no v1alpha1 document"},
		"a mode nobody has":       {func(s *Supposed) { s.Mode = "soon" }, `no mode "soon"`},
		"a version nobody builds": {func(s *Supposed) { s.Version = "1.13" }, "the version"},
	} {
		s := good
		row.change(&s)
		if _, _, err := s.Facts(t.Context(), func(*policy.Facts) policy.Decision { return policy.Decision{} }); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
	if _, _, err := good.Facts(t.Context(), func(*policy.Facts) policy.Decision { return policy.Decision{} }); err != nil {
		t.Errorf("the control: %v", err)
	}
}
