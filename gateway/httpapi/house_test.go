package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

// house is a stub of everything the door needs. A test sets what it wants before it sends.
type house struct {
	mu sync.Mutex // guards all below

	caller   identity.Caller
	stranger error // of Identify
	allow    func(address string, c identity.Caller) bool
	bookAway error            // of every write to the book
	fails    error            // of every act
	read     error            // of every read of the store
	denies   map[string]error // of a reading act
	silent   bool             // acts do not tell their entries
	noRef    bool             // replays name nothing

	entries  []string // kind, act, subject, code
	asked    []string // acts that May was asked about
	did      []string // acts that had an effect
	keys     map[string]*control.ReplayedError
	bodies   map[string][2]string // route and digest by key
	changes  []control.Change
	machines []control.Machine
	attempts []control.Attempt
	revoked  []control.IdentityRevocation
	timeline []control.TimelineItem
	notices  []control.Notice
	review   control.Review
	now      time.Time
	shown    identity.Request // to Identify, last
	looked   int              // reads of changes, machines and attempts
	pause    func()           // of every act, and of reading the list of changes; null does not
	last     any              // what the last act was given
	epoch    uuid.UUID        // set before a request
	shelf    *shelf           // the book
}

func newHouse() *house {
	at := begin.Add(-time.Hour)
	use := begin.Add(time.Hour)
	landed := true
	h := &house{
		caller: vera(), allow: func(string, identity.Caller) bool { return true }, denies: map[string]error{},
		keys: map[string]*control.ReplayedError{}, bodies: map[string][2]string{}, now: begin, epoch: numbered(99), shelf: newShelf(at),
	}
	h.machines = []control.Machine{{
		ID: numbered(1), Name: "worker-1", Cluster: "berlin", Role: "worker", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Port: 50000,
		Labels: map[string]string{"rack": "a"}, Identity: control.Identity{NodeID: "node", ClusterID: "cluster"}, PinnedAt: &at, Serial: 3,
		ActiveDigest: "hmac-sha256:k1:aa", PersistentDigest: "hmac-sha256:k1:aa",
		Observed: &control.Observed{Version: "v1.13.6", Stage: "running", Type: "worker", RecordedAt: at},
	}, {ID: numbered(2), Name: "worker-2", Cluster: "hamburg", Role: "worker", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.2")}, Port: 50000}}
	change := control.Change{
		ID: control.ChangeID(numbered(11)), MachineName: "worker-1", Cluster: "berlin", Requester: policy.Person{Issuer: "https://id.example", Subject: "otto"},
		Binding: control.Binding{
			MachineID: numbered(1), Kind: "apply", Mode: "no-reboot", Digest: "hmac-sha256:k1:bb", Base: "hmac-sha256:k1:aa",
			Persistent: "hmac-sha256:k1:aa", Size: 12, Epoch: numbered(99),
		},
		EntryID: numbered(12), Asked: policy.Quorum{Required: 1, Groups: []string{"approvers"}}, CreatedAt: at, ApproveBy: use, UseBy: &use,
		State: control.ChangeApproved, Since: at, Sealed: true, Diffs: 1,
	}
	change.Approvals = []control.Approval{{
		ID: control.ApprovalID(numbered(13)), ChangeID: change.ID, Digest: change.Digest, Epoch: numbered(99), Kind: "human", At: at, EntryID: numbered(14),
		Approver: policy.Person{Issuer: "https://id.example", Subject: "anna"}, Groups: []string{"approvers"}, GroupsNow: []string{"gardeners"},
	}}
	h.changes = []control.Change{change}
	h.review = control.Review{
		Changes:  []policy.ConfigChange{{Document: "v1alpha1", Path: "machine.sysctls.x", Before: nil, After: "fp:00112233445566778899"}},
		Discards: []policy.ConfigChange{{Document: "v1alpha1", Path: "machine.time", Before: true, After: 3, Reboot: true}},
		Warnings: []policy.Reason{{Code: "BW-CONFIG-009", Message: "mind the gap"}},
	}
	h.attempts = []control.Attempt{{
		ID: numbered(21), EntryID: numbered(22), MachineID: numbered(1), MachineName: "worker-1", Cluster: "berlin", State: control.StateCompleted,
		Caller: policy.Person{Issuer: "https://id.example", Subject: "vera"}, Mode: "no-reboot", Digest: change.Digest, Base: change.Base, Persistent: change.Base,
		OpenedAt: at, ClosedAt: &use, SettleAfter: use, Landed: &landed, ChangeID: change.ID,
	}}
	h.revoked = []control.IdentityRevocation{{Person: policy.Person{Issuer: "https://id.example", Subject: "mallory"}, Reason: "left", RevokedAt: at}}
	h.timeline = []control.TimelineItem{{At: at, Kind: "change", ID: numbered(11), Text: "proposed", State: "waiting"}, {At: at, Kind: "approval", ID: numbered(13)}}
	h.notices = []control.Notice{{ID: numbered(31), ChangeID: change.ID, State: "dead", Tries: 9, NextAt: at, CreatedAt: at, EndedAt: &at, Error: "410"}}
	return h
}

func (h *house) Identify(_ context.Context, r identity.Request) (identity.Caller, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shown = r
	return h.caller, h.stranger
}

func (h *house) Allow(address string, c identity.Caller) bool { return h.allow(address, c) }

func (h *house) write(parts ...string) (audit.Receipt, error) {
	if h.bookAway != nil {
		return audit.Receipt{}, h.bookAway
	}
	line := ""
	for _, p := range parts {
		line += " " + p
	}
	h.entries = append(h.entries, line[1:])
	return receiptOf(numbered(1000 + len(h.entries))), nil
}

func (h *house) Read(_ context.Context, by identity.Actor, act, subject string) (audit.Receipt, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.denies[act]; err != nil {
		return audit.Receipt{}, err
	}
	receipt, err := h.write("read", act, subject)
	if receipt.RecordedAt = h.now; err == nil {
		h.reads(receipt.ID, by, act, subject, audit.Allowed)
	}
	return receipt, err
}

func (h *house) May(_ context.Context, _ identity.Actor, act, _ string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, act)
	err := h.denies[act]
	if err == nil {
		return nil
	}
	if _, away := h.write("denied", act); away != nil {
		return away
	}
	return err
}

func (h *house) Record(_ context.Context, _ identity.Actor, act, subject, code, message string) (audit.Receipt, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.write("refused", act, subject, code)
}

func (h *house) Stranger(_ context.Context, address, code, class, message string) (audit.Receipt, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.write("stranger", address, code, class)
}

func (h *house) Revoked(issuer, subject string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.revoked, func(r control.IdentityRevocation) bool { return r.Issuer == issuer && r.Subject == subject })
}

