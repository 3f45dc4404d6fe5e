package control

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"bronzeward/policy"
)

// ChangeState is what a Change is in.
type ChangeState string

// The states of a change. Waiting and Approved are live; Spent is left only when its attempt
// was rejected or not sent; the others are final.
const (
	ChangeWaiting    ChangeState = "waiting"
	ChangeApproved   ChangeState = "approved"
	ChangeSpent      ChangeState = "spent"
	ChangeSuperseded ChangeState = "superseded" // the machine's base or identity moved
	ChangeCancelled  ChangeState = "cancelled"
	ChangeRejected   ChangeState = "rejected"
	ChangeExpired    ChangeState = "expired"
	ChangeRevoked    ChangeState = "revoked" // its requester was
)

// ChangeStates are all of them.
func ChangeStates() []ChangeState {
	return []ChangeState{
		ChangeWaiting, ChangeApproved, ChangeSpent, ChangeSuperseded, ChangeCancelled, ChangeRejected, ChangeExpired, ChangeRevoked,
	}
}

// Live is true while the change may still be applied.
func (s ChangeState) Live() bool { return s == ChangeWaiting || s == ChangeApproved }

// MayBecome is the transition table; control.change_may_become is the same one in the database.
func (s ChangeState) MayBecome(next ChangeState) bool {
	switch s {
	case ChangeWaiting, ChangeApproved:
		if slices.Contains([]ChangeState{ChangeSuperseded, ChangeCancelled, ChangeRejected, ChangeExpired, ChangeRevoked}, next) {
			return true
		}
		return s == ChangeWaiting && next == ChangeApproved ||
			s == ChangeApproved && (next == ChangeWaiting || next == ChangeSpent)
	case ChangeSpent:
		return next == ChangeApproved
	default:
		return false
	}
}

// Binding is all that an approval is for. Two proposals are the same change if and only if
// every field is the same; any difference is another change (I6).
type Binding struct {
	MachineID uuid.UUID
	// Identity is the machine's as read when the change was captured.
	Identity Identity
	// Kind is "apply", "revert" or "adopt".
	Kind string
	Mode string
	// TryTimeout is zero unless Mode is "try": talosctl sends one with every mode.
	TryTimeout time.Duration
	// Digest is the configuration digest, Size the length of the text in bytes: the digest
	// takes no account of how many newlines are at the end, and the two together do.
	Digest string
	Size   int64
	// Base and Persistent are the digests of what the machine ran and had on its disk.
	Base       string
	Persistent string
	Epoch      uuid.UUID
	// Drift is the one that a revert or adoption settles; zero for an apply.
	Drift DriftID
}

// Key is the SHA-256 over all fields in hex: equal if and only if the bindings are.
func (b Binding) Key() string {
	h := sha256.New()
	parts := []string{
		b.MachineID.String(), b.Identity.NodeID, b.Identity.ClusterID, b.Identity.SMBIOS, b.Kind, b.Mode, b.TryTimeout.String(),
		b.Digest, strconv.FormatInt(b.Size, 10), b.Base, b.Persistent, b.Epoch.String(),
	}
	if b.Drift != (DriftID{}) { // an apply has none, and its key is as it always was
		parts = append(parts, b.Drift.String())
	}
	for _, part := range parts {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Change is a proposed act on one machine. All but its state is immutable. Times are the
// database's.
type Change struct {
	ID ChangeID
	Binding
	MachineName string
	Cluster     string
	// Set groups changes of several machines that belong together; empty without.
	Set string
	// Why is what the requester said; empty when nothing.
	Why       string
	Requester policy.Person
	// EntryID is the decision that captured it.
	EntryID uuid.UUID
	// Asked is what the law asked for when it last judged the change. What counts is what it
	// asks for when the change is spent.
	Asked policy.Quorum
	// CreatedAt is when it was captured; ApproveBy ends the time in which the last needed
	// approval must come, and UseBy, once it is approved, the time in which it can be spent.
	CreatedAt time.Time
	ApproveBy time.Time
	UseWithin time.Duration
	UseBy     *time.Time

	State ChangeState
	Since time.Time
	// By is who brought it to State; the zero value is the gateway itself.
	By policy.Person
	// Reason is one sentence; OvertakenBy the digest of what the machine runs instead.
	Reason      string
	OvertakenBy string
	// AttemptID is set while it is spent by one; an adoption has none.
	AttemptID uuid.UUID
	// RequesterRevoked is true when the requester is.
	RequesterRevoked bool
	// Sealed is true while the bytes are kept.
	Sealed bool
	// Approvals are all that were given, in the order they came.
	Approvals []Approval
	// Diffs is how many values it changes, and says nothing where NotCompared is true: of an
	// adoption when no copy of what was applied before was kept.
	Diffs       int
	NotCompared bool
}

// Review is what a person looks at before approving. It holds no secret value.
type Review struct {
	Changes []policy.ConfigChange
	// Discards is what is staged or on trial on the machine and would be lost.
	Discards []policy.ConfigChange
	// Warnings are what rules say besides.
	Warnings []policy.Reason
}

// NewChange is what is to be captured. EntryID, Requester, CreatedAt and Epoch are filled.
type NewChange struct {
	// ID is made by the caller, because it is part of what the bytes are sealed with.
	ID ChangeID
	Binding
	Set    string
	Why    string
	Asked  policy.Quorum
	Review Review
	// Sealed are the exact bytes, sealed. Required.
	Sealed []byte
	// ApproveWithin and UseWithin are the two clocks' lengths.
	ApproveWithin time.Duration
	UseWithin     time.Duration
	// MostWaiting and MostBytes cap what one requester may have waiting.
	MostWaiting int
	MostBytes   int64
	// Notify puts a row for the approvers into the outbox.
	Notify bool
}

// Expired is whether a live change's clock has run out by the database's.
func (c *Change) Expired(now time.Time) bool {
	switch c.State {
	case ChangeWaiting:
		return !now.Before(c.ApproveBy)
	case ChangeApproved:
		return c.UseBy == nil || !now.Before(*c.UseBy)
	default:
		return false
	}
}
