package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/facts"
	"bronzeward/gateway/identity"
	"bronzeward/gateway/upstream"
	"bronzeward/policy"
)

// The acts a person can do on Bronzeward itself, as DESIGN's act × role table names
// them. Each is judged by data.bronzeward.api.decision under the authority lock, and its
// entry is in the same transaction as its effect.
const (
	ActMachinesAdd      = "machines.add"
	ActMachinesUpdate   = "machines.update"
	ActMachinesObserve  = "machines.observe"
	ActMachinesPin      = "machines.pin"
	ActMachinesRepin    = "machines.repin"
	ActAttemptsAccount  = "attempts.account"
	ActPolicyActivate   = "policy.activate"
	ActIdentitiesRevoke = "identities.revoke"
)

// ActJudge decides acts; policy's Engine is the one there is.
type ActJudge interface {
	DecideAct(ctx context.Context, a *policy.Act) policy.Decision
	Use(ctx context.Context, b *policy.Bundle) error
	Revision() string
}

// Acts does what people ask of Bronzeward itself. Safe for concurrent use.
type Acts struct {
	Store    *control.Store
	Judge    ActJudge
	Upstream *upstream.Pool
	Digester facts.Digester
}

// Actor is who acts, and from where.
type Actor struct {
	Caller  identity.Caller
	Address string
}

// DeniedAct says that the law refused an act. The refusal is in the book.
type DeniedAct struct {
	Decision policy.Decision
	EntryID  uuid.UUID
}

// Error reads like a denied call.
func (d *DeniedAct) Error() string { return denialText(d.EntryID, d.Decision) }

// act prepares one act: the law is brought to the live revision first, and judges inside
// the transaction. first is the revision that may judge while none is live.
func (a *Acts) act(ctx context.Context, by Actor, name, subject string, first string) (control.Act, *policy.Decision, error) {
	snap, err := a.Store.Refresh(ctx, 0)
	if err != nil {
		return control.Act{}, nil, err
	}
	if snap.LiveRevision != "" && a.Judge.Revision() != snap.LiveRevision {
		if err := a.load(ctx, snap.LiveRevision); err != nil {
			return control.Act{}, nil, err
		}
	}
	said := &policy.Decision{}
	caller := policy.Caller{
		Issuer: by.Caller.Issuer, Subject: by.Caller.Subject, Kind: string(by.Caller.Kind),
		Groups: append([]string{}, by.Caller.Groups...), Proof: string(by.Caller.Proof), ProofEnds: by.Caller.ProofEnds,
	}
	return control.Act{
		By: policy.Person{Issuer: caller.Issuer, Subject: caller.Subject},
		Entry: func(st control.Stamp) audit.Entry {
			caller.Revoked = st.CallerRevoked
			f := &policy.Act{Version: policy.FactsVersion, Act: name, Caller: caller, Subject: subject, Now: st.Now}
			*said = a.decide(ctx, st, f, first)
			raw, err := json.Marshal(f)
			if err != nil {
				*said = policy.Deny("BW-BOOK-002", "the facts of this act cannot be written down", "")
			}
			kind := audit.KindHTTP
			if name == ActPolicyActivate {
				kind = audit.KindPolicy
			}
			return audit.Entry{
				ID: newID(), Kind: kind, Verdict: verdictOf(*said), Method: name, Class: "act",
				Caller: bookCaller(by.Caller), ClientAddress: by.Address,
				PolicyRevision: said.Revision, OPAVersion: said.OPA, Reasons: said.Reasons, Codes: said.Codes(),
				Facts: raw, Detail: printable(subject), Count: 1,
			}
		},
	}, said, nil
}

// decide judges an act by the live revision. While none is live, only a first activation
// can be judged, by the very bundle it brings.
func (a *Acts) decide(ctx context.Context, st control.Stamp, f *policy.Act, first string) policy.Decision {
	revision := st.LiveRevision
	if revision == "" {
		revision = first
	}
	if revision == "" {
		return policy.Deny("BW-POLICY-001", "no policy is live", "bronzeward policy activate DIR")
	}
	if a.Judge.Revision() != revision {
		return missingLaw(revision)
	}
	d := a.Judge.DecideAct(ctx, f)
	if d.Revision != revision {
		return missingLaw(revision)
	}
	if st.CallerRevoked && d.Allow {
		return policy.Deny("BW-INVARIANT-001", "this identity is revoked", "")
	}
	return d
}

