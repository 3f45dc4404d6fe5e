package control

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"bronzeward/audit"
	"bronzeward/policy"
)

// changeRun is one run of the state machine: a machine, a house of people and a model.
type changeRun struct {
	*rapid.T
	t    *testing.T
	w    *world
	s    *Store
	name string
	m    model
	c    Change // the last change; zero before the first
	a    *Attempt
	// people are anna and boris, who operate, bea, cleo and dan, who approve, and eve, who is in no group.
	people []policy.Person
	ended  map[ChangeID]ChangeState
	aged   bool // the attempt's lease and settle floor have passed
}

// Every act in every state, in any order: the change is where the model says, and what has
// ended stays ended.
func TestChangesAsAStateMachine(t *testing.T) {
	w := newWorld(t)
	stores := []*Store{w.house(t, 0), w.store(t, "gw-2", nil)}
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		r := &changeRun{T: rt, t: t, w: w, s: stores[0], name: fmt.Sprintf("m%d", n), ended: map[ChangeID]ChangeState{}}
		r.m = model{revoked: map[policy.Person]bool{}, base: digestB}
		for _, who := range []string{"anna", "boris", "bea", "cleo", "dan", "eve"} {
			r.people = append(r.people, policy.Person{Issuer: "https://id.test", Subject: fmt.Sprintf("%s-%d", who, n)})
		}
		r.machine(n)
		rt.Repeat(map[string]func(*rapid.T){
			"another replica": func(*rapid.T) { r.s = stores[rapid.IntRange(0, 1).Draw(rt, "replica")] },
			"capture":         func(*rapid.T) { r.capture() },
			"approve":         func(*rapid.T) { r.approve() },
			"approve more":    func(*rapid.T) { r.approve() },
			"end":             func(*rapid.T) { r.end() },
			"withdraw":        func(*rapid.T) { r.withdraw() },
			"revoke":          func(*rapid.T) { r.revoke() },
			"observe":         func(*rapid.T) { r.observe() },
			"re-pin":          func(*rapid.T) { r.repin() },
			"spend":           func(*rapid.T) { r.spend() },
			"spend more":      func(*rapid.T) { r.spend() },
			"law":             func(*rapid.T) { r.law() },
			"close":           func(*rapid.T) { r.close() },
			"account":         func(*rapid.T) { r.account() },
			"time passes":     func(*rapid.T) { r.age() },
			"sweep":           func(*rapid.T) { r.sweep() },
			"":                func(*rapid.T) { r.check() },
		})
	})
}

func (r *changeRun) machine(n int) {
	addr := netip.AddrFrom4([4]byte{10, 6, byte(n / 250), byte(n%250 + 1)})
	added := NewMachine{Name: r.name, Cluster: "c-" + r.name, Addresses: []netip.Addr{addr}}
	if _, _, err := r.s.AddMachine(r.t.Context(), added, by(admin, "machines.add")); err != nil {
		r.Fatal(err)
	}
	ok(r.t)(r.s.PinMachine(r.t.Context(), r.name, r.identity(), false, by(admin, "machines.pin")))
}

func (r *changeRun) identity() Identity {
	return Identity{NodeID: fmt.Sprintf("%s-%d", r.name, r.m.pin), ClusterID: "c"}
}

func (r *changeRun) one(what string) policy.Person {
	return rapid.SampledFrom(r.people).Draw(r.T, what)
}

func (r *changeRun) quorum() policy.Quorum {
	return policy.Quorum{
		Required:     rapid.IntRange(0, 2).Draw(r.T, "required"),
		Groups:       rapid.SampledFrom([][]string{{"approvers"}, {"approvers", "others"}}).Draw(r.T, "groups"),
		SelfApproval: rapid.Bool().Draw(r.T, "self-approval"),
	}
}

// came fails the run when an act did not come to what the model says: "" is success.
func (r *changeRun) came(err error, want string) {
	r.Helper()
	var (
		guard  *GuardError
		change *ChangeError
		busy   *BusyError
		got    string
	)
	switch {
	case err == nil:
	case errors.As(err, &guard):
		got = guard.Guard
	case errors.As(err, &change):
		got = change.Code
	case errors.As(err, &busy), errors.Is(err, ErrInFlight):
		got = "busy"
	case errors.Is(err, ErrMoved):
		got = "moved"
	case errors.Is(err, ErrConflict):
		got = "conflict"
	default:
		got = err.Error()
	}
	if got != want {
		r.Fatalf("got %q (%v), the model says %q", got, err, want)
	}
}

func (r *changeRun) decide(p policy.Person, judge func(Locked) Judgement) (Admission, error) {
	return r.s.Admit(r.t.Context(), apply(get(r.t, r.s, r.name), p), judge)
}

