package control

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"bronzeward/policy"
)

// driftModel is what drift is, without a database: one machine, what it runs, what was applied.
type driftModel struct {
	runs, applied string
	version       int
	open          bool
	found         string // as last seen while open
	closed        []DriftState
}

// Whatever happens to a machine, a drift is open exactly while a sight has shown something else
// than what was applied, and it is closed by what closed it.
func TestDriftsAsAStateMachine(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 0)
	next := 0
	rapid.Check(t, func(r *rapid.T) {
		next++
		w.add(t, s, next)
		name := fmt.Sprintf("w%d", next)
		m := &driftModel{runs: digestB, applied: digestB, version: 1}
		sees(t, s, sightOf(t, s, name, digestB, digestB, 1), SightBaseline)
		quorum := policy.Quorum{Groups: []string{}}
		capture := func(kind string) Change {
			n := settling(t, s, openOf(t, s, name), kind)
			n.Asked = quorum
			return propose(t, s, anna, n)
		}
		r.Repeat(map[string]func(*rapid.T){
			"somebody patches it": func(r *rapid.T) {
				m.runs = rapid.SampledFrom([]string{digestA, digestB, digestC}).Draw(r, "to")
				m.version++
			},
			"it is seen": func(*rapid.T) {
				got, err := s.RecordSight(context.WithoutCancel(t.Context()), sightOf(t, s, name, m.runs, m.runs, m.version))
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case m.open && m.runs == m.applied:
					m.open, m.closed = false, append(m.closed, DriftReturned)
					if got != SightReturned {
						t.Fatalf("it came to %s", got)
					}
				case m.open && m.runs != m.found && got != SightMoved:
					t.Fatalf("it came to %s", got)
				case !m.open && m.runs != m.applied:
					m.open = true
					if got != SightOpened {
						t.Fatalf("it came to %s", got)
					}
				}
				m.found = m.runs
			},
			"an ordinary apply is tried": func(r *rapid.T) {
				if !m.open {
					r.Skip()
				}
				_, err := s.Admit(t.Context(), apply(get(t, s, name), anna), allow)
				wantGuard(t, err, "attempts_no_other_drift")
			},
			"it is adopted": func(r *rapid.T) {
				if !m.open || m.found != m.runs {
					r.Skip()
				}
				if err := adoptOf(t, s, anna, capture(KindAdopt), quorum); err != nil {
					t.Fatal(err)
				}
				m.open, m.applied, m.closed = false, m.runs, append(m.closed, DriftAdopted)
			},
			"it is reverted": func(r *rapid.T) {
				if !m.open || m.found != m.runs {
					r.Skip()
				}
				c := capture(KindRevert)
				adm, err := s.Admit(t.Context(), apply(get(t, s, name), anna), sending(c, quorum))
				if err != nil {
					t.Fatal(err)
				}
				_, err = s.RecordSight(t.Context(), sightOf(t, s, name, m.runs, m.runs, m.version))
				if !errors.Is(err, ErrMoved) {
					t.Fatalf("a sight during the revert: %v", err)
				}
				if err := s.CloseAttempt(t.Context(), Closing{AttemptID: adm.Attempt.ID, Owner: adm.Attempt.Owner, To: StateCompleted, ReadActive: c.Digest, ReadPersistent: c.Digest}); err != nil {
					t.Fatal(err)
				}
				m.open, m.runs, m.closed = false, m.applied, append(m.closed, DriftReverted)
				m.version++
			},
			"": func(*rapid.T) {
				all, err := s.ListDrifts(t.Context(), DriftFilter{MachineID: get(t, s, name).ID, Limit: 1000})
				if err != nil {
					t.Fatal(err)
				}
				var closed []DriftState
				open := 0
				for i := len(all) - 1; i >= 0; i-- {
					if all[i].State == DriftOpen {
						open++
						continue
					}
					closed = append(closed, all[i].State)
				}
				if (open == 1) != m.open || open > 1 || fmt.Sprint(closed) != fmt.Sprint(m.closed) || get(t, s, name).ActiveDigest != m.applied {
					t.Fatalf("%d open and %v closed, want %v and %v; applied is %s, want %s", open, closed, m.open, m.closed, get(t, s, name).ActiveDigest, m.applied)
				}
			},
		})
	})
}