func (a *Acts) load(ctx context.Context, revision string) error {
	archive, err := a.Store.Bundle(ctx, revision)
	if err != nil {
		return fmt.Errorf("reading the live policy: %w", err)
	}
	bundle, err := policy.Open(archive)
	if err != nil {
		return fmt.Errorf("opening the live policy: %w", err)
	}
	return a.Judge.Use(ctx, bundle)
}

// denied turns the store's refusal into the law's own words.
func denied(err error, d *policy.Decision) error {
	var refused *control.RefusedError
	if errors.As(err, &refused) {
		return &DeniedAct{Decision: *d, EntryID: refused.EntryID}
	}
	return err
}

// AddMachines adds one or several machines, all or none.
func (a *Acts) AddMachines(ctx context.Context, by Actor, list []control.NewMachine) (audit.Receipt, error) {
	subject := fmt.Sprintf("%d machines", len(list))
	if len(list) == 1 {
		subject = list[0].Name
	}
	act, said, err := a.act(ctx, by, ActMachinesAdd, subject, "")
	if err != nil {
		return audit.Receipt{}, err
	}
	if len(list) == 1 {
		_, receipt, err := a.Store.AddMachine(ctx, list[0], act)
		return receipt, denied(err, said)
	}
	receipt, err := a.Store.ImportMachines(ctx, list, act)
	return receipt, denied(err, said)
}

// UpdateMachine replaces a machine's addresses, port and labels.
func (a *Acts) UpdateMachine(ctx context.Context, by Actor, name string, u control.MachineUpdate) (audit.Receipt, error) {
	act, said, err := a.act(ctx, by, ActMachinesUpdate, name, "")
	if err != nil {
		return audit.Receipt{}, err
	}
	receipt, err := a.Store.UpdateMachine(ctx, name, u, act)
	return receipt, denied(err, said)
}

// Observe reads a machine and records what was seen. Nothing on the machine changes.
func (a *Acts) Observe(ctx context.Context, by Actor, name string) (control.Observation, error) {
	return a.observe(ctx, by, ActMachinesObserve, name)
}

// observe records what is seen as part of another act: whoever may do that act may look.
func (a *Acts) observe(ctx context.Context, by Actor, as, name string) (control.Observation, error) {
	act, said, err := a.act(ctx, by, as, name, "")
	if err != nil {
		return control.Observation{}, err
	}
	machine, err := a.Store.GetMachine(ctx, name)
	if err != nil {
		return control.Observation{}, err
	}
	began := time.Now()
	e, err := a.Upstream.Observe(ctx, upstreamTarget(&machine))
	if err != nil {
		return control.Observation{}, fmt.Errorf("observing %s: %w", name, err)
	}
	o := control.Observation{
		Began:    began,
		Identity: control.Identity{NodeID: e.NodeID, ClusterID: e.ClusterID, SMBIOS: e.SMBIOS},
		Version:  e.Version, Stage: e.Stage, Type: e.Type,
		Active: a.Digester.Digest(e.Active.Text), Persistent: a.Digester.Digest(e.Persistent.Text),
		ActiveVersion: versionPair(e.Active), PersistentVersion: versionPair(e.Persistent),
	}
	_, err = a.Store.RecordObservation(ctx, name, o, act)
	return o, denied(err, said)
}

// Pin fixes a machine's row to the identity it shows now; replace is needed when it is
// pinned to another one.
func (a *Acts) Pin(ctx context.Context, by Actor, name string, replace bool) (control.Identity, error) {
	as := ActMachinesPin
	if replace {
		as = ActMachinesRepin
	}
	seen, err := a.observe(ctx, by, as, name)
	if err != nil {
		return control.Identity{}, err
	}
	act, said, err := a.act(ctx, by, as, name, "")
	if err != nil {
		return control.Identity{}, err
	}
	_, err = a.Store.PinMachine(ctx, name, seen.Identity, replace, act)
	return seen.Identity, denied(err, said)
}

