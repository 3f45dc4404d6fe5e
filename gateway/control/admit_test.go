package control

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bronzeward/audit"
	"bronzeward/policy"
)

func TestAdmitRecordsEntryAndAttemptTogether(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	m := get(t, s, "w1")
	adm, err := s.Admit(t.Context(), apply(m, anna), allow)
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.GetAttempt(t.Context(), adm.Attempt.ID)
	if err != nil {
		t.Fatal(err)
	}
	if a.State != StateOpen || a.EntryID != adm.Receipt.ID || a.Caller != anna || a.Identity != worker(1) || !s.Owns(&a) {
		t.Errorf("the attempt is not the one admitted: %+v", a)
	}
	if n := w.count(t, "select count(*) from audit.entries where id = $1 and attempt_id = $2", adm.Receipt.ID, a.ID); n != 1 {
		t.Errorf("%d entries name the attempt, want 1", n)
	}
	if got := get(t, s, "w1").Serial; got != m.Serial+1 {
		t.Errorf("serial is %d after opening, want %d", got, m.Serial+1)
	}
	if got := a.SendBy.Sub(a.OpenedAt); got != SendWithin {
		t.Errorf("send_by is %s after the decision, want %s", got, SendWithin)
	}
	if got, want := a.SettleAfter, a.LeaseUntil.Add(SendWithin+MinSettleFloor); !got.Equal(want) {
		t.Errorf("settle floor ends %s, want %s", got, want)
	}
}

// A denied decision is a row and nothing else; a judge who asks for another round leaves none.
func TestAdmitWritesWhatTheJudgeSays(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	m := get(t, s, "w1")
	before := w.count(t, "select count(*) from audit.entries")
	adm, err := s.Admit(t.Context(), apply(m, anna), func(l Locked) Judgement {
		j := allowOnly(l)
		j.Entry.Verdict = audit.Denied
		return j
	})
	if err != nil || adm.Attempt != nil {
		t.Fatalf("a denial is an admission without attempt: %+v, %v", adm, err)
	}
	_, err = s.Admit(t.Context(), apply(m, anna), func(l Locked) Judgement {
		j := allow(l)
		j.Retry = true
		return j
	})
	wantErr(t, err, ErrMoved)
	if n := w.count(t, "select count(*) from audit.entries") - before; n != 1 {
		t.Errorf("%d entries, want the denial's only", n)
	}
	if got := get(t, s, "w1").Serial; got != m.Serial {
		t.Errorf("serial moved to %d without an attempt", got)
	}
}

