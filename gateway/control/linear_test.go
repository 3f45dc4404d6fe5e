package control

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"bronzeward/policy"
)

// asked is one operation about one person, as a client saw it.
type asked struct {
	subject string
	revoke  bool
}

// revocable is a person who is revoked or not: a revocation sets it, and a decision allows
// exactly while it is not set.
var revocable = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := map[string][]porcupine.Operation{}
		for _, op := range history {
			subject := op.Input.(asked).subject
			parts[subject] = append(parts[subject], op)
		}
		var out [][]porcupine.Operation
		for _, part := range parts {
			out = append(out, part)
		}
		return out
	},
	Init: func() any { return false },
	Step: func(state, input, output any) (bool, any) {
		if input.(asked).revoke {
			return true, true
		}
		return output.(bool) != state.(bool), state
	},
}

// Decisions and revocations on several replicas behave as if they happened one by one, each
// between its call and its return.
func TestDecisionsAndRevocationsAreLinearizable(t *testing.T) {
	const people, replicas, rounds = 6, 3, 8
	w := newWorld(t)
	first := w.house(t, replicas)
	stores := []*Store{first}
	for i := 1; i < replicas; i++ {
		stores = append(stores, w.store(t, fmt.Sprintf("gw-%d", i+1), nil))
	}
	var (
		mu      sync.Mutex
		history []porcupine.Operation
		wg      sync.WaitGroup
	)
	begin := time.Now()
	record := func(client int, in asked, work func() bool) {
		call := time.Since(begin).Nanoseconds()
		out := work()
		mu.Lock()
		defer mu.Unlock()
		history = append(history, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: time.Since(begin).Nanoseconds()})
	}
	for i, s := range stores {
		m := get(t, s, fmt.Sprintf("w%d", i+1))
		for p := range people {
			who := policy.Person{Issuer: "https://id.test", Subject: fmt.Sprintf("p%d", p)}
			wg.Go(func() {
				for range rounds {
					record(i*people+p, asked{subject: who.Subject}, func() bool {
						_, err := s.Admit(t.Context(), Request{MachineID: m.ID, Caller: who}, allowOnly)
						var refused *GuardError
						if err != nil && !errors.As(err, &refused) {
							t.Errorf("deciding: %v", err)
						}
						return err == nil
					})
				}
			})
			if p%replicas == i {
				wg.Go(func() {
					record(1000+p, asked{subject: who.Subject, revoke: true}, func() bool {
						if _, err := s.RevokeIdentity(t.Context(), who, "left", by(admin, "identities.revoke")); err != nil {
							t.Errorf("revoking: %v", err)
						}
						return true
					})
				})
			}
		}
	}
	wg.Wait()
	if !porcupine.CheckOperations(revocable, history) {
		t.Error("no order of these operations explains what the clients saw")
	}
}

// Control: the checker sees a decision that allowed after a revocation had returned.
func TestControlTheCheckerSeesALateAllow(t *testing.T) {
	history := []porcupine.Operation{
		{ClientId: 1, Input: asked{subject: "p", revoke: true}, Call: 0, Output: true, Return: 10},
		{ClientId: 2, Input: asked{subject: "p"}, Call: 20, Output: true, Return: 30},
	}
	if porcupine.CheckOperations(revocable, history) {
		t.Error("a late allow passes: the test above proves nothing")
	}
}