// Account settles an unresolved attempt by a person's judgement, on a fresh observation.
func (a *Acts) Account(ctx context.Context, by Actor, id uuid.UUID, landed bool, reason string) (audit.Receipt, error) {
	attempt, err := a.Store.GetAttempt(ctx, id)
	if err != nil {
		return audit.Receipt{}, err
	}
	if _, err := a.observe(ctx, by, ActAttemptsAccount, attempt.MachineName); err != nil {
		return audit.Receipt{}, err
	}
	act, said, err := a.act(ctx, by, ActAttemptsAccount, id.String(), "")
	if err != nil {
		return audit.Receipt{}, err
	}
	receipt, err := a.Store.Account(ctx, control.Accounting{
		AttemptID: id, Landed: landed, Reason: reason, Outcome: audit.Outcome{Caller: bookCaller(by.Caller)},
	}, act)
	return receipt, denied(err, said)
}

// Activate saves a bundle and makes it live. It must have passed policy.Trial.
func (a *Acts) Activate(ctx context.Context, by Actor, b *policy.Bundle) (audit.Receipt, error) {
	snap, err := a.Store.Refresh(ctx, 0)
	if err != nil {
		return audit.Receipt{}, err
	}
	if snap.LiveRevision == "" {
		if err := a.Judge.Use(ctx, b); err != nil {
			return audit.Receipt{}, err
		}
	}
	var last audit.Receipt
	for _, step := range []func(control.Act) (audit.Receipt, error){
		func(act control.Act) (audit.Receipt, error) {
			return a.Store.SaveBundle(ctx, b.Revision(), b.Bytes(), act)
		},
		func(act control.Act) (audit.Receipt, error) {
			return a.Store.ActivateBundle(ctx, b.Revision(), 0, act)
		},
	} {
		act, said, err := a.act(ctx, by, ActPolicyActivate, b.Revision(), b.Revision())
		if err != nil {
			return audit.Receipt{}, err
		}
		if last, err = step(act); err != nil {
			return last, denied(err, said)
		}
	}
	return last, nil
}

// ActivateWatched makes the law of a watched directory live: nobody asked for it but the
// configuration of a gateway in development, and the entry says so.
func (a *Acts) ActivateWatched(ctx context.Context, b *policy.Bundle) error {
	act := func() control.Act {
		return control.Act{Entry: func(control.Stamp) audit.Entry {
			return audit.Entry{
				ID: newID(), Kind: audit.KindPolicy, Verdict: audit.Allowed, Method: ActPolicyActivate, Class: "act",
				PolicyRevision: b.Revision(), Detail: "watched directory, in development", Count: 1,
			}
		}}
	}
	if _, err := a.Store.SaveBundle(ctx, b.Revision(), b.Bytes(), act()); err != nil {
		return err
	}
	_, err := a.Store.ActivateBundle(ctx, b.Revision(), 0, act())
	return err
}

// Revoke takes a person's authority away for good.
func (a *Acts) Revoke(ctx context.Context, by Actor, who policy.Person, reason string) (audit.Receipt, error) {
	act, said, err := a.act(ctx, by, ActIdentitiesRevoke, who.Issuer+" "+who.Subject, "")
	if err != nil {
		return audit.Receipt{}, err
	}
	receipt, err := a.Store.RevokeIdentity(ctx, who, reason, act)
	return receipt, denied(err, said)
}

func bookCaller(c identity.Caller) audit.Caller {
	return audit.Caller{
		Issuer: c.Issuer, Subject: c.Subject, Name: c.Name, Kind: string(c.Kind), Groups: slices.Clone(c.Groups), Proof: string(c.Proof),
		CertificateSerial: c.CertificateSerial, SPKI: c.SPKI, TokenID: c.TokenID,
	}
}
