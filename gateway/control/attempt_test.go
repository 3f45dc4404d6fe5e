package control

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bronzeward/audit"
)

// The table in Go and the one in the database are the same.
func TestTheTransitionTableIsOne(t *testing.T) {
	w := newWorld(t)
	for _, from := range States() {
		for _, to := range States() {
			n := w.count(t, "select control.attempt_may_become($1, $2)::int", string(from), string(to))
			if (n == 1) != from.MayBecome(to) {
				t.Errorf("%s to %s: the database says %d, Go says %t", from, to, n, from.MayBecome(to))
			}
		}
		if !from.Held() && from.MayBecome(StateOpen) {
			t.Errorf("%s is not final", from)
		}
	}
}

// Whatever the code says, a row takes no step outside the table, and keeps what it was opened with.
func TestTheRowItselfRefusesOtherSteps(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	a := open(t, s, "w1", anna)
	for _, sql := range []string{
		"update control.attempts set state = 'accounted', closed_at = clock_timestamp(), landed = true, reason = 'x'",
		"update control.attempts set state = 'completed', closed_at = clock_timestamp()",
		"update control.attempts set state = 'completed', closed_at = clock_timestamp(), read_active = digest, read_persistent = 'other'",
		"update control.attempts set digest = 'x'",
		"update control.attempts set credential_version = 7",
		"update control.attempts set lease_until = lease_until - interval '1 second'",
		"delete from control.attempts",
	} {
		if _, err := w.root.Exec(t.Context(), sql); err == nil {
			t.Errorf("taken: %s", sql)
		}
	}
	if got, err := s.GetAttempt(t.Context(), a.ID); err != nil || got.State != StateOpen {
		t.Errorf("the attempt is %s, %v", got.State, err)
	}
}

// An attempt keeps which version of the Talos credential it was sent with, in every way it is
// read; null is of files, and no other number is a version.
func TestAnAttemptKeepsTheVersionOfItsCredential(t *testing.T) {
	for _, row := range []struct {
		name    string
		version int64
		rows    int // that say so
		err     error
	}{
		{"of OpenBao", 12, 1, nil},
		{"of files", 0, 1, nil},
		{"none that there can be", -1, 0, ErrInvalid},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			s := w.house(t, 1)
			adm, err := s.Admit(t.Context(), apply(get(t, s, "w1"), anna), func(l Locked) Judgement {
				j := allow(l)
				j.Attempt.CredentialVersion = row.version
				return j
			})
			wantErr(t, err, row.err)
			if n := w.count(t, "select count(*) from control.attempts where credential_version is not distinct from nullif($1::bigint, 0)", row.version); n != row.rows {
				t.Errorf("%d rows say %d", n, row.version)
			}
			if row.err != nil {
				return
			}
			one, err := s.GetAttempt(t.Context(), adm.Attempt.ID)
			if err != nil {
				t.Fatal(err)
			}
			list, err := s.ListAttempts(t.Context(), AttemptFilter{Held: true})
			if err != nil || len(list) != 1 {
				t.Fatalf("%d attempts, %v", len(list), err)
			}
			for _, a := range []*Attempt{adm.Attempt, &one, &list[0]} {
				if a.CredentialVersion != row.version {
					t.Errorf("version %d, want %d", a.CredentialVersion, row.version)
				}
			}
			// The owner's own hand: by constraint on the way in, by trigger afterwards.
			for _, sql := range []string{"update control.attempts set credential_version = 0", "update control.attempts set credential_version = coalesce(credential_version, 0) + 1"} {
				if _, err := w.root.Exec(t.Context(), sql); err == nil {
					t.Errorf("taken: %s", sql)
				}
			}
		})
	}
	w := newWorld(t)
	open(t, w.house(t, 1), "w1", anna)
	w.exec(t, "alter table control.attempts disable trigger user")
	if _, err := w.root.Exec(t.Context(), "update control.attempts set credential_version = 0"); err == nil {
		t.Error("no constraint refuses a version that is none")
	}
	// Control: without the trigger the version can be rewritten.
	w.exec(t, "update control.attempts set credential_version = 3")
}

