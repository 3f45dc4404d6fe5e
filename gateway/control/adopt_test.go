package control

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
)

// While a drift is open nothing is opened but what names it, in Go and in SQL (I18).
func TestAnOpenDriftHoldsEverythingElse(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	sees(t, s, sightOf(t, s, "w1", digestB, digestB, 1), SightBaseline)
	before := approved(t, s, "w1") // of what ran before
	sees(t, s, sightOf(t, s, "w1", digestC, digestC, 2), SightOpened)
	wantState(t, s, before.ID, ChangeSuperseded)
	d := openOf(t, s, "w1")

	var holds []string
	_, err := s.Admit(t.Context(), apply(get(t, s, "w1"), anna), func(l Locked) Judgement {
		for _, h := range l.Holds {
			holds = append(holds, h.Kind+" "+h.ID)
		}
		return allow(l)
	})
	wantGuard(t, err, "attempts_no_other_drift")
	if len(holds) != 1 || holds[0] != "drift "+d.ID.String() {
		t.Errorf("the holds are %v", holds)
	}
	// A change that names no drift, or another one, is not even captured as what settles it.
	plain := proposal(get(t, s, "w1"))
	plain.Base, plain.Persistent = digestC, digestC
	c := propose(t, s, anna, plain)
	approve(t, s, bea, c)
	_, err = s.Admit(t.Context(), apply(get(t, s, "w1"), anna), sending(c, asksFor(1)))
	wantGuard(t, err, "attempts_no_other_drift")
	stray := settling(t, s, d, KindRevert)
	stray.Drift = DriftID(newID(t))
	_, err = s.Admit(t.Context(), looking(get(t, s, "w1"), anna), capturing(stray))
	wantGuard(t, err, "changes_drift_named")

	// The row says it once more: a Go that forgot would be stopped there.
	opens := func() error {
		_, err := w.root.Exec(t.Context(), `insert into control.attempts (id, entry_id, machine_id, cluster, instance, generation, epoch, issuer, subject, request_key, mode,
			digest, base_active, base_persistent, live_type, stage, minor, node_id, talos_cluster_id, smbios, opened_at, send_by, lease_until, transport_deadline, settle_floor)
			select gen_random_uuid(), gen_random_uuid(), m.id, m.cluster, 'gw', 1, i.epoch, 'i', 's', 'k', 'no-reboot', 'd', 'b', 'b', 'worker', 'running', '1.13',
			m.node_id, m.talos_cluster_id, m.smbios, now(), now() + interval '2 seconds', now() + interval '9 seconds', now() + interval '9 seconds', interval '30 seconds'
			from control.machines m, control.installation i`)
		return err
	}
	wantGuard(t, sqlError("opening", opens()), "attempts_no_other_drift")
	w.exec(t, "drop trigger attempts_drift on control.attempts")
	if err := opens(); err != nil {
		t.Fatalf("without the trigger: %v", err)
	}
	if n := w.count(t, "select count(*) from control.attempts a join control.drifts d on d.machine_id = a.machine_id where a.state = 'open' and d.state = 'open'"); n != 1 {
		t.Errorf("without the trigger %d attempts stand beside the open drift", n)
	}
}

// Without the unique index two replicas open two drifts of one machine, and one of them holds it
// for good.
func TestOneDriftIsOpenPerMachine(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	drifted(t, s, "w1")
	again := func() error {
		_, err := w.root.Exec(t.Context(), `insert into control.drifts select (jsonb_populate_record(d, jsonb_build_object('id', gen_random_uuid()))).* from control.drifts d`)
		return err
	}
	if err := sqlError("opening", again()); !errors.Is(err, ErrConflict) {
		t.Fatalf("a second drift: %v", err)
	}
	w.exec(t, "drop index control.drifts_one_open_per_machine")
	if err := again(); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "select count(*) from control.drifts where state = 'open'"); n != 2 {
		t.Errorf("%d are open", n)
	}
}

