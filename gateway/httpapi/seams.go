package httpapi

import (
	"context"
	"crypto"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"bronzeward/audit"
	"bronzeward/audit/tree"
	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

// What the door needs of the rest of the house. Acts are judged and written down by whoever
// does them; their errors are told apart in cause.go. A once may be null: then the act is
// done each time it is asked for. All methods are safe for concurrent use.

// Identifier proves who is calling; *identity.Authenticator does.
type Identifier interface {
	// Identify gives the caller, or an *identity.Refusal.
	Identify(ctx context.Context, r identity.Request) (identity.Caller, error)
}

// Limiter says whether a request may go on.
type Limiter interface {
	// Allow is asked twice: with the zero Caller before it is known who calls, and again
	// with the caller.
	Allow(address string, caller identity.Caller) bool
}

// Book writes down what leaves no entry otherwise. What a receipt names is durable.
type Book interface {
	// May refuses what is refused whatever the act is about, before anything is read, looked
	// up or waited for: a denial whose entry is written. Nil is no allowance and leaves no
	// entry; the act is judged again by whoever does it.
	May(ctx context.Context, by identity.Actor, act, subject string) error
	// Read judges a reading act and writes its entry.
	Read(ctx context.Context, by identity.Actor, act, subject string) (audit.Receipt, error)
	// Continue judges a reading that goes on under its first entry. It writes an entry only
	// when it refuses; nil is an allowance.
	Continue(ctx context.Context, by identity.Actor, act, subject string) error
	// Record writes a refusal that was found before any act.
	Record(ctx context.Context, by identity.Actor, act, subject, code, message string) (audit.Receipt, error)
	// Stranger writes the refusal of a caller who proved nothing, or who asks too often: one
	// entry per address, class and second, with a count.
	Stranger(ctx context.Context, address, code, class, message string) (audit.Receipt, error)
}

// Authority is what is known of who and when, without asking the database.
type Authority interface {
	Revoked(issuer, subject string) bool
	Epoch() uuid.UUID
	// Standing is whether the house is in recovery.
	Standing() control.Standing
	// Now is the database's clock, by a sampled offset.
	Now() time.Time
}

// Digester makes the keyed digest of a request's body; facts.Digester does.
type Digester interface {
	Digest(text []byte) string
	Same(text []byte, digest string) (bool, error)
}

// Proposals are changes coming and going out.
type Proposals interface {
	// Submit gives the change, and whether it is a new one.
	Submit(ctx context.Context, by identity.Actor, s control.Submission, once *control.Once) (control.Change, bool, error)
	// ApplyChange returns when the attempt has its state.
	ApplyChange(ctx context.Context, by identity.Actor, id control.ChangeID, once *control.Once) (control.Applied, error)
}

// Settlements are what people do about drift.
type Settlements interface {
	// SettleDrift proposes the change of this kind, and says whether it is a new one.
	SettleDrift(ctx context.Context, by identity.Actor, id control.DriftID, kind, why string, once *control.Once) (control.Change, bool, error)
	// AdoptChange carries out an approved adoption.
	AdoptChange(ctx context.Context, by identity.Actor, id control.ChangeID, once *control.Once) (control.Change, error)
}

// Verdicts are what people say about a change.
type Verdicts interface {
	Approve(ctx context.Context, by identity.Actor, list []control.ApproveOne, once *control.Once) ([]control.Approval, error)
	Reject(ctx context.Context, by identity.Actor, id control.ChangeID, reason string, once *control.Once) (control.Change, error)
	Cancel(ctx context.Context, by identity.Actor, id control.ChangeID, reason string, once *control.Once) (control.Change, error)
}

// Revokes take authority away: once they have returned nil, every decision has seen it.
type Revokes interface {
	RevokeApproval(ctx context.Context, by identity.Actor, id control.ApprovalID, reason string, once *control.Once) (control.Approval, error)
	RevokeIdentity(ctx context.Context, by identity.Actor, who policy.Person, reason string, once *control.Once) (control.IdentityRevocation, error)
}

// Inventory is the machines' rows.
type Inventory interface {
	AddMachines(ctx context.Context, by identity.Actor, list []control.NewMachine, once *control.Once) (audit.Receipt, error)
	UpdateMachine(ctx context.Context, by identity.Actor, name string, u control.MachineUpdate, once *control.Once) (audit.Receipt, error)
}

// Closings close machines to changes, open them again, and say how many may be changed at once.
type Closings interface {
	FreezeMachine(ctx context.Context, by identity.Actor, name, reason string, once *control.Once) (control.Freeze, error)
	UnfreezeMachine(ctx context.Context, by identity.Actor, name, reason string, once *control.Once) (control.Freeze, error)
	// RetireMachine is for good.
	RetireMachine(ctx context.Context, by identity.Actor, name, reason string, once *control.Once) (control.Machine, error)
	SetRolloutLimit(ctx context.Context, by identity.Actor, cluster string, limit int) error
}

// Observer reads machines.
type Observer interface {
	Observe(ctx context.Context, by identity.Actor, name string, once *control.Once) (control.Observation, error)
	Pin(ctx context.Context, by identity.Actor, name string, replace bool, once *control.Once) (control.Identity, error)
}

// Accounts settle attempts nobody can answer for.
type Accounts interface {
	Account(ctx context.Context, by identity.Actor, id uuid.UUID, landed bool, reason string, once *control.Once) (audit.Receipt, error)
}

// Certificates are signed for people.
type Certificates interface {
	// IssueCertificate names the caller in a certificate for the key; zero asks for the longest lifetime there is.
	IssueCertificate(ctx context.Context, by identity.Actor, key crypto.PublicKey, lifetime time.Duration, once *control.Once) (control.IssuedCertificate, error)
}

// Digests are computed for people.
type Digests interface {
	ComputeDigest(ctx context.Context, by identity.Actor, text []byte, once *control.Once) (control.ComputedDigest, error)
}

// DigestKeys are the versions of digest keys.
type DigestKeys interface {
	ListDigestKeys() []control.DigestKey
	AddDigestKey(ctx context.Context, by identity.Actor, once *control.Once) (control.AddedDigestKey, error)
}

// Recoveries bring the house back after a restore.
type Recoveries interface {
	RecoveryStatus(ctx context.Context) (control.RecoveryStatus, error)
	EnterRecovery(ctx context.Context, by identity.Actor, reason string, once *control.Once) (control.Recovery, error)
	ReleaseMachine(ctx context.Context, by identity.Actor, name string, once *control.Once) (audit.Receipt, error)
	ExitRecovery(ctx context.Context, by identity.Actor, settled bool, reason string, once *control.Once) (audit.Receipt, error)
}

// Laws are brought, agreed to and made live. A law is named by its revision, the first eight digits of
// it or more, or as the previous one; where it is only looked at, as the live one too. What does not read or pass its trial is control.ErrInvalid.
type Laws interface {
	// BringLaw keeps a law, as OPA packs one, that makes nothing live.
	BringLaw(ctx context.Context, by identity.Actor, archive []byte, once *control.Once) (revision string, entry audit.Receipt, err error)
	ApproveLaw(ctx context.Context, by identity.Actor, name string, once *control.Once) (revision string, entry audit.Receipt, err error)
	// ActivateLaw makes a kept law live. replay is what the caller says of a replay, for the entry.
	ActivateLaw(ctx context.Context, by identity.Actor, name, replay string, once *control.Once) (revision string, entry audit.Receipt, err error)
	// RollBackLaw makes live again what was live before.
	RollBackLaw(ctx context.Context, by identity.Actor, name, replay string, once *control.Once) (revision string, entry audit.Receipt, err error)
	// SavedLaw is a kept law with what proves it.
	SavedLaw(ctx context.Context, name string) (*policy.Bundle, error)
	// LawDifference says how the second differs from the first.
	LawDifference(ctx context.Context, from, to string) (policy.Difference, error)
}

// LawHistory reads what was live, the newest first, and what is.
type LawHistory interface {
	BundleActivations(ctx context.Context) ([]control.BundleActivation, error)
	LiveLaw(ctx context.Context) (control.LiveLaw, error)
}

// ChangeStore reads changes.
type ChangeStore interface {
	GetChange(ctx context.Context, id control.ChangeID) (control.Change, error)
	ListChanges(ctx context.Context, f control.ChangeFilter) ([]control.Change, error)
	GetReview(ctx context.Context, id control.ChangeID) (control.Review, error)
}

// MachineStore reads machines.
type MachineStore interface {
	GetMachine(ctx context.Context, name string) (control.Machine, error)
	Machine(ctx context.Context, id uuid.UUID) (*control.Machine, error)
	ListMachines(ctx context.Context) ([]control.Machine, error)
	// Freezes gives a machine's freezes, the newest first.
	Freezes(ctx context.Context, machine uuid.UUID) ([]control.Freeze, error)
	ListClusters(ctx context.Context) ([]control.Cluster, error)
}

// DriftStore reads drifts, and what was last seen of machines.
type DriftStore interface {
	GetDrift(ctx context.Context, id control.DriftID) (control.Drift, error)
	ListDrifts(ctx context.Context, f control.DriftFilter) ([]control.Drift, error)
	OpenDrifts(ctx context.Context) ([]control.Drift, error)
	Watch(ctx context.Context, machine uuid.UUID) (control.Watched, error)
	// LastSeen gives what was last seen of each machine.
	LastSeen(ctx context.Context) (map[uuid.UUID]control.Seen, error)
}

// HistoryStore reads what happened to a machine.
type HistoryStore interface {
	Timeline(ctx context.Context, machineID uuid.UUID, before control.TimelineItem, limit int) ([]control.TimelineItem, error)
}

// AttemptStore reads attempts.
type AttemptStore interface {
	GetAttempt(ctx context.Context, id uuid.UUID) (control.Attempt, error)
	ListAttempts(ctx context.Context, f control.AttemptFilter) ([]control.Attempt, error)
}

// RevocationStore reads who is revoked, oldest first.
type RevocationStore interface {
	Revocations(ctx context.Context) ([]control.IdentityRevocation, error)
}

// NoticeStore reads the outbox, newest first.
type NoticeStore interface {
	Notices(ctx context.Context, f control.NoticeFilter) ([]control.Notice, error)
}

// DecisionStore reads the book by what its entries say; *audit.Reader does.
type DecisionStore interface {
	List(ctx context.Context, f audit.Filter, p audit.Page) ([]audit.Row, audit.Cursor, error)
	// Get gives the entry with its record and outcomes, or audit.ErrNotFound. GetOf does so for
	// one caller's own, and has audit.ErrNotFound for everybody else's.
	Get(ctx context.Context, id uuid.UUID) (audit.Row, error)
	GetOf(ctx context.Context, id uuid.UUID, issuer, subject string) (audit.Row, error)
	// Count is how many entries the filter gives; it takes long in a large book.
	Count(ctx context.Context, f audit.Filter) (int64, error)
}

// OrderStore reads the book in the order of its tree; *audit.Reader does.
type OrderStore interface {
	InOrder(ctx context.Context, f audit.Filter, p audit.OrderPage) ([]audit.Placed, audit.Place, error)
	Head(ctx context.Context) (audit.Place, error)
	PlaceOf(ctx context.Context, id uuid.UUID) (audit.Place, error)
}

// CheckpointStore reads the signed heads of the trees, newest first; *audit.Reader does.
type CheckpointStore interface {
	CheckpointsBefore(ctx context.Context, tree int32, size int64, limit int) ([]audit.StoredCheckpoint, error)
}

// Prover proves that entries stand in the book, and that the book only grew.
type Prover interface {
	// Prove fails with tree.ErrNotFound, tree.ErrNotSigned or tree.ErrBroken, among others.
	Prove(ctx context.Context, entry uuid.UUID) (tree.Proof, error)
	// Consistency fails with tree.ErrMissing, among others, where the tree has not so many leaves, or lacks some.
	Consistency(ctx context.Context, tree int32, older, newer int64) (tlog.TreeProof, error)
}

// Readiness says whether this replica would decide a call now.
type Readiness interface {
	// Ready gives what is known and the problems that keep it from deciding; none means ready.
	Ready(ctx context.Context) (state map[string]any, problems []string)
}
