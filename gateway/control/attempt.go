package control

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"time"

	"github.com/google/uuid"

	"bronzeward/policy"
)

// State is what an Attempt is in.
type State string

// The states of an attempt. Open and Unresolved hold the machine.
const (
	StateOpen       State = "open"
	StateCompleted  State = "completed"  // the read-back shows the digest
	StateRejected   State = "rejected"   // an answer with an error, and nothing moved
	StateNotSent    State = "not_sent"   // its living owner wrote no byte
	StateUnresolved State = "unresolved" // nobody can say yet
	StateFailed     State = "failed"     // said to have landed, and the read-back contradicts
	StateAccounted  State = "accounted"  // a person's judgement
)

// States are all of them.
func States() []State {
	return []State{
		StateOpen, StateCompleted, StateRejected, StateNotSent, StateUnresolved, StateFailed, StateAccounted,
	}
}

// MayBecome is true when an attempt in s may go to next. It is the transition table;
// control.attempt_may_become is the same one in the database.
func (s State) MayBecome(next State) bool {
	switch s {
	case StateOpen:
		return slices.Contains([]State{StateCompleted, StateRejected, StateNotSent, StateUnresolved}, next)
	case StateUnresolved:
		return slices.Contains([]State{StateCompleted, StateFailed, StateAccounted}, next)
	default:
		return false
	}
}

// Held is true while the attempt may still land, and so holds its machine.
func (s State) Held() bool { return s == StateOpen || s == StateUnresolved }

const (
	// SendWithin is how long after the decision's clock the first byte may be written: long
	// enough for a commit and a handover, short against the settle floor.
	SendWithin = 2 * time.Second
	// MinSettleFloor is how long after the last moment an owner could act nobody accounts:
	// late landings of 26 to 28 s were measured on a proxied route.
	MinSettleFloor = 30 * time.Second
	// DefaultLease is how long an owner holds an attempt without renewing.
	DefaultLease = 15 * time.Second
	// maxTransport bounds the transport deadline an attempt may ask for.
	maxTransport = 10 * time.Minute
)

// Owner is the process that may close an attempt.
type Owner struct {
	Instance string
	// Generation is new for every Open, so that a restarted process is another owner.
	Generation int64
	Epoch      uuid.UUID
}

// NewAttempt is what the judge asks to be opened. Everything but ID and Transport is
// evidence or request, and is checked again by the row's constraints.
type NewAttempt struct {
	ID uuid.UUID // UUIDv7; made when zero
	// Digest is of the configuration to be sent, Size its length in bytes.
	Digest string
	Size   int64
	// Base and Persistent are what the machine held when the evidence was read.
	Base       string
	Persistent string
	Mode       string
	LiveType   string
	Stage      string
	Minor      string
	Identity   Identity
	// Transport is how long after the decision's clock the sending connection is reset;
	// at least SendWithin, at most ten minutes.
	Transport time.Duration
	// CredentialVersion is the KV version of the Talos credential it is sent with; zero when
	// that came from files.
	CredentialVersion int64
}

// Attempt is one sending of a real apply. Times are the database's.
type Attempt struct {
	ID          uuid.UUID
	EntryID     uuid.UUID
	MachineID   uuid.UUID
	MachineName string
	Cluster     string
	State       State
	Owner       Owner
	Caller      policy.Person
	RequestKey  string
	Mode        string
	Digest      string
	Base        string
	Persistent  string
	// Identity is the machine's as read before the send.
	Identity          Identity
	OpenedAt          time.Time
	SendBy            time.Time
	LeaseUntil        time.Time
	TransportDeadline time.Time
	// SettleAfter is the first moment a person may account for it.
	SettleAfter  time.Time
	UnresolvedAt *time.Time
	ClosedAt     *time.Time
	// ClosedBy is the subject or instance that closed it.
	ClosedBy       string
	ReadActive     string
	ReadPersistent string
	Landed         *bool
	Reason         string
	// ChangeID is the Change it spends; zero when the law asked for no approval and none was captured.
	ChangeID ChangeID
	// CredentialVersion is the KV version of the Talos credential it was sent with; zero when
	// that came from files, and of attempts from before it was noted.
	CredentialVersion int64
	// LateAt is when the machine was seen to hold its configuration after a person had accounted
	// for it; null when it never was.
	LateAt *time.Time
	// Retired is true when its machine is: what is unresolved then stays so, and holds nobody.
	Retired bool

	// SendBefore is SendBy on this process's monotonic clock, never later than it: set only
	// on the attempt Admit returns. Nothing is written once time.Now() is not before it.
	SendBefore time.Time
	// ResetBefore is TransportDeadline in the same way.
	ResetBefore time.Time

	// liveType, stage, minor, size and quorum are of the decision; they are written and not read again.
	liveType, stage, minor string
	size                   int64
	quorum                 policy.Quorum
}

// Hold gives the attempt as a reason why a scope is closed.
func (a *Attempt) Hold(scope string) policy.Hold {
	h := policy.Hold{Kind: policy.HoldOpenAttempt, ID: a.ID.String(), Holder: a.Caller, Since: a.OpenedAt, Scope: scope, Reason: "it is under way"}
	if a.State == StateUnresolved {
		h.Kind, h.Reason = policy.HoldUnresolvedAttempt, a.Reason
	}
	if scope == "cluster" {
		h.Reason = "on " + a.MachineName + ": " + h.Reason
	}
	return h
}

// RequestKey names one very same request: the keyed digest of its bytes, its caller, its
// machine and its mode.
func RequestKey(digest string, caller policy.Person, machine uuid.UUID, mode string) string {
	h := sha256.New()
	for _, part := range []string{digest, caller.Issuer, caller.Subject, machine.String(), mode} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil))
}
