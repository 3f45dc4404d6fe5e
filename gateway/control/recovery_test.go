package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/policy"
)

// rolledBack is what a comparison finds of a restored database, in the epoch that is in force.
func rolledBack(s *Store) Found {
	from, until := time.Now().Add(-time.Hour), time.Now()
	return Found{
		OfEpoch: s.Snapshot().Epoch, State: RecoveryRolledBack, Message: "this database is older", LostRows: 12, LostFrom: &from, LostUntil: &until,
		LostRevocations: 1, OldSize: 40, OldRoot: strings.Repeat("ab", 32),
	}
}

// enter has admin enter recovery.
func enter(t *testing.T, s *Store) Recovery {
	t.Helper()
	epoch := uuid.New()
	r, err := s.EnterRecovery(t.Context(), Entering{Epoch: epoch, Origin: "bronzeward/test/" + epoch.String(), Reason: "restored"}, by(admin, "recovery.enter"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lookAt records what the machine shows now.
func lookAt(t *testing.T, s *Store, name string) {
	t.Helper()
	m := get(t, s, name)
	ok(t)(s.RecordObservation(t.Context(), name, Observation{
		Began: time.Now(), NotedSerial: m.Serial, Identity: m.Identity, Version: "v1.13.6", Stage: "running", Type: "worker", Active: digestB, Persistent: digestB,
	}, by(anna, "machines.observe")))
}

func wantRecovery(t *testing.T, err error, code string) {
	t.Helper()
	var r *RecoveryError
	if !errors.As(err, &r) || r.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
}

// What was found stays marked, on every replica, until a recovery is entered, and no attempt opens
// meanwhile (I18). Entering ends the epoch: what was approved in it authorizes nothing (I6), what is
// on its way is unresolved, and the new tree begins with the entry. It ends when its list is empty.
func TestARecoveryFromEndToEnd(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 3)
	ok(t)(s.SetRolloutLimit(t.Context(), "lab", 10, by(admin, "clusters.limit")))
	other := w.store(t, "gw-2", nil)
	old := approved(t, s, "w1")
	under := open(t, s, "w2", boris)
	if err := s.MarkFound(t.Context(), rolledBack(s)); err != nil {
		t.Fatal(err)
	}
	for _, replica := range []*Store{s, other} {
		snap, err := replica.Refresh(t.Context(), 0)
		if err != nil || snap.Standing.State != RecoveryRolledBack || snap.Standing.Message != "this database is older" || snap.Standing.Since.IsZero() {
			t.Fatalf("%+v, %v", snap.Standing, err)
		}
		_, err = replica.Admit(t.Context(), apply(get(t, replica, "w3"), boris), allow)
		wantGuard(t, err, "attempts_not_in_recovery")
		_, err = replica.Admit(t.Context(), Request{MachineID: get(t, replica, "w3").ID, Caller: boris}, allowOnly)
		wantGuard(t, err, "attempts_not_in_recovery")
	}
	other2 := rolledBack(s)
	other2.Message = "another"
	if err := s.MarkFound(t.Context(), other2); err != nil {
		t.Fatal(err)
	}
	if f, _, err := s.FoundNow(t.Context()); err != nil || f.Message != "this database is older" || f.LostRows != 12 {
		t.Fatalf("what was found is overwritten: %+v, %v", f, err)
	}
	if conn := connect(t, w.url(t, asGateway)); true {
		if _, _, err := ReadEpoch(t.Context(), conn); !errors.Is(err, ErrDoubtful) {
			t.Fatalf("the book is sequenced: %v", err)
		}
	}

	r := enter(t, s)
	if r.State != RecoveryRolledBack || r.OldSize != 40 || r.ApprovalsVoided != 1 || r.ChangesEnded != 1 || r.LostRevocations != 1 {
		t.Errorf("%+v", r)
	}
	if c := wantState(t, s, old.ID, ChangeExpired); c.Reason != abandoned {
		t.Errorf("the change says %q", c.Reason)
	}
	if a, err := s.GetAttempt(t.Context(), under.ID); err != nil || a.State != StateUnresolved || a.Reason != abandoned {
		t.Errorf("the attempt is %+v, %v", a, err)
	}
	wantErr(t, s.CloseAttempt(t.Context(), Closing{AttemptID: under.ID, Owner: under.Owner, To: StateNotSent, Reason: "late"}), ErrNotOwner)
	if n := w.count(t, `select count(*) from audit.leaves l join audit.trees t using (tree) where t.epoch = $1 and l.index = 0 and l.id = $2`, r.Epoch, r.EntryID); n != 1 {
		t.Error("the new tree does not begin with the entry")
	}
	if n := w.count(t, "select count(*) from audit.unsequenced where id = $1", r.EntryID); n != 0 {
		t.Error("the entry waits for another place")
	}
	_, err := s.EnterRecovery(t.Context(), Entering{Epoch: uuid.New(), Origin: "x", Reason: "again"}, by(admin, "recovery.enter"))
	wantErr(t, err, ErrConflict)
	_, err = other.Admit(t.Context(), apply(get(t, other, "w3"), boris), allow)
	wantGuard(t, err, "attempts_not_in_recovery")

	now, err := s.RecoveryStatus(t.Context(), nil)
	if err != nil || !now.Standing.Since.Equal(now.Entered.EnteredAt) {
		t.Errorf("in recovery since %s, entered at %+v: %v", now.Standing.Since, now.Entered, err)
	}
	if !slices.ContainsFunc(now.Items, func(i RecoveryItem) bool {
		return i.Name == "check" && !i.Open && strings.Contains(i.Text, "freezes, retirements, machines") && i.Do != ""
	}) {
		t.Errorf("the list does not say what else is gone: %+v", now.Items)
	}
	_, err = s.ReleaseMachine(t.Context(), "w1", by(admin, "machines.release"))
	wantRecovery(t, err, "BW-RECOVERY-004")
	_, err = s.MayExit(t.Context(), Exiting{})
	wantRecovery(t, err, "BW-RECOVERY-005")
	for _, name := range []string{"w1", "w2", "w3"} {
		lookAt(t, s, name)
		ok(t)(s.ReleaseMachine(t.Context(), name, by(admin, "machines.release")))
	}
	_, err = s.ReleaseMachine(t.Context(), "w1", by(admin, "machines.release"))
	wantErr(t, err, ErrConflict)
	_, err = s.MayExit(t.Context(), Exiting{})
	wantRecovery(t, err, "BW-RECOVERY-005")
	for _, must := range []string{"1 of 1 lost revocation was", "1 attempt is unresolved"} {
		if !strings.Contains(err.Error(), must) {
			t.Errorf("it does not say %q: %v", must, err)
		}
	}
	w.age(t, under.ID, time.Hour)
	lookAt(t, s, "w2")
	ok(t)(s.Account(t.Context(), Accounting{AttemptID: under.ID, Reason: "looked"}, by(admin, "attempts.account")))
	deny := []policy.Person{boris}
	_, err = s.MayExit(t.Context(), Exiting{RevocationsSettled: true, Reason: "nobody left", Deny: deny})
	wantRecovery(t, err, "BW-RECOVERY-005")
	_, err = s.MayExit(t.Context(), Exiting{RevocationsSettled: true})
	wantErr(t, err, ErrInvalid)
	revoked(t)(s.RevokeIdentity(t.Context(), boris, "again", by(admin, "identities.revoke")))
	ok(t)(s.ExitRecovery(t.Context(), Exiting{Deny: deny}, by(admin, "recovery.exit")))
	_, err = s.ExitRecovery(t.Context(), Exiting{}, by(admin, "recovery.exit"))
	wantRecovery(t, err, "BW-RECOVERY-006")
	open(t, s, "w3", anna)
}

// Entering that the law refuses, or that fails at its last step, leaves nothing.
func TestEnteringIsWholeOrNothing(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	old := approved(t, s, "w1")
	before := s.Snapshot().Epoch
	act := by(admin, "recovery.enter")
	_, err := s.EnterRecovery(t.Context(), Entering{Epoch: before, Origin: "x", Reason: "the same epoch"}, act)
	if err == nil {
		t.Fatal("an epoch follows itself")
	}
	if snap, err := s.Refresh(t.Context(), 0); err != nil || snap.Epoch != before || snap.Standing.Stops() {
		t.Errorf("%+v, %v", snap, err)
	}
	wantState(t, s, old.ID, ChangeApproved)
}

// An OpenBao that is the newer one again takes its mark off; a rolled back database's stays.
func TestAnOlderOpenBaoMayBeBroughtBack(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	for _, v := range []int64{7, 5} {
		if err := s.RememberAnchor(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	if v, err := s.AnchorVersion(t.Context()); err != nil || v != 7 {
		t.Fatalf("version %d, %v", v, err)
	}
	if err := s.MarkFound(t.Context(), Found{OfEpoch: s.Snapshot().Epoch, State: RecoveryOlderOpenBao, Message: "OpenBao is older"}); err != nil {
		t.Fatal(err)
	}
	if now, err := s.RecoveryStatus(t.Context(), nil); err != nil || len(now.Items) != 1 || !strings.HasPrefix(now.Items[0].Do, "bring back the newest state of OpenBao") {
		t.Errorf("the list is %+v, %v", now.Items, err)
	}
	_, err := s.Admit(t.Context(), apply(get(t, s, "w1"), boris), allow)
	wantGuard(t, err, "attempts_not_in_recovery")
	was, anchor, err := s.FoundNow(t.Context())
	if err != nil || anchor != 7 {
		t.Fatalf("version %d, %v", anchor, err)
	}
	again := was
	again.Message = "OpenBao is older still"
	if err := errors.Join(s.MarkFound(t.Context(), again), s.UnmarkOlder(t.Context(), was)); err != nil {
		t.Fatal(err)
	}
	// What was found after the comparison that found nothing stays.
	if was, _, err = s.FoundNow(t.Context()); err != nil || was.Message != again.Message {
		t.Fatalf("%+v, %v", was, err)
	}
	if err := s.UnmarkOlder(t.Context(), was); err != nil {
		t.Fatal(err)
	}
	open(t, s, "w1", boris)
	if err := s.MarkFound(t.Context(), rolledBack(s)); err != nil {
		t.Fatal(err)
	}
	if err := s.UnmarkOlder(t.Context(), was); err != nil {
		t.Fatal(err)
	}
	if snap, err := s.Refresh(t.Context(), 0); err != nil || snap.Standing.State != RecoveryRolledBack {
		t.Errorf("%+v, %v", snap.Standing, err)
	}
}

// recoveryGuards are what the database itself refuses, and the trigger that does.
var recoveryGuards = []struct {
	name, sql, drop, guard string
	bad                    string // counts the bad end state
}{
	{
		"an attempt opens in recovery", `insert into control.attempts select (jsonb_populate_record(a, jsonb_build_object('id', gen_random_uuid(), 'entry_id', gen_random_uuid(),
			'state', 'open', 'epoch', (select epoch from control.installation), 'closed_at', null, 'closed_by', '', 'reason', ''))).* from control.attempts a limit 1`,
		"drop trigger attempts_not_in_recovery on control.attempts", "attempts_not_in_recovery", "select count(*) from control.attempts where state = 'open'",
	},
	{
		"an attempt opens under the old epoch", `insert into control.attempts select (jsonb_populate_record(a, jsonb_build_object('id', gen_random_uuid(), 'entry_id', gen_random_uuid(),
			'state', 'open', 'closed_at', null, 'closed_by', '', 'reason', ''))).* from control.attempts a limit 1`,
		"drop trigger attempts_open on control.attempts; drop trigger attempts_not_in_recovery on control.attempts", "", "select count(*) from control.attempts where state = 'open'",
	},
	{
		"an unobserved machine is released", `insert into control.recovery_releases (epoch, machine_id, observation_id, issuer, subject, entry_id, released_at)
			select i.epoch, o.machine_id, o.id, 'i', 's', gen_random_uuid(), now() from control.installation i, control.observations o limit 1`,
		"drop trigger recovery_releases_observed on control.recovery_releases", "recovery_releases_observed", "select count(*) from control.recovery_releases",
	},
	{
		"an epoch begins without a recovery", "update control.installation set epoch = gen_random_uuid(), epoch_at = now()",
		"drop trigger installation_epoch on control.installation", "installation_epoch_by_recovery",
		"select count(*) from control.installation i where not exists (select from control.recoveries r where r.epoch = i.epoch)",
	},
	{
		"a mark is taken off", "update control.recovery set mark = 'none', message = '', since = null",
		"drop trigger recovery_step on control.recovery", "recovery_latched", "select count(*) from control.recovery where mark = 'none'",
	},
}

// Each is refused to the gateway's own role; control: with the trigger dropped the bad end state is there.
func TestTheDatabaseKeepsARecovery(t *testing.T) {
	for _, row := range recoveryGuards {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			s := w.house(t, 1)
			a := open(t, s, "w1", boris)
			lookAt(t, s, "w1")
			w.exec(t, "update control.attempts set state = 'not_sent', closed_at = now(), closed_by = 'gw' where id = $1", a.ID)
			enter(t, s)
			if row.guard == "recovery_latched" {
				if _, err := s.Refresh(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				if err := s.MarkFound(t.Context(), rolledBack(s)); err != nil {
					t.Fatal(err)
				}
			}
			do := func() error {
				conn := connect(t, w.url(t, asGateway))
				defer conn.Close(context.WithoutCancel(t.Context()))
				_, err := conn.Exec(t.Context(), row.sql)
				return err
			}
			if row.guard != "" {
				wantGuard(t, sqlError("doing it", do()), row.guard)
			} else if err := do(); err == nil {
				t.Fatal("it is done")
			}
			if n := w.count(t, row.bad); n != 0 {
				t.Fatalf("%d bad rows with the guard there", n)
			}
			if err := pgx.BeginFunc(t.Context(), w.root, func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), row.drop); return err }); err != nil {
				t.Fatal(err)
			}
			if err := do(); err != nil {
				t.Fatalf("without the guard: %v", err)
			}
			if n := w.count(t, row.bad); n == 0 {
				t.Error("the guard guards nothing")
			}
		})
	}
}

// Control: with the counting function blind to epochs, an approval of the old epoch counts again.
func TestControlAnApprovalOfTheOldEpoch(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	c := approved(t, s, "w1")
	q := "select control.approvals_that_count($1, '{approvers}', false, 'https://id.test', 'boris')"
	if n := w.count(t, q, uuid.UUID(c.ID)); n != 1 {
		t.Fatalf("%d count before", n)
	}
	enter(t, s)
	if n := w.count(t, q, uuid.UUID(c.ID)); n != 0 {
		t.Errorf("%d count in the new epoch", n)
	}
	w.exec(t, `do $$ begin execute replace(pg_get_functiondef('control.approvals_that_count'::regproc),
		'and a.epoch = (select epoch from control.installation)', ''); end $$`)
	if n := w.count(t, q, uuid.UUID(c.ID)); n != 1 {
		t.Errorf("%d count with the guard removed", n)
	}
}
