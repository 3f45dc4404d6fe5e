package httpapi

import (
	"github.com/google/uuid"

	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/policy"
)

// viewMachine is a machine as clients read it; seen is what was last seen of it, held are the
// attempts that hold it, drift is the one that is open on it, and house how the house stands.
func viewMachine(m *control.Machine, seen *control.Seen, held []control.Attempt, drift *control.Drift, house []policy.Hold) api.Machine {
	latest := m.Latest(seen)
	v := api.Machine{
		ID: m.ID.String(), Name: m.Name, Cluster: m.Cluster, Role: api.MachineRole(m.Role), Port: int(m.Port),
		Addresses: make([]string, 0, len(m.Addresses)), Labels: api.Labels{}, Pinned: m.Pinned(), PinnedAt: utc(m.PinnedAt), Identity: viewIdentity(m.Identity),
		Serial: m.Serial, Holds: []api.Hold{}, Retired: viewRetirement(m.Retired), Staged: latest.Staged(),
	}
	for _, h := range m.Holds() {
		v.Holds = append(v.Holds, viewHold(h))
	}
	for _, a := range m.Addresses {
		v.Addresses = append(v.Addresses, a.String())
	}
	for key, value := range m.Labels {
		v.Labels[key] = value
	}
	if o := latest; o != nil {
		v.Observed = &api.Observed{
			At: o.RecordedAt.UTC(), Version: o.Version, Stage: o.Stage, Type: o.Type, Active: o.Active, Persistent: o.Persistent,
		}
	}
	if m.ActiveDigest != "" {
		v.Applied = &api.Digests{Active: m.ActiveDigest, Persistent: m.PersistentDigest}
	}
	for i := range held {
		if held[i].MachineID == m.ID {
			v.Holds = append(v.Holds, viewHold(held[i].Hold("machine")))
		}
	}
	if drift != nil {
		v.Holds = append(v.Holds, viewHold(drift.Hold()))
	}
	if m.Retired == nil {
		for _, h := range house {
			v.Holds = append(v.Holds, viewHold(h))
		}
	}
	return v
}

// houseHolds are what closes every machine: that the house may be older than it was, or is in
// recovery.
func (d *door) houseHolds() []policy.Hold {
	s := d.Authority.Standing()
	if !s.Stops() {
		return nil
	}
	h := s.Hold(d.Authority.Epoch())
	h.Reason = s.Message
	return []policy.Hold{h}
}

func viewHold(h policy.Hold) api.Hold {
	return api.Hold{Kind: api.HoldKind(h.Kind), ID: h.ID, Holder: viewPerson(h.Holder), Since: h.Since.UTC(), Scope: api.HoldScope(h.Scope), Reason: h.Reason}
}

func viewIdentity(id control.Identity) api.MachineIdentity {
	return api.MachineIdentity{NodeID: id.NodeID, ClusterID: id.ClusterID, Smbios: id.SMBIOS}
}

func viewObservation(name string, o *control.Observation) api.Observation {
	return api.Observation{
		Machine: name, Identity: viewIdentity(o.Identity), Version: o.Version, Stage: o.Stage, Type: o.Type, Active: o.Active, Persistent: o.Persistent,
	}
}

// viewAttempt is an attempt as clients read it.
func viewAttempt(a *control.Attempt) api.Attempt {
	return api.Attempt{
		ID: a.ID.String(), DecisionID: a.EntryID.String(), ChangeID: a.ChangeID.String(), Machine: a.MachineName, MachineID: a.MachineID.String(),
		Cluster: a.Cluster, State: api.AttemptState(a.State), Caller: viewPerson(a.Caller), Mode: a.Mode, Digest: a.Digest,
		Base: api.Digests{Active: a.Base, Persistent: a.Persistent}, OpenedAt: a.OpenedAt.UTC(), ClosedAt: utc(a.ClosedAt),
		SendBy: a.SendBy.UTC(), TransportDeadline: a.TransportDeadline.UTC(), Instance: a.Owner.Instance, ClosedBy: a.ClosedBy,
		SettleAfter: a.SettleAfter.UTC(), Reason: a.Reason, Read: api.Digests{Active: a.ReadActive, Persistent: a.ReadPersistent}, Landed: a.Landed, LateAt: utc(a.LateAt),
		CredentialVersion: versionOrNull(a.CredentialVersion), Retired: a.Retired,
	}
}

// versionOrNull is a version that was noted; null for none.
func versionOrNull(v int64) *int64 {
	if v == 0 {
		return nil
	}
	return &v
}

// viewTimelineItem says what happened; ids of changes, approvals and drifts are those people type.
func viewTimelineItem(t *control.TimelineItem) api.TimelineItem {
	v := api.TimelineItem{
		At: t.At.UTC(), Kind: api.TimelineItemKind(t.Kind), ID: t.ID.String(), Text: t.Text, State: t.State, Person: viewPerson(t.Person),
	}
	switch t.Kind {
	case "change":
		v.ID = control.ChangeID(t.ID).String()
	case "drift":
		v.ID = control.DriftID(t.ID).String()
	case "approval", "approval-revocation":
		v.ID = control.ApprovalID(t.ID).String()
	}
	return v
}

func viewRevocation(r *control.IdentityRevocation) api.IdentityRevocation {
	return api.IdentityRevocation{Issuer: r.Issuer, Subject: r.Subject, Reason: r.Reason, RevokedAt: r.RevokedAt.UTC(), Seen: r.Seen}
}

func viewNotice(n *control.Notice) api.Notice {
	return api.Notice{
		ID: n.ID.String(), ChangeID: n.ChangeID.String(), State: api.NoticeState(n.State), Tries: n.Tries,
		CreatedAt: n.CreatedAt.UTC(), NextAt: n.NextAt.UTC(), EndedAt: utc(n.EndedAt), Error: n.Error,
	}
}

// byID is the UUID a text is, in its one canonical spelling.
func byID(text string) (uuid.UUID, bool) {
	id, err := uuid.Parse(text)
	return id, err == nil && id.String() == text
}