// A repeat of the very same request finds the first one, ended or not, and nobody else's.
func TestTheAttemptsOfOneRequestSinceAMoment(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 2)
	ok(t)(s.SetRolloutLimit(t.Context(), "lab", 2, by(admin, "clusters.limit")))
	end := func(a *Attempt) {
		if err := s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: StateNotSent}); err != nil {
			t.Fatal(err)
		}
	}
	old := open(t, s, "w1", anna)
	end(old)
	others := open(t, s, "w1", boris)
	end(others)
	last := open(t, s, "w1", anna)
	elsewhere := open(t, s, "w2", anna)
	if old.RequestKey != last.RequestKey || last.RequestKey == others.RequestKey || last.RequestKey == elsewhere.RequestKey {
		t.Fatal("the requests are not what this test needs")
	}
	for _, row := range []struct {
		name string
		key  string
		from time.Time
		want []*Attempt
	}{
		{"since the first one", last.RequestKey, old.OpenedAt, []*Attempt{last, old}},
		{"since just after the first one", last.RequestKey, old.OpenedAt.Add(time.Microsecond), []*Attempt{last}},
		{"since just after the last one", last.RequestKey, last.OpenedAt.Add(time.Microsecond), nil},
		{"another person's", others.RequestKey, old.OpenedAt, []*Attempt{others}},
		{"another machine's", elsewhere.RequestKey, old.OpenedAt, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := s.AttemptsSince(t.Context(), last.MachineID, row.key, row.from)
			if err != nil || len(got) != len(row.want) {
				t.Fatalf("%d attempts, %v, want %d", len(got), err, len(row.want))
			}
			for i, a := range row.want {
				state := StateNotSent
				if a == last {
					state = StateOpen
				}
				if got[i].ID != a.ID || got[i].EntryID != a.EntryID || got[i].State != state {
					t.Errorf("at %d: %+v, want %s, %s", i, got[i], a.ID, state)
				}
			}
		})
	}
}

func TestClosingIsTheOwnersOnly(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	a := open(t, s, "w1", anna)
	for name, change := range map[string]func(*Owner){
		"another instance":   func(o *Owner) { o.Instance = "gw-9" },
		"another generation": func(o *Owner) { o.Generation++ },
		"another epoch":      func(o *Owner) { o.Epoch = newID(t) },
	} {
		o := a.Owner
		change(&o)
		err := s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: o, To: StateNotSent, Outcomes: []audit.Outcome{{Kind: audit.OutcomeUnanswered}}})
		if !errors.Is(err, ErrNotOwner) {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.RenewLease(t.Context(), a.ID, o); !errors.Is(err, ErrNotOwner) {
			t.Errorf("%s renews: %v", name, err)
		}
	}
	if n := w.count(t, "select count(*) from audit.outcomes"); n != 0 {
		t.Errorf("%d outcomes were written by strangers", n)
	}
	if err := s.RenewLease(t.Context(), a.ID, a.Owner); err != nil {
		t.Errorf("the owner renews: %v", err)
	}
}