func TestAdmitRefusesWhatNoPolicyCanWaive(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 2)
	if _, _, err := s.AddMachine(t.Context(), NewMachine{Name: "cp", Cluster: "lab", Role: "controlplane", Addresses: addrs("10.9.0.1")}, by(admin, "machines.add")); err != nil {
		t.Fatal(err)
	}
	ok(t)(s.PinMachine(t.Context(), "cp", worker(9), false, by(admin, "machines.pin")))
	if _, _, err := s.AddMachine(t.Context(), NewMachine{Name: "fresh", Cluster: "lab", Addresses: addrs("10.9.0.2")}, by(admin, "machines.add")); err != nil {
		t.Fatal(err)
	}
	revoked(t)(s.RevokeIdentity(t.Context(), boris, "left", by(admin, "identities.revoke")))

	with := func(change func(*NewAttempt)) func(Locked) Judgement {
		return func(l Locked) Judgement {
			j := allow(l)
			change(j.Attempt)
			return j
		}
	}
	rows := []struct {
		name    string
		machine string
		who     policy.Person
		mode    string
		judge   func(Locked) Judgement
		guard   string
	}{
		{"a revoked caller", "w1", boris, "", allow, "caller_not_revoked"},
		{"a machine that is not pinned", "fresh", anna, "", allow, "attempts_expected_identity"},
		{"another node id", "w1", anna, "", with(func(a *NewAttempt) { a.Identity.NodeID = "swapped" }), "attempts_expected_identity"},
		{"an SMBIOS UUID nobody pinned", "w1", anna, "", with(func(a *NewAttempt) { a.Identity.SMBIOS = "x" }), "attempts_expected_identity"},
		{"a control plane", "cp", anna, "", allow, "attempts_live_type"},
		{"a live control plane", "w1", anna, "", with(func(a *NewAttempt) { a.LiveType = "controlplane" }), "attempts_live_type"},
		{"a machine in maintenance", "w1", anna, "", with(func(a *NewAttempt) { a.Stage = "maintenance" }), "attempts_stage"},
		{"a machine that goes down", "w1", anna, "", with(func(a *NewAttempt) { a.Stage = "shutting down" }), "attempts_stage"},
		{"a machine without a stage", "w1", anna, "", with(func(a *NewAttempt) { a.Stage = "" }), "attempts_stage"},
		{"another minor", "w1", anna, "", with(func(a *NewAttempt) { a.Minor = "1.12" }), "attempts_minor"},
		{"mode reboot", "w1", anna, "reboot", with(func(a *NewAttempt) { a.Mode = "reboot" }), "attempts_mode"},
		{"no digest", "w1", anna, "", with(func(a *NewAttempt) { a.Digest = "" }), "attempts_digests"},
		{"an attempt without an allow", "w1", anna, "", func(l Locked) Judgement {
			j := allow(l)
			j.Entry.Verdict = audit.Denied
			return j
		}, "attempt_needs_allow"},
	}
	before := w.count(t, "select count(*) from audit.entries")
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := apply(get(t, s, row.machine), row.who)
			if row.mode != "" {
				r.Mode = row.mode
			}
			_, err := s.Admit(t.Context(), r, row.judge)
			wantGuard(t, err, row.guard)
		})
	}
	t.Run("a law that is not live", func(t *testing.T) {
		_, err := s.Admit(t.Context(), apply(get(t, s, "w1"), anna), func(l Locked) Judgement {
			j := allow(l)
			j.Entry.PolicyRevision = revision2
			return j
		})
		wantErr(t, err, ErrMoved)
	})
	t.Run("evidence of another serial", func(t *testing.T) {
		r := apply(get(t, s, "w1"), anna)
		r.Serial--
		_, err := s.Admit(t.Context(), r, allow)
		wantErr(t, err, ErrMoved)
	})
	if n := w.count(t, "select count(*) from control.attempts"); n != 0 {
		t.Errorf("%d attempts, want none", n)
	}
	if n := w.count(t, "select count(*) from audit.entries"); n != before {
		t.Errorf("%d entries were left by rolled back decisions", n-before)
	}
}

