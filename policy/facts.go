package policy

import "time"

// FactsVersion is the version of the Facts document. It moves only when a field
// changes its meaning or goes away; a new field does not move it.
const FactsVersion = 1

// Facts is everything a policy may see of one Call: the `input` of
// data.bronzeward.admission.decision. It never holds a secret value and never a
// whole configuration document. It is stored with the Entry, so that the same
// Decision can be made again later by another revision.
//
// Pointers are null when the thing does not exist or has not been read yet; a rule
// that needs it must deny then. Names are frozen: they are a public interface.
type Facts struct {
	Version int `json:"version" jsonschema:"enum=1"`
	// Phase is "early" while a call that needs Evidence is judged before any machine
	// is touched (rules about evidence, config and holds do not fire yet; an allow
	// means "go and read"), and "final" for the judgement that counts. Calls that
	// need no Evidence are judged once, as "final".
	Phase    string    `json:"phase" jsonschema:"enum=early,enum=final"`
	Call     Call      `json:"call"`
	Caller   Caller    `json:"caller"`
	Machine  *Machine  `json:"machine"`
	Evidence *Evidence `json:"evidence"`
	Config   *Config   `json:"config"`
	Change   *Change   `json:"change"`
	Holds    []Hold    `json:"holds"`
	// Now is the database's clock, read after the last lock for a Decision that
	// is committed, and an offset sampled from it for an early refusal.
	Now time.Time `json:"now"`
}

// Class says what kind of thing a method does; the method table gives each method
// exactly one.
type Class string

// The classes of methods. Which of them a role may call is data of the bundle.
const (
	ClassRead          Class = "read"           // node state without secrets
	ClassConfigRead    Class = "config-read"    // the machine configuration as a resource
	ClassSecretRead    Class = "secret-read"    // resources Talos marks sensitive, other than the configuration
	ClassSensitiveRead Class = "sensitive-read" // files, snapshots, packets: anything may be in them
	ClassEgress        Class = "egress"         // a read that makes the node dial what the caller names
	ClassMint          Class = "mint"           // hands out new credentials
	ClassApply         Class = "apply"          // ApplyConfiguration
	ClassMutate        Class = "mutate"         // changes the node otherwise
	ClassUpload        Class = "upload"         // client-streaming: never judged whole, never forwarded
)

// Call is what is asked.
type Call struct {
	// Method is the full gRPC method, with its leading slash.
	Method string `json:"method"`
	Class  Class  `json:"class"`
	// Stream is true when the answer is a stream.
	Stream bool `json:"stream"`
	// Mode is the apply mode as talosctl spells it: "reboot", "auto", "no-reboot",
	// "staged" or "try"; empty for other methods.
	Mode string `json:"mode"`
	// ModeGiven is false when the request leaves the mode out, which Talos reads as REBOOT.
	ModeGiven bool `json:"mode_given"`
	DryRun    bool `json:"dry_run"`
	// TryTimeoutSeconds is the rollback time asked for; zero unless Mode is "try".
	TryTimeoutSeconds int64 `json:"try_timeout_seconds"`
	// Size is the length of the request message in bytes.
	Size int `json:"size"`
	// Resource is set for COSI calls.
	Resource *Resource `json:"resource"`
	// Path is the file a Read, Copy, List or DiskUsage names; empty otherwise. For Read and
	// Copy it is the text the node gets, byte for byte. For List and DiskUsage the node may
	// get it without the first slash or with one at the end; several paths of a DiskUsage
	// are joined with commas, which none of them holds. No path has an empty element, `.` or `..`.
	Path string `json:"path"`
	// Service is the service or container a call names (logs, service restart).
	Service string `json:"service"`
	// Targets is how many distinct machines the call names.
	Targets int `json:"targets"`
	// Cluster is the `context` metadata talosctl sends; empty if none.
	Cluster string `json:"cluster"`
}

// Resource names what a COSI call reads.
type Resource struct {
	Namespace string `json:"namespace"`
	Type      string `json:"type"`
	ID        string `json:"id"`
}

// Caller is who makes the Call, as proven.
type Caller struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
	// Kind is "human" or "automation".
	Kind   string   `json:"kind" jsonschema:"enum=human,enum=automation"`
	Groups []string `json:"groups"`
	// Proof is "certificate", "token" or "certificate+token".
	Proof     string    `json:"proof"`
	ProofEnds time.Time `json:"proof_ends"`
	Revoked   bool      `json:"revoked"`
}

// Machine is the row of the target.
type Machine struct {
	Name    string `json:"name"`
	Cluster string `json:"cluster"`
	// Role is the role the machine is expected to have: "worker" or "controlplane".
	Role   string            `json:"role" jsonschema:"enum=worker,enum=controlplane"`
	Labels map[string]string `json:"labels"`
	// Pinned is true once an identity has been fixed to the row.
	Pinned bool `json:"pinned"`
}

// Evidence is what was read from the machine on the connection that will carry the
// apply. It is null for calls that are judged without reading the machine first.
type Evidence struct {
	// Version is the running Talos version, "v1.13.6"; Minor is "1.13".
	Version string `json:"version"`
	Minor   string `json:"minor"`
	// Stage is the machine's stage, such as "running", "booting" or "maintenance".
	Stage string `json:"stage"`
	// Type is the live machine type: "worker", "controlplane", "init" or "unknown".
	Type string `json:"type"`
	// IdentityMatches is true when node id, cluster id and SMBIOS UUID are those pinned.
	IdentityMatches bool `json:"identity_matches"`
	// Staged is true when the active and the persistent configuration differ.
	Staged bool `json:"staged"`
}

