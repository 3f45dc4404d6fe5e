package policy

import "time"

// sample is a call that every law must survive, and some that no law may allow.
type sample struct {
	name  string
	facts *Facts
	// forbidden samples break an invariant; a bundle that allows one never becomes live.
	forbidden bool
}

var sampleNow = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// sampleApply is an ordinary apply of one label to a pinned worker, at its final
// judgement, by a human operator.
func sampleApply() *Facts {
	return &Facts{
		Version: FactsVersion,
		Phase:   "final",
		Call: Call{
			Method: "/machine.MachineService/ApplyConfiguration", Class: ClassApply,
			Mode: "no-reboot", ModeGiven: true, Size: 15 << 10, Targets: 1, Cluster: "lab",
		},
		Caller:  sampleCaller("operators"),
		Machine: &Machine{Name: "worker-1", Cluster: "lab", Role: "worker", Labels: map[string]string{}, Pinned: true},
		Evidence: &Evidence{
			Version: "v1.13.6", Minor: "1.13", Stage: "running", Type: "worker", IdentityMatches: true,
		},
		Config: &Config{
			Digest: "sha256:k0:aa", Base: "sha256:k0:bb", Persistent: "sha256:k0:bb",
			Problems: []Problem{},
			Documents: []Document{
				{APIVersion: "v1alpha1", Kind: "v1alpha1"},
				{APIVersion: "v1alpha1", Kind: "HostnameConfig"},
			},
			Changes: []ConfigChange{{
				Document: "v1alpha1", Path: "machine.nodeLabels.a", Field: "machine.nodeLabels", After: "fp:1111",
			}},
			ChangesKnown: true,
			Collections:  []Collection{},
		},
		Holds: []Hold{},
		Now:   sampleNow,
	}
}

// sampleChange is what an apply became that somebody else asked for, approved by one more.
func sampleChange() *Change {
	vera := Person{Issuer: "https://idp.example", Subject: "vera"}
	return &Change{
		ID: "chg_01jn1zq9m8e6r9h0t5w3x7y2k4", State: "approved", Kind: "apply", Requester: vera, Spender: vera,
		Approvals: []Approval{{
			Approver: Person{Issuer: "https://idp.example", Subject: "anna"}, Kind: "human", Groups: []string{"approvers"}, EpochCurrent: true,
		}},
		EpochCurrent: true,
	}
}

func sampleCaller(groups ...string) Caller {
	return Caller{
		Issuer: "https://idp.example", Subject: "olga", Kind: "human", Groups: groups,
		Proof: "token", ProofEnds: sampleNow.Add(10 * time.Minute),
	}
}

func sampleCall(method string, class Class) *Facts {
	f := sampleApply()
	f.Call = Call{Method: method, Class: class, Targets: 1, Cluster: "lab"}
	f.Evidence, f.Config = nil, nil
	return f
}

// samples are the calls of a Trial.
func samples() []sample {
	apply := func(name string, change func(*Facts)) sample {
		f := sampleApply()
		change(f)
		return sample{name: name, facts: f, forbidden: true}
	}
	call := func(name, method string, class Class) sample {
		return sample{name: name, facts: sampleCall(method, class), forbidden: true}
	}
	early := sampleApply()
	early.Phase, early.Evidence, early.Config = "early", nil, nil
	approved := sampleApply()
	approved.Change = sampleChange()
	past := func(state string) sample {
		return apply("a change that is "+state, func(f *Facts) {
			f.Change = sampleChange()
			f.Change.State = state
		})
	}
	return []sample{
		{name: "an ordinary apply", facts: sampleApply()},
		{name: "an ordinary apply, early", facts: early},
		{name: "an apply of an approved change", facts: approved},
		{name: "a version", facts: sampleCall("/machine.MachineService/Version", ClassRead)},
		{name: "a configuration read", facts: sampleCall("/cosi.resource.State/Get", ClassConfigRead)},
		{name: "facts with nothing in them", facts: &Facts{Version: FactsVersion}, forbidden: true},
		apply("a revoked caller", func(f *Facts) { f.Caller.Revoked = true }),
		apply("a caller in no group", func(f *Facts) { f.Caller.Groups = []string{} }),
		apply("an absent mode", func(f *Facts) { f.Call.Mode, f.Call.ModeGiven = "reboot", false }),
		apply("mode reboot", func(f *Facts) { f.Call.Mode = "reboot" }),
		apply("mode staged", func(f *Facts) { f.Call.Mode = "staged" }),
		apply("mode try", func(f *Facts) { f.Call.Mode = "try" }),
		apply("mode auto", func(f *Facts) { f.Call.Mode = "auto" }),
		apply("a control plane by its row", func(f *Facts) { f.Machine.Role = "controlplane" }),
		apply("a control plane by its own word", func(f *Facts) { f.Evidence.Type = "controlplane" }),
		apply("another machine", func(f *Facts) { f.Evidence.IdentityMatches = false }),
		apply("a machine that is not pinned", func(f *Facts) { f.Machine.Pinned = false }),
		apply("an unknown machine", func(f *Facts) { f.Machine = nil }),
		apply("two machines", func(f *Facts) { f.Call.Targets = 2 }),
		apply("maintenance", func(f *Facts) { f.Evidence.Stage = "maintenance" }),
		apply("another Talos minor", func(f *Facts) { f.Evidence.Minor = "1.14" }),
		apply("no evidence", func(f *Facts) { f.Evidence = nil }),
		apply("no configuration read", func(f *Facts) { f.Config = nil }),
		apply("an unacceptable configuration", func(f *Facts) {
			f.Config.Problems = []Problem{{Kind: "syntax", Line: 3, Message: "the configuration is not well-formed YAML"}}
		}),
		apply("an unresolved attempt", func(f *Facts) {
			f.Holds = []Hold{{Kind: "unresolved-attempt", ID: "1", Scope: "machine", Since: sampleNow}}
		}),
		apply("a frozen machine", func(f *Facts) {
			f.Holds = []Hold{{Kind: "freeze", ID: "1", Scope: "machine", Since: sampleNow}}
		}),
		apply("a retired machine", func(f *Facts) {
			f.Holds = []Hold{{Kind: HoldRetired, ID: "1", Scope: "machine", Since: sampleNow, Reason: "its board burnt"}}
		}),
		apply("a change of another epoch", func(f *Facts) {
			f.Change = sampleChange()
			f.Change.EpochCurrent = false
		}),
		past("spent"), past("superseded"), past("cancelled"), past("rejected"), past("expired"), past("revoked"),
		apply("something staged, and no change", func(f *Facts) { f.Evidence.Staged = true }),
		call("an unknown class", "/nosuch.Service/Method", "unheard-of"),
		call("an upload", "/machine.ImageService/Import", ClassUpload),
		call("a kubeconfig", "/machine.MachineService/Kubeconfig", ClassMint),
		call("a client certificate", "/machine.MachineService/GenerateClientConfiguration", ClassMint),
		call("a secret type", "/cosi.resource.State/Get", ClassSecretRead),
	}
}