func TestAnAdoptionTakesWhatRunsAsApplied(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	d := drifted(t, s, "w1")
	rival := propose(t, s, anna, settling(t, s, d, KindRevert))
	c := propose(t, s, anna, settling(t, s, d, KindAdopt))
	wantGuard(t, adoptOf(t, s, anna, c, asksFor(1)), "attempts_approvals")
	approve(t, s, bea, c)
	c = change(t, s, c.ID)

	stale := looking(get(t, s, "w1"), anna)
	stale.Serial--
	_, err := s.Admit(t.Context(), stale, adopting(c, asksFor(1)))
	wantErr(t, err, ErrMoved)
	other := c
	other.Persistent = digestA // what is on the disk has moved since
	wantGuard(t, adoptOf(t, s, anna, other, asksFor(1)), "attempts_change_binding")
	_, err = spendOf(t, s, anna, c, asksFor(1)) // an adoption is not sent
	wantGuard(t, err, "attempts_change_binding")

	before := get(t, s, "w1")
	if err := adoptOf(t, s, anna, c, asksFor(1)); err != nil {
		t.Fatal(err)
	}
	after := get(t, s, "w1")
	if after.ActiveDigest != digestC || after.PersistentDigest != digestC || after.Serial <= before.Serial {
		t.Errorf("applied is %s and %s, the serial %d after %d", after.ActiveDigest, after.PersistentDigest, after.Serial, before.Serial)
	}
	if got := drift(t, s, d.ID); got.State != DriftAdopted || got.ChangeID != c.ID {
		t.Errorf("the drift is %s by %s", got.State, got.ChangeID)
	}
	if got := wantState(t, s, c.ID, ChangeSpent); got.AttemptID != uuid.Nil || got.Why != "because" || got.Drift != d.ID {
		t.Errorf("the change is %+v", got)
	}
	wantState(t, s, rival.ID, ChangeSuperseded)
	if _, sealed, err := s.AppliedCopy(t.Context(), after.ID, digestC); err != nil || string(sealed) != "sealed" {
		t.Errorf("the copy is %q, %v", sealed, err)
	}
	if n := w.count(t, "select count(*) from control.attempts"); n != 0 {
		t.Errorf("%d attempts", n)
	}
	err = adoptOf(t, s, anna, c, asksFor(1))
	if err == nil {
		t.Error("it was adopted twice")
	}
	sees(t, s, sightOf(t, s, "w1", digestC, digestC, 2), SightNothing)
}

// The adoption's own row holds it against its change, the approvals and the drift: each guard is
// taken away where it lives, and then what must not be is there.
func TestAnAdoptionsRowRefuses(t *testing.T) {
	rows := map[string]struct {
		before string // what is wrong
		guard  string
	}{
		"too few approvals":         {"delete from control.approvals", "adoptions_approvals"},
		"the requester was revoked": {"insert into control.identity_revocations (issuer, subject, reason, authority_version, entry_id) values ('https://id.test', 'anna', 'r', 1, gen_random_uuid())", "adoptions_nobody_revoked"},
		"another epoch":             {"alter table control.installation disable trigger installation_epoch; update control.installation set epoch = gen_random_uuid()", "adoptions_epoch_current"},
		"another machine":           {"update control.machines set node_id = 'other'", "adoptions_expected_identity"},
		"the change is not live":    {"update control.change_states set use_by = now() - interval '1 day'", "adoptions_change_live"},
		"the drift is closed":       {"update control.drifts set state = 'returned', found_active = applied_active, found_persistent = applied_persistent, closed_at = now(), closed_entry_id = entry_id", "adoptions_drift_open"},
		"it is for something else":  {"", "adoptions_change_binding"},
		"the house is in recovery":  {"update control.recovery set mark = 'rolled-back', message = 'older', since = now()", "adoptions_not_in_recovery"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.house(t, 1)
			d := drifted(t, s, "w1")
			c := propose(t, s, anna, settling(t, s, d, KindAdopt))
			approve(t, s, bea, c)
			if row.before != "" {
				w.exec(t, row.before)
			}
			size := c.Size
			if row.before == "" {
				size++
			}
			insert := func() error {
				_, err := w.root.Exec(t.Context(), sqlAdoptionAdd, uuid.UUID(c.ID), uuid.UUID(d.ID), c.MachineID, newID(t), c.Epoch, anna.Issuer, anna.Subject,
					c.Digest, size, c.Base, c.Persistent, c.Identity.NodeID, c.Identity.ClusterID, c.Identity.SMBIOS, 1, []string{"approvers"}, false, c.CreatedAt.Add(1))
				return err
			}
			wantGuard(t, sqlError("adopting", insert()), row.guard)
			trigger := "adoptions_hold"
			if row.guard == "adoptions_not_in_recovery" {
				trigger = row.guard
			}
			w.exec(t, "drop trigger "+trigger+" on control.adoptions")
			if err := insert(); err != nil {
				t.Fatalf("without the trigger: %v", err)
			}
			if n := w.count(t, "select count(*) from control.adoptions"); n != 1 {
				t.Error("the control shows nothing")
			}
		})
	}
}

