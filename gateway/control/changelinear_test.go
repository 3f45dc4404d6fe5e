package control

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"

	"bronzeward/policy"
)

const (
	linearChanges = 6
	// The first ones are the requesters, one per change; the others approve, and anybody applies.
	linearPeople = linearChanges + 6
	linearAsks   = 2
)

func linearPerson(n int) policy.Person {
	return policy.Person{Issuer: "https://id.test", Subject: fmt.Sprintf("p%d", n)}
}

// deed is one operation on one change, as a client saw it. A revoked identity is a deed on
// every change. approval names the one that is given or taken back, counted from one.
type deed struct {
	act                      string
	change, person, approval int
}

// ledger is the state of one change.
type ledger struct {
	given       [linearPeople]int // the person's approval; zero without
	revoked     [linearPeople]bool
	spent, dead bool // dead: its requester was revoked
}

// counts is whether as many approvals count for the spender as the law asks for.
func (l ledger) counts(d deed) bool {
	n := 0
	for p, approval := range l.given {
		if approval != 0 && !l.revoked[p] && p != d.change && p != d.person {
			n++
		}
	}
	return n >= linearAsks
}

// agreed is a change one by one: approvals, what was taken back, identities revoked, and
// whether it is spent.
var agreed = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := make([][]porcupine.Operation, linearChanges)
		for _, op := range history {
			d := op.Input.(deed)
			for c := range parts {
				if d.act == "revoke" || d.change == c {
					copied := op
					d.change = c
					copied.Input = d
					parts[c] = append(parts[c], copied)
				}
			}
		}
		return parts
	},
	Init: func() any { return ledger{} },
	Step: func(state, input, output any) (bool, any) {
		l, d, came := state.(ledger), input.(deed), output.(string)
		if came == cameBusy || came == cameUnavailable {
			return true, l
		}
		want, next := l.step(d)
		if came == cameLost {
			// It may have come to anything, also to nothing: then it is the last of all.
			return true, next
		}
		return came == want, next
	},
}

// step is what a deed must come to in this state, and the state after it.
func (l ledger) step(d deed) (string, ledger) {
	is, live := l.revoked[d.person], !l.spent && !l.dead
	switch d.act {
	case "revoke":
		if is {
			return cameAlready, l
		}
		l.revoked[d.person] = true
		l.dead = l.dead || live && d.person == d.change
	case "approve":
		switch {
		case is:
			return cameRevoked, l
		case !live:
			return cameNotLive, l
		case l.given[d.person] != 0:
			return cameAlready, l
		}
		l.given[d.person] = d.approval
	case "withdraw":
		switch {
		case l.dead:
			return cameNotLive, l
		case is || l.given[d.person] != d.approval:
			return cameAlready, l
		}
		l.given[d.person] = 0
		if l.spent {
			return cameLate, l // not stopped; it does not come back with this approval
		}
	case "apply":
		switch {
		case is:
			return cameRevoked, l
		case !live:
			return cameNotLive, l
		case !l.counts(d):
			return cameTooFew, l
		}
		l.spent = true
	case "give back":
		if !l.spent {
			return "nothing to give back", l
		}
		l.spent, l.dead = false, l.revoked[d.change]
	}
	return cameOK, l
}

// Applies, approvals and revocations on three gateway processes and one database behave as if
// they happened one by one, each between its call and its return. One process is killed in
// the middle.
func TestChangesAreLinearizable(t *testing.T) {
	const processes, clients, deeds = 3, 4, 30
	w := newWorld(t)
	s := w.house(t, linearChanges)
	revoked(t)(s.RevokeIdentity(t.Context(), policy.Person{Issuer: "i", Subject: "nobody"}, "never seen", by(admin, "identities.revoke")))
	ok(t)(s.SetRolloutLimit(t.Context(), "lab", 100, by(admin, "clusters.limit")))
	changes := make([]uuid.UUID, linearChanges)
	for i := range changes {
		n := proposal(get(t, s, fmt.Sprintf("w%d", i+1)))
		n.Asked = asksFor(linearAsks)
		changes[i] = uuid.UUID(propose(t, s, linearPerson(i), n).ID)
	}
	var (
		wg  sync.WaitGroup
		rec = newRecorder()
		all []*process
	)
	for i := range processes {
		all = append(all, w.worker(t, fmt.Sprintf("worker-%d", i+1)))
	}
	for i := range processes * clients {
		c := &linearClient{n: i, dice: rand.New(rand.NewPCG(7, uint64(i))), process: all[i%processes], changes: changes, rec: rec}
		wg.Go(func() {
			for n := range deeds {
				if i == processes-1 && n == deeds/2 {
					_ = c.process.cmd.Process.Kill() // what the others have asked it is lost
				}
				c.act()
			}
		})
	}
	wg.Wait()
	for i, p := range all {
		p.leave(t, i == processes-1)
	}
	t.Logf("%v", rec.seen)
	for _, must := range []string{"apply: " + cameOK, "apply: " + cameTooFew, "approve: " + cameOK, "withdraw: " + cameOK, "revoke: " + cameOK, "give back: " + cameOK} {
		if rec.seen[must] == 0 {
			t.Errorf("never seen: %s; the history proves nothing", must)
		}
	}
	if !porcupine.CheckOperations(agreed, rec.history) {
		t.Error("no order of these operations explains what the clients saw")
	}
}

// The checker on two runs that differ in one thing, the guards: a decision stands still
// between its reading and its commit while an approval it counted is revoked. With them it has
// an explanation; control: with none of them it has none.
func TestControlTheCheckerSeesACountedApprovalThatWasRevoked(t *testing.T) {
	for _, guarded := range []bool{true, false} {
		t.Run(fmt.Sprintf("guarded %t", guarded), func(t *testing.T) {
			w := newWorld(t)
			s := w.house(t, 1)
			other := w.store(t, "gw-2", nil)
			n := proposal(get(t, s, "w1"))
			n.Asked = asksFor(linearAsks)
			c := propose(t, s, linearPerson(0), n)
			rec := newRecorder()
			for _, p := range []int{6, 7} {
				rec.record(p, deed{"approve", 0, p, p}, func() string {
					_, err := approveAs(t, s, linearPerson(p), c)
					return came(t, err)
				})
			}
			id := change(t, s, c.ID).Approvals[0].ID
			if !guarded {
				for _, row := range without {
					row.take(t, w)
				}
			}
			var withdrawn sync.WaitGroup
			rec.record(1, deed{"apply", 0, 8, 0}, func() string {
				decision := paused(t, s, apply(get(t, s, "w1"), linearPerson(8)), spending(c.ID, asksFor(linearAsks)))
				back := make(chan struct{})
				withdrawn.Go(func() {
					defer close(back)
					rec.record(2, deed{"withdraw", 0, 6, 6}, func() string {
						return came(t, takeBack(t.Context(), other, id))
					})
				})
				if guarded {
					w.waiting(t, 1)
				} else {
					<-back
				}
				_, err := decision()
				return came(t, err)
			})
			withdrawn.Wait()
			if rec.seen["apply: "+cameOK] != 1 {
				t.Fatalf("what happened: %v", rec.seen)
			}
			if got := porcupine.CheckOperations(agreed, rec.history); got != guarded {
				t.Errorf("the checker says %t of %v", got, rec.seen)
			}
		})
	}
}