func TestCompletedNeedsTheReadBackAndKeepsTheDigests(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	a := open(t, s, "w1", anna)
	c := Closing{AttemptID: a.ID, Owner: a.Owner, To: StateCompleted, ReadActive: digestA, ReadPersistent: digestB}
	wantGuard(t, s.CloseAttempt(t.Context(), c), "attempts_completed_shown")
	c.ReadPersistent = digestA
	c.Outcomes = []audit.Outcome{{Kind: audit.OutcomeAnswered, Code: "OK"}, {Kind: audit.OutcomeReadBack, Digest: digestA}}
	serial := get(t, s, "w1").Serial
	if err := s.CloseAttempt(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	m := get(t, s, "w1")
	if m.ActiveDigest != digestA || m.PersistentDigest != digestA || m.Serial != serial+1 {
		t.Errorf("after completion: %+v", m)
	}
	if n := w.count(t, "select count(*) from audit.outcomes where entry_id = $1 and attempt_id = $2", a.EntryID, a.ID); n != 3 {
		t.Errorf("%d outcomes, want answer, read-back and state", n)
	}
}

func TestADeadOwnersAttemptIsListedAndMarked(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	a := open(t, s, "w1", anna)
	other := w.store(t, "gw-2", nil)
	wantErr(t, other.MarkUnresolved(t.Context(), a.ID, "gone"), ErrNotOwner)
	w.age(t, a.ID, time.Minute)
	dead, err := other.DeadAttempts(t.Context())
	if err != nil || len(dead) != 1 || dead[0].ID != a.ID {
		t.Fatalf("dead attempts: %v, %v", dead, err)
	}
	if err := other.MarkUnresolved(t.Context(), a.ID, "gone"); err != nil {
		t.Fatal(err)
	}
	// The owner that was only paused finds that it is not its any more.
	wantErr(t, s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: StateNotSent}), ErrNotOwner)
	_, err = s.Admit(t.Context(), apply(get(t, s, "w1"), boris), allow)
	wantErr(t, err, ErrBusy)
	wantErr(t, other.ResolveAttempt(t.Context(), a.ID, digestB, digestB), ErrContradicted)
	if err := other.ResolveAttempt(t.Context(), a.ID, digestA, digestA); err != nil {
		t.Fatal(err)
	}
	open(t, s, "w1", boris)
}

// What a stale owner would say, its row refuses too, whatever forgot to ask whose it is. Control:
// without the trigger, what nobody knows becomes what was never sent.
func TestTheRowRefusesWhatAStaleOwnerWouldSay(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	a := open(t, s, "w1", anna)
	w.age(t, a.ID, time.Minute)
	if err := w.store(t, "gw-2", nil).MarkUnresolved(t.Context(), a.ID, "gone"); err != nil {
		t.Fatal(err)
	}
	const says = "update control.attempts set state = 'not_sent', closed_at = clock_timestamp(), closed_by = instance"
	if _, err := s.pool.Exec(t.Context(), says); err == nil {
		t.Fatal("an unresolved attempt became one that was never sent")
	}
	if _, err := w.root.Exec(t.Context(), "drop trigger attempts_step on control.attempts"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(t.Context(), says); err != nil {
		t.Fatalf("the trigger is not what refuses: %v", err)
	}
	open(t, s, "w1", boris) // and the machine takes another apply, beside one that may still land
}

// Evidence that shows what was there before as well says nothing until the floor has passed.
func TestAnAttemptThatChangesNothingIsNotResolvedEarly(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	adm, err := s.Admit(t.Context(), apply(get(t, s, "w1"), anna), func(l Locked) Judgement {
		j := allow(l)
		j.Attempt.Base, j.Attempt.Persistent = digestA, digestA
		return j
	})
	if err != nil {
		t.Fatal(err)
	}
	a := adm.Attempt
	if err := s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: StateUnresolved, Reason: "no answer"}); err != nil {
		t.Fatal(err)
	}
	wantErr(t, s.ResolveAttempt(t.Context(), a.ID, digestA, digestA), ErrTooEarly)
	w.age(t, a.ID, time.Hour)
	if err := s.ResolveAttempt(t.Context(), a.ID, digestA, digestA); err != nil {
		t.Error(err)
	}
}