func TestARevertClosesItsDrift(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	d := drifted(t, s, "w1")
	c := propose(t, s, anna, settling(t, s, d, KindRevert))
	approve(t, s, bea, c)
	adm, err := s.Admit(t.Context(), apply(get(t, s, "w1"), anna), sending(c, asksFor(1)))
	if err != nil {
		t.Fatal(err)
	}
	if got := drift(t, s, d.ID); got.State != DriftOpen {
		t.Errorf("it is %s before the machine was read back", got.State)
	}
	err = s.CloseAttempt(context.WithoutCancel(t.Context()), Closing{AttemptID: adm.Attempt.ID, Owner: adm.Attempt.Owner, To: StateCompleted, ReadActive: c.Digest, ReadPersistent: c.Digest})
	if err != nil {
		t.Fatal(err)
	}
	if got := drift(t, s, d.ID); got.State != DriftReverted || got.ChangeID != c.ID || got.FoundActive != digestC || got.ClosedActive != digestB {
		t.Errorf("the drift is %+v", got)
	}
	if n := w.count(t, "select count(*) from audit.entries where kind = 'system' and method = 'drift.closed'"); n != 1 {
		t.Errorf("%d closing entries", n)
	}
	if _, _, err := s.AppliedCopy(t.Context(), d.MachineID, digestB); err != nil {
		t.Errorf("no copy of what was brought back: %v", err)
	}
}

func TestADriftsRowRefusesOtherSteps(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	d := drifted(t, s, "w1")
	for guard, sql := range map[string]string{
		"drifts_adopted_by_a_change":  "update control.drifts set state = 'adopted', change_id = $2, closed_at = now(), closed_entry_id = entry_id where id = $1",
		"drifts_reverted_by_a_change": "update control.drifts set state = 'reverted', change_id = $2, closed_at = now(), closed_entry_id = entry_id where id = $1",
		"drifts_returned_by_itself":   "update control.drifts set state = 'returned', closed_at = now() + $2 * interval '0', closed_entry_id = entry_id where id = $1",
		"drifts_immutable":            "update control.drifts set since = now() + $2 * interval '0' where id = $1",
	} {
		c := propose(t, s, anna, settling(t, s, d, KindAdopt))
		args := []any{uuid.UUID(d.ID), any(uuid.UUID(c.ID))}
		if guard == "drifts_returned_by_itself" || guard == "drifts_immutable" {
			args[1] = 1
		}
		_, err := w.root.Exec(t.Context(), sql, args...)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.ConstraintName != guard {
			t.Errorf("%s: got %v", guard, err)
		}
		if _, err := s.Cancel(t.Context(), c.ID, "again", by(anna, "changes.cancel")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.root.Exec(t.Context(), "delete from control.drifts"); err == nil {
		t.Error("a drift was deleted")
	}
}