// The same guards stand in the rows: with the Go ones out of the way, the database refuses.
func TestTheRowsRefuseWhatGoWouldHave(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	m := get(t, s, "w1")
	revoked(t)(s.RevokeIdentity(t.Context(), boris, "left", by(admin, "identities.revoke")))
	snap, err := s.Refresh(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	base := func() *Attempt {
		now := time.Now()
		return &Attempt{
			ID: newID(t), EntryID: newID(t), MachineID: m.ID, Cluster: "lab", Owner: s.owner(snap.Epoch), Caller: anna,
			Mode: "no-reboot", Digest: digestA, Base: digestB, Persistent: digestB, Identity: worker(1),
			OpenedAt: now, SendBy: now.Add(SendWithin), LeaseUntil: now.Add(time.Minute), TransportDeadline: now.Add(time.Minute),
			liveType: "worker", stage: "running", minor: "1.13",
		}
	}
	rows := []struct {
		guard  string
		change func(*Attempt)
	}{
		{"attempts_caller_not_revoked", func(a *Attempt) { a.Caller = boris }},
		{"attempts_expected_identity", func(a *Attempt) { a.Identity.NodeID = "swapped" }},
		{"attempts_epoch_current", func(a *Attempt) { a.Owner.Epoch = newID(t) }},
		{"attempts_mode", func(a *Attempt) { a.Mode = "auto" }},
		{"attempts_live_type", func(a *Attempt) { a.liveType = "controlplane" }},
		{"attempts_stage", func(a *Attempt) { a.stage = "maintenance" }},
		{"attempts_stage", func(a *Attempt) { a.stage = "upgrading" }},
		{"attempts_stage", func(a *Attempt) { a.stage = "Running" }},
		{"attempts_minor", func(a *Attempt) { a.minor = "1.14" }},
		{"attempts_send_by", func(a *Attempt) { a.SendBy = a.SendBy.Add(-time.Second) }},
	}
	for _, row := range rows {
		t.Run(row.guard, func(t *testing.T) {
			a := base()
			row.change(a)
			tx, err := s.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(t.Context())
			wantGuard(t, openAttempt(t.Context(), tx, a, MinSettleFloor), row.guard)
		})
	}
	t.Run("control: nothing changed", func(t *testing.T) {
		tx, err := s.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context())
		if err := openAttempt(t.Context(), tx, base(), MinSettleFloor); err != nil {
			t.Errorf("the untouched row is refused: %v", err)
		}
	})
}