func TestAccounting(t *testing.T) {
	rows := []struct {
		name     string
		active   string
		disk     string
		landed   bool
		want     State
		mustFail error
	}{
		{"landed, and it shows", digestA, digestA, true, StateCompleted, nil},
		{"not landed, but it shows", digestA, digestA, false, "", ErrContradicted},
		{"landed, but nothing moved", digestB, digestB, true, StateFailed, nil},
		{"not landed, and nothing moved", digestB, digestB, false, StateAccounted, nil},
		{"landed, and something else is there", digestC, digestC, true, StateAccounted, nil},
		{"half of it", digestA, digestB, true, StateAccounted, nil},
	}
	w := newWorld(t)
	s := w.house(t, len(rows))
	ok(t)(s.SetRolloutLimit(t.Context(), "lab", 100, by(admin, "clusters.limit")))
	for i, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			name := fmt.Sprintf("w%d", i+1)
			a := open(t, s, name, anna)
			if err := s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: StateUnresolved, Reason: "no answer"}); err != nil {
				t.Fatal(err)
			}
			o := Observation{Began: time.Now(), Identity: worker(i + 1), Active: row.active, Persistent: row.disk}
			ok(t)(s.RecordObservation(t.Context(), name, o, by(admin, "machines.observe")))
			acc := Accounting{AttemptID: a.ID, Landed: row.landed, Reason: "looked at the console"}
			account := func() error {
				_, err := s.Account(t.Context(), acc, by(admin, "attempts.account"))
				return err
			}
			wantErr(t, account(), ErrTooEarly)
			w.age(t, a.ID, time.Hour)
			w.exec(t, "update control.observations set began_at = began_at - interval '2 hours' where machine_id = $1", a.MachineID)
			wantErr(t, account(), ErrNoObservation)
			other := o
			other.Began, other.NodeID = time.Now(), "another"
			ok(t)(s.RecordObservation(t.Context(), name, other, by(admin, "machines.observe")))
			wantErr(t, account(), ErrNoObservation)
			o.Began = time.Now()
			ok(t)(s.RecordObservation(t.Context(), name, o, by(admin, "machines.observe")))
			err := account()
			if row.mustFail != nil {
				wantErr(t, err, row.mustFail)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.GetAttempt(t.Context(), a.ID)
			if err != nil || got.State != row.want || got.Landed == nil || *got.Landed != row.landed || got.ClosedBy != admin.Subject {
				t.Errorf("got %+v, %v; want %s", got, err, row.want)
			}
			if n := w.count(t, "select count(*) from audit.outcomes where attempt_id = $1 and kind = 'accounted' and state = $2", a.ID, string(row.want)); n != 1 {
				t.Errorf("%d outcomes say that it was accounted for", n)
			}
			wantErr(t, account(), ErrNotOwner)
		})
	}
}