// Config is what the configuration asked for would change.
type Config struct {
	// Digest and the base digests carry scheme and key version: "hmac-sha256:k1:…".
	Digest string `json:"digest"`
	// Base is the digest of the configuration active on the machine; Persistent that on its disk.
	Base       string `json:"base"`
	Persistent string `json:"persistent"`
	// Problems say why Talos could not take the configuration at all; no secret is in them.
	Problems []Problem `json:"problems"`
	// Documents are all documents of the configuration asked for.
	Documents []Document `json:"documents"`
	// Changes are the differences from the active configuration, at most 10 000; of an adoption
	// those from what was applied before, what is on the disk included.
	Changes []ConfigChange `json:"changes"`
	// ChangesKnown is false when nobody can say what changes, and Changes says nothing: of an
	// adoption when no copy of what was applied before is kept, and when a text could not be read.
	ChangesKnown bool `json:"changes_known"`
	// Collections are the maps and lists that would hold more than 500 entries.
	Collections []Collection `json:"collections"`
	// Identical is true when the text equals the active one, trailing newlines aside.
	Identical bool `json:"identical"`
}

// Problem is one reason a configuration is not acceptable to machinery's own parser.
type Problem struct {
	// Kind is "syntax", "unknown-key", "unknown-document", "duplicate", "missing", "invalid", "too-large" or "unsafe".
	Kind string `json:"kind"`
	// Line is the 1-based line in the text, 0 if not known.
	Line int `json:"line"`
	// Message is one sentence without values of the text.
	Message string `json:"message"`
}

// Document names one document of a configuration.
type Document struct {
	APIVersion string `json:"api_version"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

// ConfigChange is one difference. Before and After are null when absent; a value is
// shown when its Go type is a boolean, number, enum or address, or its path is on the
// allow-list; everything else is a short keyed fingerprint, "fp:…".
type ConfigChange struct {
	// Document is "v1alpha1" for the main document, else "Kind" or "Kind/name".
	Document string `json:"document"`
	// Path is the field within the document in dotted form, "machine.network.hostname";
	// list elements are "[0]", map keys that are not identifiers are quoted: machine.sysctls["net.ipv4.ip_forward"].
	Path string `json:"path"`
	// Field is Path without list indices and map keys, "machine.sysctls": what rules match on.
	Field  string `json:"field"`
	Before any    `json:"before"`
	After  any    `json:"after"`
	// Reboot is true when Talos's immediate mode would refuse this change (v1alpha1 only).
	Reboot bool `json:"reboot"`
}

// Collection is a map or list of the configuration asked for, with its size.
type Collection struct {
	Document string `json:"document"`
	Field    string `json:"field"`
	Entries  int    `json:"entries"`
}

// Change is the proposed act a captured apply became.
type Change struct {
	ID    string `json:"id"`
	State string `json:"state"`
	Kind  string `json:"kind" jsonschema:"enum=apply,enum=revert,enum=adopt"`
	// Drift names the open drift that a revert or adoption settles; empty for an apply.
	Drift     string     `json:"drift"`
	Requester Person     `json:"requester"`
	Spender   Person     `json:"spender"`
	Approvals []Approval `json:"approvals"`
	// EpochCurrent is false for a Change of an earlier epoch.
	EpochCurrent bool `json:"epoch_current"`
}

// Person names somebody across certificates and tokens.
type Person struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
}

// Approval is one person's approval of the Change.
type Approval struct {
	Approver Person   `json:"approver"`
	Kind     string   `json:"kind"`
	Groups   []string `json:"groups"`
	// GroupsNow are the approver's groups as last proven, null if not known.
	GroupsNow    []string `json:"groups_now"`
	Revoked      bool     `json:"revoked"`
	EpochCurrent bool     `json:"epoch_current"`
}

// Kinds of holds.
const (
	HoldOpenAttempt       = "open-attempt"
	HoldUnresolvedAttempt = "unresolved-attempt"
	HoldFreeze            = "freeze"
	HoldDrift             = "drift"
	HoldRecovery          = "recovery"
	HoldRetired           = "retired"
)

// Hold is one reason why the machine's scope is closed.
type Hold struct {
	// Kind is "open-attempt", "unresolved-attempt", "freeze", "drift", "recovery" or "retired".
	Kind string `json:"kind"`
	// ID names the attempt, freeze, drift or epoch that holds, or the decision that retired the machine.
	// Empty for a drift that this call's evidence shows, and that is not open yet.
	ID     string    `json:"id"`
	Holder Person    `json:"holder"`
	Since  time.Time `json:"since"`
	// Scope is "machine" or "cluster" (the rollout limit).
	Scope string `json:"scope" jsonschema:"enum=machine,enum=cluster"`
	// Reason is why it holds, in a sentence: a person's words of a freeze; empty where there are none.
	Reason string `json:"reason"`
}

// Act is the `input` of data.bronzeward.api.decision: an act on Bronzeward itself
// rather than on a machine (adding machines, accounting, activating a policy).
type Act struct {
	Version int    `json:"version" jsonschema:"enum=1"`
	Act     string `json:"act"`
	Caller  Caller `json:"caller"`
	// Subject is what the act is about: a machine name, an attempt id, a revision.
	Subject string `json:"subject"`
	// Change is the Change an act on one is about; null for all other acts.
	Change *Change   `json:"change"`
	Now    time.Time `json:"now"`
}
