package audit

import (
	"time"

	"github.com/google/uuid"

	"bronzeward/policy"
)

// Kind says what an Entry is about.
type Kind string

// The kinds of entries.
const (
	KindRPC    Kind = "rpc"    // a call to the Talos API
	KindHTTP   Kind = "http"   // an act on Bronzeward by a person
	KindPolicy Kind = "policy" // a bundle became live or was refused
	KindSystem Kind = "system" // the gateway itself: start, settling, refusals counted
)

// Verdict is what the Decision was.
type Verdict string

// The verdicts.
const (
	Allowed Verdict = "allow"
	Denied  Verdict = "deny"
	// Refused is no policy verdict: a bad credential, an outage, a malformed request.
	Refused Verdict = "refuse"
)

// Entry is the row of one Decision. Record builds its canonical bytes; the columns
// beside them are projections.
type Entry struct {
	ID      uuid.UUID // UUIDv7; made when the entry is written if it is zero
	Kind    Kind
	Verdict Verdict

	// Method is the gRPC method, or the act for other kinds ("machines.pin").
	Method string
	Class  string
	Mode   string
	DryRun bool

	Caller        Caller
	ClientAddress string

	MachineID   uuid.UUID // zero when no machine is named
	MachineName string
	Cluster     string
	// NodeID is the machine's pinned or read Talos node id.
	NodeID string

	// Digest is the configuration asked for, Base and Persistent what was read.
	Digest     string
	Base       string
	Persistent string

	ChangeID  string
	AttemptID uuid.UUID
	Epoch     uuid.UUID

	AuthorityVersion int64
	PolicyRevision   string
	OPAVersion       string
	Reasons          []policy.Reason
	Codes            []string
	ApprovalsNeeded  int

	// Facts is the JSON the policy saw (policy.Facts or policy.Act); null if none did.
	Facts []byte

	// Count is how many refusals this entry stands for; 1 for everything else.
	Count int64
	// Detail is one short sentence for kinds without Facts; never a secret.
	Detail   string
	Instance string
	// At is the gateway's idea of the database clock when it judged; recorded_at is the database's own.
	At time.Time
}

// Caller is who made the call, as proven. The zero value means nobody was proven.
type Caller struct {
	Issuer            string   `json:"issuer"`
	Subject           string   `json:"subject"`
	Name              string   `json:"name"`
	Kind              string   `json:"kind"`
	Groups            []string `json:"groups"`
	Proof             string   `json:"proof"`
	CertificateSerial string   `json:"certificate_serial"`
	SPKI              string   `json:"spki"`
	TokenID           string   `json:"token_id"`
}

// OutcomeKind says what an Outcome states.
type OutcomeKind string

// The kinds of outcomes.
const (
	OutcomeAnswered   OutcomeKind = "answered"   // the node's status in trailers
	OutcomeUnanswered OutcomeKind = "unanswered" // no status came; our own words
	OutcomeReadBack   OutcomeKind = "read-back"  // what the node holds afterwards
	OutcomeState      OutcomeKind = "state"      // an attempt changed its state
	OutcomeAccounted  OutcomeKind = "accounted"  // what a person judged, in its code
	OutcomeLate       OutcomeKind = "late-landing"
)

// What a person judged of an attempt, the code of an accounting.
const (
	JudgedLanded    = "landed"
	JudgedNotLanded = "not-landed"
)

// Outcome is one append-only fact about an entry or attempt.
type Outcome struct {
	ID        uuid.UUID // UUIDv7; made when the outcome is written if it is zero
	EntryID   uuid.UUID // required
	AttemptID uuid.UUID // zero for calls without an attempt
	Kind      OutcomeKind
	// State is the attempt's state after it ("completed"), empty without attempt.
	State string
	// Code is the gRPC code's name, and of an accounting what was judged; Message the node's text after redaction.
	Code    string
	Message string
	// Digest and Persistent are what was read back; the versions are "created/version" pairs.
	Digest            string
	Persistent        string
	ActiveVersion     string
	PersistentVersion string
	Caller            Caller // who accounted
	Duration          time.Duration
	BytesOut          int64 // bytes of the answer sent to the caller
	Instance          string
}

// Receipt is proof that an Entry is durable.
type Receipt struct {
	ID         uuid.UUID
	Leaf       [32]byte
	RecordedAt time.Time
}