// Every act in every state, in any order: the row is where the model says, and the machine
// is held exactly while the attempt may still land.
func TestAttemptsAsAStateMachine(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	rapid.Check(t, func(rt *rapid.T) {
		var (
			a      *Attempt
			state  State // empty without an attempt
			aged   bool  // lease and floor have passed
			serial = get(t, s, "w1").Serial
		)
		step := func(what string, err error, allowed bool, next State) {
			if (err == nil) != allowed {
				rt.Fatalf("%s in state %q (aged %t): %v", what, state, aged, err)
			}
			if err != nil {
				return
			}
			if !next.Held() || state == "" {
				serial++
			}
			state = next
		}
		closing := func(to State, read string) {
			if a == nil {
				return
			}
			err := s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: to, ReadActive: read, ReadPersistent: read, Reason: "because"})
			step("closing as "+string(to), err, state == StateOpen && state.MayBecome(to), to)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"open": func(*rapid.T) {
				// Nothing is known as applied, so that each attempt changes something.
				w.exec(t, "update control.machines set applied_active = '', applied_persistent = ''")
				adm, err := s.Admit(t.Context(), apply(get(t, s, "w1"), anna), func(l Locked) Judgement {
					l.InFlight = nil
					return allow(l)
				})
				free := state == "" || !state.Held()
				if free {
					state = ""
				}
				step("opening", err, free, StateOpen)
				if err == nil {
					a, aged = adm.Attempt, false
				}
			},
			"time passes": func(*rapid.T) {
				if a != nil && !aged {
					w.age(t, a.ID, time.Hour)
					aged = true
				}
			},
			"complete":  func(*rapid.T) { closing(StateCompleted, digestA) },
			"reject":    func(*rapid.T) { closing(StateRejected, "") },
			"not sent":  func(*rapid.T) { closing(StateNotSent, "") },
			"give up":   func(*rapid.T) { closing(StateUnresolved, "") },
			"bad close": func(*rapid.T) { closing(StateAccounted, "") },
			"renew": func(*rapid.T) {
				if a == nil {
					return
				}
				if err := s.RenewLease(t.Context(), a.ID, a.Owner); (err == nil) != (state == StateOpen) {
					rt.Fatalf("renewing in state %s: %v", state, err)
				}
				aged = aged && state != StateOpen
			},
			"mark": func(*rapid.T) {
				if a != nil {
					step("marking", s.MarkUnresolved(t.Context(), a.ID, "gone"), state == StateOpen && aged, StateUnresolved)
				}
			},
			"resolve": func(*rapid.T) {
				if a != nil {
					step("resolving", s.ResolveAttempt(t.Context(), a.ID, digestA, digestA), state == StateUnresolved, StateCompleted)
				}
			},
			"account": func(*rapid.T) {
				if a == nil {
					return
				}
				o := Observation{Began: time.Now(), Identity: worker(1), Active: digestC, Persistent: digestC}
				ok(t)(s.RecordObservation(t.Context(), "w1", o, by(admin, "machines.observe")))
				_, err := s.Account(t.Context(), Accounting{AttemptID: a.ID, Landed: true, Reason: "seen"}, by(admin, "attempts.account"))
				step("accounting", err, state == StateUnresolved && aged, StateAccounted)
			},
			"": func(*rapid.T) {
				if got := get(t, s, "w1").Serial; got != serial {
					rt.Fatalf("serial is %d, want %d", got, serial)
				}
				if a == nil {
					return
				}
				got, err := s.GetAttempt(t.Context(), a.ID)
				if err != nil || got.State != state {
					rt.Fatalf("the row is %s (%v), the model %s", got.State, err, state)
				}
				if held := w.count(t, "select count(*) from control.attempts where state in ('open', 'unresolved')"); (held == 1) != state.Held() {
					rt.Fatalf("%d held attempts in state %s", held, state)
				}
			},
		})
		// The next run begins with a free machine.
		if a != nil && state.Held() {
			w.exec(t, "update control.attempts set state = 'not_sent', closed_at = clock_timestamp() where id = $1", a.ID)
		}
	})
}

// Whoever observed under the attempt's digest key is not judged by what somebody else observed under another since.
func TestAccountingComparesWhatItsCallerSaw(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	a := open(t, s, "w1", anna)
	ok(t)(audit.Receipt{}, s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: StateUnresolved, Reason: "no answer"}))
	w.age(t, a.ID, time.Hour)
	observe := func(digest string) {
		o := Observation{Began: time.Now(), Identity: worker(1), Active: digest, Persistent: digest}
		ok(t)(s.RecordObservation(t.Context(), "w1", o, by(admin, "machines.observe")))
	}
	account := func(seen string) error {
		_, err := s.Account(t.Context(), Accounting{AttemptID: a.ID, Reason: "looked", Seen: seen}, by(admin, "attempts.account"))
		return err
	}
	observe(digestA)
	wantErr(t, account(digestA), ErrContradicted)
	observe(strings.Replace(digestA, ":k1:", ":k2:", 1))
	wantErr(t, account(digestA), ErrNoObservation)
	// Control: without the guard a digest that cannot be compared frees the machine.
	if err := account(""); err != nil {
		t.Error(err)
	}
}
