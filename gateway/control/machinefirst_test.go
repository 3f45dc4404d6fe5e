package control

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
)

// The lock order of changes: whatever adds to a change or moves it waits for its machine first,
// and holds nothing of the change meanwhile, so that who holds the machine may take it.
func TestTheMachineIsLockedBeforeItsChange(t *testing.T) {
	type act func(t *testing.T, w *world, s *Store, c Change) error
	var attempt *Attempt
	w := newWorld(t)
	s := w.house(t, 9)
	ok(t)(s.SetRolloutLimit(t.Context(), "lab", 100, by(admin, "clusters.limit")))
	rows := []struct {
		name string
		set  act
		do   act
	}{
		{"approving", nil, func(t *testing.T, _ *world, s *Store, c Change) error { _, err := approveAs(t, s, cleo, c); return err }},
		{"rejecting", nil, func(t *testing.T, _ *world, s *Store, c Change) error {
			_, err := s.Reject(t.Context(), c.ID, "no", by(bea, "changes.reject"))
			return err
		}},
		{"revoking an approval", nil, func(t *testing.T, _ *world, s *Store, c Change) error {
			_, err := s.RevokeApproval(t.Context(), c.Approvals[0].ID, "no", by(bea, "approvals.revoke"))
			return err
		}},
		{"deciding", nil, func(t *testing.T, _ *world, s *Store, c Change) error {
			_, err := spendOf(t, s, anna, c, asksFor(1))
			return err
		}},
		{"observing", nil, func(t *testing.T, _ *world, s *Store, c Change) error {
			_, err := s.RecordObservation(t.Context(), c.MachineName, Observation{Began: time.Now()}, by(admin, "machines.observe"))
			return err
		}},
		{
			"sweeping", func(t *testing.T, w *world, _ *Store, c Change) error {
				w.exec(t, "update control.change_states set use_by = use_by - interval '2 hours' where change_id = $1", uuid.UUID(c.ID))
				return nil
			},
			func(t *testing.T, _ *world, s *Store, _ Change) error {
				_, err := s.ExpireChanges(t.Context())
				return err
			},
		},
		{
			"giving back", func(t *testing.T, _ *world, s *Store, c Change) (err error) {
				attempt, err = spendOf(t, s, anna, c, asksFor(1))
				return err
			},
			func(t *testing.T, _ *world, s *Store, _ Change) error {
				return s.CloseAttempt(t.Context(), Closing{AttemptID: attempt.ID, Owner: attempt.Owner, To: StateNotSent})
			},
		},
		{"re-pinning", nil, func(t *testing.T, _ *world, s *Store, c Change) error {
			_, err := s.PinMachine(t.Context(), c.MachineName, worker(70), true, by(admin, "machines.repin"))
			return err
		}},
		{"revoking the requester", nil, func(t *testing.T, _ *world, s *Store, _ Change) error {
			_, err := s.RevokeIdentity(t.Context(), anna, "left", by(admin, "identities.revoke"))
			return err
		}},
	}
	for i, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			name := fmt.Sprintf("w%d", i+1)
			c := approved(t, s, name)
			if row.set != nil {
				if err := row.set(t, w, s, c); err != nil {
					t.Fatal(err)
				}
			}
			holder, err := w.root.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer holder.Rollback(context.WithoutCancel(t.Context()))
			mustExec(t, holder, "select from control.machines where name = '"+name+"' for update")
			done := make(chan error, 1)
			go func() { done <- row.do(t, w, s, c) }()
			w.waiting(t, 1)
			if _, err := holder.Exec(t.Context(), "select from control.change_states where change_id = $1 for update nowait", uuid.UUID(c.ID)); err != nil {
				t.Errorf("it holds the change and waits for the machine: %v", err)
			}
			if err := holder.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