func TestHeldMachine(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	first := open(t, s, "w1", anna)

	t.Run("another apply is busy and names the holder", func(t *testing.T) {
		r := apply(get(t, s, "w1"), boris)
		_, err := s.Admit(t.Context(), r, allow)
		var busy *BusyError
		if !errors.As(err, &busy) {
			t.Fatalf("got %v, want busy", err)
		}
		want := BusyError{Holder: first.ID, Machine: first.MachineID, State: StateOpen, Person: anna, Since: busy.Since, Scope: "machine"}
		if diff := cmp.Diff(want, *busy); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("another mutation is busy too", func(t *testing.T) {
		_, err := s.Admit(t.Context(), Request{MachineID: first.MachineID, Caller: anna}, allowOnly)
		wantErr(t, err, ErrBusy)
	})
	t.Run("the very same request gets the first one's id", func(t *testing.T) {
		var seen *Attempt
		_, err := s.Admit(t.Context(), apply(get(t, s, "w1"), anna), func(l Locked) Judgement {
			seen = l.InFlight
			return allow(l)
		})
		var same *InFlightError
		if !errors.As(err, &same) || same.AttemptID != first.ID {
			t.Fatalf("got %v, want the first attempt", err)
		}
		if seen == nil || seen.ID != first.ID {
			t.Errorf("the judge was not told of the first attempt")
		}
	})
	t.Run("the judge sees the hold", func(t *testing.T) {
		adm, err := s.Admit(t.Context(), apply(get(t, s, "w1"), boris), func(l Locked) Judgement {
			j := allowOnly(l)
			j.Entry.Verdict = audit.Denied
			return j
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []policy.Hold{{Kind: "open-attempt", ID: first.ID.String(), Holder: anna, Since: adm.Locked.Holds[0].Since, Scope: "machine", Reason: "it is under way"}}
		if diff := cmp.Diff(want, adm.Locked.Holds); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a re-pin has to wait", func(t *testing.T) {
		_, err := s.PinMachine(t.Context(), "w1", worker(7), true, by(admin, "machines.pin"))
		wantErr(t, err, ErrBusy)
	})
	t.Run("closed, it is free again", func(t *testing.T) {
		if err := s.CloseAttempt(t.Context(), Closing{AttemptID: first.ID, Owner: first.Owner, To: StateNotSent}); err != nil {
			t.Fatal(err)
		}
		open(t, s, "w1", boris)
	})
}

// A host whose clock is hours wrong decides the same: all times are the database's.
func TestAWrongHostClockChangesNothing(t *testing.T) {
	for _, wrong := range []time.Duration{-5 * time.Hour, 5 * time.Hour} {
		t.Run(wrong.String(), func(t *testing.T) {
			w := newWorld(t)
			w.house(t, 1)
			clock := func() time.Time { return time.Now().Round(0).Add(wrong) }
			s := w.store(t, "gw-wrong", func(c *Config) { c.Clock = clock })
			a := open(t, s, "w1", anna)
			if n := w.count(t, `select count(*) from control.attempts where abs(extract(epoch from opened_at - clock_timestamp())) < 60`); n != 1 {
				t.Error("the attempt's times are the host's")
			}
			if left := a.SendBefore.Sub(clock()); left <= 0 || left > SendWithin {
				t.Errorf("%s are left to send, want up to %s", left, SendWithin)
			}
			if dead, err := s.DeadAttempts(t.Context()); err != nil || len(dead) != 0 {
				t.Errorf("a living attempt counts as dead: %v, %v", dead, err)
			}
			wantErr(t, s.MarkUnresolved(t.Context(), a.ID, "too early"), ErrNotOwner)
			if off := time.Until(s.Snapshot().Now()).Abs(); off > time.Minute {
				t.Errorf("the database's clock is thought to be %s off", off)
			}
		})
	}
}

func TestARequestKeyNamesOneRequestOnly(t *testing.T) {
	m, other := newID(t), newID(t)
	seen := map[string]string{}
	for name, key := range map[string]string{
		"the request":     RequestKey(digestA, anna, m, "no-reboot"),
		"other bytes":     RequestKey(digestB, anna, m, "no-reboot"),
		"another caller":  RequestKey(digestA, boris, m, "no-reboot"),
		"another machine": RequestKey(digestA, anna, other, "no-reboot"),
		"another mode":    RequestKey(digestA, anna, m, "try"),
		"a moved border":  RequestKey(digestA, policy.Person{Issuer: anna.Issuer + "a", Subject: "nna"}, m, "no-reboot"),
	} {
		if twin, taken := seen[key]; taken {
			t.Errorf("%s and %s have one key", name, twin)
		}
		seen[key] = name
	}
	if again := RequestKey(digestA, anna, m, "no-reboot"); seen[again] != "the request" {
		t.Error("the very same request has two keys")
	}
}

// A caller whose name the database could not hold is refused by name, not as an outage.
func TestACallerWithANULIsInvalid(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	for _, subject := range []string{"a\x00b", "a\xffb", "a\nb"} {
		_, err := s.Admit(t.Context(), apply(get(t, s, "w1"), policy.Person{Issuer: "i", Subject: subject}), allow)
		wantErr(t, err, ErrInvalid)
	}
}

// The database killed within a decision leaves what was committed, and nothing else.
func TestAKilledDatabaseLeavesWholeDecisions(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 2)
	ok(t)(s.SetRolloutLimit(t.Context(), "lab", 2, by(admin, "clusters.limit")))
	first := open(t, s, "w1", anna)
	resume := paused(t, s, apply(get(t, s, "w2"), anna), allow)
	server := shared17.Server(t)
	server.StopHard()
	adm, err := resume()
	if adm.Attempt != nil {
		t.Error("an attempt was handed out by a dead database")
	}
	wantErr(t, err, ErrUnavailable)
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the store to find the database again", func() bool {
		_, err := s.Refresh(t.Context(), 0)
		return err == nil
	})
	w.root.Reset()
	held, err := s.ListAttempts(t.Context(), AttemptFilter{Held: true})
	if err != nil || len(held) != 1 || held[0].ID != first.ID {
		t.Errorf("held after the crash: %v, %v; want the first only", held, err)
	}
	if n := w.count(t, "select count(*) from audit.entries where attempt_id is not null"); n != 1 {
		t.Errorf("%d entries name an attempt, want one", n)
	}
	open(t, s, "w2", anna)
}
