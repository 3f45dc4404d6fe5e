package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	ActMachinesFreeze   = "machines.freeze"
	ActMachinesUnfreeze = "machines.unfreeze"
	ActMachinesRetire   = "machines.retire"
	ActClustersLimit    = "clusters.limit"
	ActAttemptsAccount  = "attempts.account"
	ActPolicySave       = "policy.save"
	ActPolicyActivate   = "policy.activate"
	ActPolicyRollback   = "policy.rollback"
	ActPolicyApprove    = "policy.approve"
	ActIdentitiesRevoke = "identities.revoke"
	ActChangesSubmit    = "changes.submit"
	ActChangesApply     = "changes.apply"
	ActChangesApprove   = "changes.approve"
	ActChangesReject    = "changes.reject"
	ActChangesCancelOwn = "changes.cancel-own"
	ActChangesCancel    = "changes.cancel"
	ActApprovalsRevoke  = "approvals.revoke"
	ActCertificates     = "certificates.issue"
	ActDigestsCompute   = "digests.compute"
	ActDigestKeysAdd    = "digest-keys.add"
	ActDriftAdopt       = "drift.adopt"
	ActDriftRevert      = "drift.revert"
	ActMachinesRelease  = "machines.release"
	ActRecoveryEnter    = "recovery.enter"
	ActRecoveryExit     = "recovery.exit"
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
	// Gate carries out what goes to a machine; null where nothing does.
	Gate *Gateway
	// Book writes what is asked without an effect: readings, and refusals that left no entry.
	Book *audit.Book
	// Issuer signs people's certificates; null where no authority for them is configured.
	Issuer Issuer
	// CertificateLifetime is the most a certificate may last; zero takes DefaultCertificateLifetime.
	CertificateLifetime time.Duration
	// DigestKeys adds digest keys; null where they do not grow.
	DigestKeys DigestKeys
	// Anchor is told of revocations and activations before they are answered; null where there is none.
	Anchor Anchor
	// Recovery is the anchor as a recovery moves it; null where there is none.
	Recovery RecoveryAnchor
	// Adopt is told the epoch that this process is about to begin, so that it goes on in it; null where nobody asks.
	Adopt func(epoch uuid.UUID)
	// Deny are the people whom the configuration's deny list names.
	Deny []policy.Person
	// Keys are the pinned keys of whoever signs laws; with none, a law needs no signature.
	Keys policy.Keys
	// Instance names this process in entries.
	Instance string
	// Told is told the receipt of the entry an act left, once it is durable; null when nobody asks.
	Told func(ctx context.Context, entry audit.Receipt)

	patience patience // zero is defaultPatience; tests have less
}

// Actor is who acts, and from where.
type Actor = identity.Actor

// DeniedAct says that the law refused an act. The refusal is in the book.
type DeniedAct struct {
	Decision policy.Decision
	Receipt  audit.Receipt
}

// Error reads like a denied call.
func (d *DeniedAct) Error() string { return denialText(d.Receipt.ID, d.Decision) }

// Denial gives the decision and the receipt of its entry.
func (d *DeniedAct) Denial() (policy.Decision, audit.Receipt) { return d.Decision, d.Receipt }

// said is what the law said in an act's transaction, by entry, and the receipts of the entries
// that became durable: a transaction that lost a race is run again.
type said struct {
	byEntry map[uuid.UUID]policy.Decision
	wrote   []audit.Receipt
}

// act prepares one act: the law is brought to the live revision first, and judges inside
// the transaction. first is the revision that may judge while none is live.
func (a *Acts) act(ctx context.Context, by Actor, name, subject string, first string) (control.Act, *said, error) {
	return a.actBesides(ctx, by, name, subject, first, besides{})
}

// besides is what an act is judged by besides the law, and what its entry says besides. Both may be null, are pure, and may be
// called again.
type besides struct {
	// judge is given what the law allows, and may deny it.
	judge func(control.Stamp, policy.Decision) policy.Decision
	entry func(*audit.Entry)
}

func (a *Acts) actBesides(ctx context.Context, by Actor, name, subject, first string, more besides) (control.Act, *said, error) {
	if err := a.May(ctx, by, name, subject); err != nil {
		return control.Act{}, nil, err
	}
	if _, err := a.current(ctx); err != nil {
		return control.Act{}, nil, err
	}
	answers := &said{byEntry: map[uuid.UUID]policy.Decision{}}
	caller := actorFacts(by)
	who := personOf(by.Caller)
	return control.Act{
		By:    who,
		Wrote: func(entries []audit.Receipt) { answers.wrote = entries },
		Entry: func(st control.Stamp) audit.Entry {
			caller.Revoked = st.CallerRevoked
			f := &policy.Act{Version: policy.FactsVersion, Act: name, Caller: caller, Subject: subject, Now: st.Now}
			if st.Change != nil {
				f.Subject, f.Change = st.Change.ID.String(), changeFacts(st.Change, who, st.Epoch)
			}
			d := a.decide(ctx, st, f, first)
			if d.Allow && more.judge != nil {
				d = more.judge(st, d)
			}
			e := actEntry(by, f, &d)
			if more.entry != nil {
				more.entry(&e)
			}
			answers.byEntry[e.ID] = d
			return e
		},
	}, answers, nil
}