func (r *changeRun) capture() {
	p, q := r.one("requester"), r.quorum()
	n := proposal(get(r.t, r.s, r.name))
	n.Base, n.Persistent, n.Asked = r.m.base, r.m.base, q
	adm, err := r.decide(p, capturing(n))
	switch {
	case r.m.revoked[p]:
		r.came(err, "caller_not_revoked")
	case r.m.held():
		r.came(err, "busy")
	case r.m.live() && !r.m.over():
		r.came(err, "moved") // the very same one is there
	default:
		r.came(err, "")
		r.m.sweep()
		if r.m.state != "" {
			r.ended[r.c.ID] = r.m.state
		}
		r.c, r.a = *adm.Change, nil
		r.m = model{state: ChangeWaiting, asked: q, owner: p, revoked: r.m.revoked, base: r.m.base, applied: r.m.applied, pin: r.m.pin, of: r.m.base}
		r.m.recount() // a law may ask for no approval
	}
}

func (r *changeRun) approve() {
	if r.m.state == "" {
		return
	}
	p := r.one("approver")
	group := map[bool]string{true: "approvers", false: "others"}[p.Subject[:3] != "eve"]
	kind := rapid.SampledFrom([]string{"human", "human", "human", "automation"}).Draw(r.T, "kind")
	digest := rapid.SampledFrom([]string{r.c.Digest, r.c.Digest, r.c.Digest, digestC}).Draw(r.T, "digest")
	_, err := r.s.Approve(r.t.Context(), Approver{Person: p, Kind: kind, Groups: []string{group}}, []ApproveOne{{ID: r.c.ID, Digest: digest}}, by(p, "changes.approve"))
	switch {
	case r.m.revoked[p]:
		r.came(err, "caller_not_revoked")
	case !r.m.live() || r.m.over():
		r.came(err, "BW-CHANGE-002")
	case digest != r.c.Digest:
		r.came(err, "BW-CHANGE-003")
	case r.m.approval(p) != nil:
		r.came(err, "BW-CHANGE-007")
	case kind != "human":
		r.came(err, "approvals_by_people")
	default:
		r.came(err, "")
		r.m.given = append(r.m.given, given{by: p, group: group})
		r.m.recount()
	}
}

func (r *changeRun) end() {
	if r.m.state == "" {
		return
	}
	p, act, to := r.one("who"), r.s.Reject, ChangeRejected
	if rapid.Bool().Draw(r.T, "cancel") {
		act, to = r.s.Cancel, ChangeCancelled
	}
	_, err := act(r.t.Context(), r.c.ID, "not wanted", by(p, "changes.end"))
	switch {
	case r.m.revoked[p]:
		r.came(err, "caller_not_revoked")
	case !r.m.live() || r.m.over():
		r.came(err, "BW-CHANGE-002")
	default:
		r.came(err, "")
		r.m.state = to
	}
}

func (r *changeRun) withdraw() {
	if len(r.m.given) == 0 {
		return
	}
	i := rapid.IntRange(0, len(r.m.given)-1).Draw(r.T, "approval")
	id := change(r.t, r.s, r.c.ID).Approvals[i].ID
	_, err := r.s.RevokeApproval(r.t.Context(), id, "looked again", by(admin, "approvals.revoke"))
	sent := r.m.state == ChangeSpent && r.m.attempt == StateOpen
	switch g := &r.m.given[i]; {
	case !sent && (!r.m.live() || r.m.over()):
		r.came(err, "BW-CHANGE-002")
	case g.withdrawn || r.m.revoked[g.by]:
		r.came(err, "conflict")
	default:
		r.came(err, "")
		g.withdrawn = true
		r.m.recount()
	}
}

func (r *changeRun) revoke() {
	p := r.one("revoked")
	_, err := r.s.RevokeIdentity(r.t.Context(), p, "left", by(admin, "identities.revoke"))
	if r.m.revoked[p] {
		r.came(err, "conflict")
		return
	}
	r.came(err, "")
	r.m.revoke(p)
}

func (r *changeRun) spend() {
	if r.m.state == "" {
		return
	}
	p, q := r.one("spender"), r.quorum()
	adm, err := r.decide(p, func(l Locked) Judgement {
		j := spending(r.c.ID, q)(l)
		j.Attempt.Base, j.Attempt.Persistent = r.c.Base, r.c.Persistent
		return j
	})
	switch {
	case r.m.revoked[p]:
		r.came(err, "caller_not_revoked")
	case r.m.held():
		r.came(err, "busy")
	case !r.m.live() || r.m.over():
		r.came(err, "moved")
	case r.m.counting(q, p) < q.Required:
		r.came(err, "attempts_approvals")
	case r.m.applied != "" && r.c.Base != r.m.applied:
		r.came(err, "attempts_no_unseen_drift")
	default:
		r.came(err, "")
		r.a, r.aged = adm.Attempt, false
		if r.m.state == ChangeWaiting {
			r.m.lateToGo = false // its approval began just now
		}
		r.m.state, r.m.asked, r.m.attempt = ChangeSpent, q, StateOpen
	}
}

// law is a refused repetition of the same request, which tells the change what is asked now.
func (r *changeRun) law() {
	if r.m.state == "" {
		return
	}
	q := r.quorum()
	_, err := r.decide(r.one("who"), func(l Locked) Judgement {
		j := allowOnly(l)
		j.Entry.Verdict, j.Quorum, j.Known = audit.Denied, q, r.c.ID
		return j
	})
	r.came(err, "")
	if r.m.sweep(); r.m.live() {
		r.m.asked = q
		r.m.recount()
	}
}
