package control

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bronzeward/policy"
)

// times are how long one thing took, on one of two sides that take turns.
type times []time.Duration

// quantile is the time that a part of the times did not exceed, in milliseconds (nearest rank).
func (t times) quantile(part float64) float64 {
	sorted := slices.Sorted(slices.Values(t))
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))].Seconds() * 1000
}

// report says both sides' quantiles and what one is of the other.
func report(b *testing.B, name string, one, other times, against string) {
	b.ReportMetric(0, "ns/op") // a round of both sides has no meaning
	for _, side := range []struct {
		name string
		took times
	}{{name, one}, {against, other}} {
		b.ReportMetric(side.took.quantile(0.50), side.name+"-p50-ms")
		b.ReportMetric(side.took.quantile(0.99), side.name+"-p99-ms")
	}
	b.ReportMetric(one.quantile(0.50)/other.quantile(0.50), "p50-ratio")
}

// fleet is so many pinned workers, each in a cluster of its own.
func (w *world) fleet(b *testing.B, s *Store, prefix string, n int) []Machine {
	b.Helper()
	list := make([]NewMachine, n)
	for i := range list {
		list[i] = NewMachine{
			Name: fmt.Sprintf("%s-%d", prefix, i), Cluster: fmt.Sprintf("%s-cluster-%d", prefix, i),
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(len(prefix)), byte(i / 250), byte(i%250 + 1)})},
		}
	}
	out := make([]Machine, n)
	for i, m := range list {
		if _, _, err := s.AddMachine(b.Context(), m, by(admin, "machines.add")); err != nil {
			b.Fatal(err)
		}
		ok(b)(s.PinMachine(b.Context(), m.Name, Identity{NodeID: m.Name, ClusterID: m.Cluster}, false, by(admin, "machines.pin")))
		out[i] = get(b, s, m.Name)
	}
	return out
}

// benchProposal is a change as production has it: 15 KiB, one label of it new.
func benchProposal(m Machine, size int) *NewChange {
	n := proposal(m)
	n.Size, n.Sealed = int64(size), []byte(strings.Repeat("s", size))
	n.MostWaiting, n.MostBytes = 1<<20, 1<<40
	n.Review.Changes = []policy.ConfigChange{{Document: "v1alpha1", Path: "machine.nodeLabels.example.com/turn", Before: "0000000", After: "0000001"}}
	return n
}

// applier is one machine's apply, again and again: it is decided, and then not sent, which
// gives the change back.
type applier struct {
	s     *Store
	m     Machine
	judge func(Locked) Judgement
	held  *Attempt
}

func (a *applier) decide(b *testing.B) time.Duration {
	began := time.Now()
	adm, err := a.s.Admit(b.Context(), apply(a.m, anna), a.judge)
	took := time.Since(began)
	if err != nil {
		b.Error(err)
		return took
	}
	a.held = adm.Attempt
	return took
}

func (a *applier) end(b *testing.B) {
	if a.held == nil {
		return
	}
	if err := a.s.CloseAttempt(b.Context(), Closing{AttemptID: a.held.ID, Owner: a.held.Owner, To: StateNotSent}); err != nil {
		b.Error(err)
	}
	a.held, a.m.Serial = nil, a.m.Serial+2
}

// BenchmarkApproved is a decision that spends an approved change, its transaction included,
// beside one that needs no approval, in turns: 50 machines in 50 clusters, each with one
// apply in flight, decided one after the other and all at once.
func BenchmarkApproved(b *testing.B) {
	const machines, rounds = 50, 12
	w := newWorld(b)
	s := w.house(b, 0)
	sides := map[string][]*applier{}
	for _, m := range w.fleet(b, s, "with", machines) {
		c := propose(b, s, anna, benchProposal(m, 4))
		approve(b, s, bea, c)
		sides["with"] = append(sides["with"], &applier{s: s, m: m, judge: spending(c.ID, asksFor(1))})
	}
	for _, m := range w.fleet(b, s, "without", machines) {
		sides["without"] = append(sides["without"], &applier{s: s, m: m, judge: allow})
	}
	w.exec(b, "analyze")
	for _, atOnce := range []bool{false, true} {
		b.Run(map[bool]string{false: "one-after-the-other", true: "all-at-once"}[atOnce], func(b *testing.B) {
			took := map[string]times{}
			for b.Loop() {
				for round := range rounds {
					for i := range 2 {
						name := []string{"with", "without"}[(round+i)%2]
						one := decideAll(b, sides[name], atOnce)
						if round > 0 { // the first one warms up
							took[name] = append(took[name], one...)
						}
					}
				}
			}
			report(b, "with", took["with"], took["without"], "without")
		})
	}
}

// decideAll decides every apply, until all are in flight, and then ends them.
func decideAll(b *testing.B, all []*applier, atOnce bool) times {
	took := make(times, len(all))
	var group sync.WaitGroup
	for i, a := range all {
		if atOnce {
			group.Go(func() { took[i] = a.decide(b) })
		} else {
			took[i] = a.decide(b)
		}
	}
	group.Wait()
	for _, a := range all {
		a.end(b)
	}
	if b.Failed() {
		b.FailNow()
	}
	return took
}