func (h *house) Epoch() uuid.UUID { return h.epoch } // acts ask for it while they hold mu

func (h *house) Standing() control.Standing { return control.Standing{State: control.RecoveryNone} }

func (h *house) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// act is any act: it fails as the test says, is done once for a key, and tells its entry.
func act[T any](ctx context.Context, h *house, name string, once *control.Once, ref uuid.UUID, given any, result T) (T, error) {
	h.pauses()
	h.mu.Lock()
	defer h.mu.Unlock()
	var none T
	h.last = given
	if h.fails != nil {
		return none, h.fails
	}
	if once != nil {
		if kept, ok := h.keys[once.Key]; ok {
			if before := h.bodies[once.Key]; before[0] != once.Route || !once.SameBody(before[1]) {
				return none, control.ErrKeyReused
			}
			return none, kept
		}
		kept := &control.ReplayedError{Ref: ref}
		if once.Answer != nil {
			once.Result = result
			var err error
			if kept.Status, kept.Body, err = once.Answer(); err != nil {
				return none, err
			}
			kept.Ref = uuid.Nil
		}
		if h.noRef {
			kept.Ref = uuid.Nil
		}
		h.keys[once.Key], h.bodies[once.Key] = kept, [2]string{once.Route, once.Body}
	}
	entry, err := h.write("act", name)
	if err != nil {
		return none, control.ErrUnavailable
	}
	h.did = append(h.did, name)
	if !h.silent {
		Decided(ctx, entry)
	}
	return result, nil
}

func (h *house) pauses() {
	if h.pause != nil {
		h.pause()
	}
}

func (h *house) receipt() audit.Receipt { return receiptOf(numbered(77)) }

// leafOf is the header of a receipt.
func leafOf(id uuid.UUID) string {
	leaf := receiptOf(id).Leaf
	return hex.EncodeToString(leaf[:])
}

// receiptOf is the receipt of an entry, as good as any.
func receiptOf(id uuid.UUID) audit.Receipt {
	return audit.Receipt{ID: id, Leaf: sha256.Sum256(id[:])}
}
