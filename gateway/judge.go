package gateway

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/facts"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

// facts builds what a policy may see of this call to one machine. Holds, Evidence and
// Config are set by the ways that read them.
func (c *call) facts(t *target, snap *control.Snapshot, phase string) *policy.Facts {
	f := callFacts(c.asked.Call, c.caller, phase, snap.Now())
	f.Caller.Revoked = snap.Revoked(c.caller.Issuer, c.caller.Subject)
	f.Call.Targets = len(c.targets)
	f.Call.Cluster = facts.Word(first(c.md.Get("context")))
	if t != nil {
		f.Machine = machineFacts(t.machine)
	}
	if c.kind() != control.KindApply {
		f.Change = c.pendingFacts(control.ChangeID{})
	}
	return f
}

// callFacts are the facts of a call that need nothing but itself: what is asked, who asks, and when.
func callFacts(asked policy.Call, by identity.Caller, phase string, now time.Time) *policy.Facts {
	f := &policy.Facts{
		Version: policy.FactsVersion,
		Phase:   phase,
		Call:    asked,
		Caller: policy.Caller{
			Issuer: by.Issuer, Subject: by.Subject, Kind: string(by.Kind),
			Groups: slices.Clone(by.Groups), Proof: string(by.Proof), ProofEnds: by.ProofEnds,
		},
		Holds: []policy.Hold{},
		Now:   now,
	}
	if f.Caller.Groups == nil {
		f.Caller.Groups = []string{}
	}
	return f
}

func machineFacts(m *control.Machine) *policy.Machine {
	labels := m.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	return &policy.Machine{Name: m.Name, Cluster: m.Cluster, Role: m.Role, Labels: labels, Pinned: m.PinnedAt != nil}
}

// entry begins the Entry of a Decision about this call; the caller of entry adds what
// only it knows. A nil target is a call that names no machine we know.
func (c *call) entry(t *target, d policy.Decision) audit.Entry {
	snap := c.g.store.Snapshot()
	e := audit.Entry{
		ID: newID(), Kind: audit.KindRPC, Verdict: verdictOf(d),
		Method: printable(c.name), Class: string(c.method.Class),
		Mode: c.asked.Call.Mode, DryRun: c.asked.Call.DryRun,
		Caller: bookCaller(c.caller), ClientAddress: c.address,
		Cluster:          printable(facts.Word(first(c.md.Get("context")))),
		Epoch:            snap.Epoch,
		AuthorityVersion: snap.AuthorityVersion,
		PolicyRevision:   d.Revision, OPAVersion: d.OPA,
		Reasons: d.Reasons, Codes: d.Codes(), ApprovalsNeeded: d.Approvals.Required,
		Count: 1, Instance: c.g.instance, At: snap.Now(),
	}
	if t != nil {
		e.MachineID, e.MachineName, e.Cluster, e.NodeID = t.machine.ID, t.machine.Name, t.machine.Cluster, t.machine.NodeID
	}
	if c.act != nil {
		c.act.stamp(&e)
	}
	return e
}

// maxFacts bounds the facts of one entry in bytes: ten thousand changes, which is the
// most there are, stay below it.
const maxFacts = 8 << 20

// encodeFacts is the JSON of facts as an entry holds it.
func encodeFacts(f *policy.Facts) ([]byte, error) {
	raw, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxFacts {
		return nil, fmt.Errorf("the facts have %d bytes, more than the %d an entry holds", len(raw), maxFacts)
	}
	return raw, nil
}

// withFacts puts the facts a policy saw into the entry, so that it can be judged again.
func withFacts(e audit.Entry, f *policy.Facts) (audit.Entry, error) {
	raw, err := encodeFacts(f)
	if err != nil {
		return e, err
	}
	e.Facts = raw
	if f.Config != nil {
		e.Digest, e.Base, e.Persistent = f.Config.Digest, f.Config.Base, f.Config.Persistent
	}
	return e, nil
}

func verdictOf(d policy.Decision) audit.Verdict {
	if d.Allow {
		return audit.Allowed
	}
	return audit.Denied
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