// current brings the law to the live revision and gives the snapshot that names it.
func (a *Acts) current(ctx context.Context) (*control.Snapshot, error) {
	snap, err := a.Store.Refresh(ctx, 0)
	if err != nil || snap.LiveRevision == "" || a.Judge.Revision() == snap.LiveRevision {
		return snap, err
	}
	if a.Gate != nil {
		err = a.Gate.laws.load(ctx, a.Gate, snap.LiveRevision)
	} else {
		err = a.load(ctx, snap.LiveRevision)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the live policy cannot be loaded: %w", control.ErrUnavailable, err)
	}
	return snap, nil
}

// actEntry is the entry of a judged act. Facts that cannot be written down deny it.
func actEntry(by Actor, f *policy.Act, d *policy.Decision) audit.Entry {
	raw, err := json.Marshal(f)
	if err != nil {
		*d = policy.Deny("BW-BOOK-002", "the facts of this act cannot be written down", "")
	}
	kind := audit.KindHTTP
	if slices.Contains([]string{ActPolicySave, ActPolicyActivate, ActPolicyRollback, ActPolicyApprove}, f.Act) {
		kind = audit.KindPolicy
	}
	return audit.Entry{
		ID: newID(), Kind: kind, Verdict: verdictOf(*d), Method: f.Act, Class: "act",
		Caller: bookCaller(by.Caller), ClientAddress: by.Address, MachineName: machineOf(f.Act, f.Subject),
		PolicyRevision: d.Revision, OPAVersion: d.OPA, Reasons: d.Reasons, Codes: d.Codes(),
		Facts: raw, Detail: printable(f.Subject), Count: 1,
	}
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
		return overtaken(revision)
	}
	d := a.Judge.DecideAct(ctx, f)
	if d.Revision != revision {
		return overtaken(revision)
	}
	d = agreedToLawsOnly(f.Act, d)
	if st.CallerRevoked && d.Allow {
		return policy.Deny("BW-INVARIANT-001", "this identity is revoked", "")
	}
	return actInDoubt(st.Standing, f.Act, d)
}

// agreedToLawsOnly refuses an act other than making a law live for which a house's own law asks for agreement: it is given to a
// law only.
func agreedToLawsOnly(act string, d policy.Decision) policy.Decision {
	if !d.Allow || d.Approvals.Required == 0 || act == ActPolicyActivate || act == ActPolicyRollback {
		return d
	}
	return refusedToo(d, "BW-APPROVAL-004",
		fmt.Sprintf("%s needs the agreement of %d more people, and agreement is given to a law only", act, d.Approvals.Required),
		"a policy-admin takes the number out of the law's answer about this act")
}

// overtaken refuses an act whose law stopped being the live one while it was prepared.
func overtaken(revision string) policy.Decision {
	return policy.Deny("BW-POLICY-001", fmt.Sprintf("policy %.12s became live while this act was being judged", revision),
		"the same command again")
}

func (a *Acts) load(ctx context.Context, revision string) error {
	bundle, err := lawInForce(ctx, a.Store, a.Keys, revision)
	if err != nil {
		return err
	}
	return a.Judge.Use(ctx, bundle)
}

// denied turns the store's refusal into the law's own words, and tells which entry an act
// that was done has left.
func (a *Acts) denied(ctx context.Context, err error, answers *said) error {
	var refused *control.RefusedError
	switch {
	case errors.As(err, &refused):
		return &DeniedAct{Decision: answers.byEntry[refused.Receipt.ID], Receipt: refused.Receipt}
	case err == nil && a.Told != nil && len(answers.wrote) > 0:
		a.Told(ctx, answers.wrote[len(answers.wrote)-1])
	}
	return err
}

func bookCaller(c identity.Caller) audit.Caller {
	return audit.Caller{
		Issuer: c.Issuer, Subject: c.Subject, Name: c.Name, Kind: string(c.Kind), Groups: slices.Clone(c.Groups), Proof: string(c.Proof),
		CertificateSerial: c.CertificateSerial, SPKI: c.SPKI, TokenID: c.TokenID,
	}
}

// actorFacts is the person who acts, as the law sees them.
func actorFacts(by Actor) policy.Caller {
	return policy.Caller{
		Issuer: by.Caller.Issuer, Subject: by.Caller.Subject, Kind: string(by.Caller.Kind),
		Groups: append([]string{}, by.Caller.Groups...), Proof: string(by.Caller.Proof), ProofEnds: by.Caller.ProofEnds,
	}
}

// machineOf is the machine an act names; the store fills in the rest once it is found.
func machineOf(act, subject string) string {
	if strings.HasPrefix(act, "machines.") && !strings.Contains(subject, " ") {
		return printable(facts.Word(subject))
	}
	return ""
}
