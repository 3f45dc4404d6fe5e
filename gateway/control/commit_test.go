package control

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"bronzeward/audit"
)

// A COMMIT without an answer is unknown: what a new connection finds is told, and the error
// is never one that lets the caller send.
func TestAnUnansweredCommitIsUnknown(t *testing.T) {
	yes, no := true, false
	rows := []struct {
		name     string
		how      int32
		recorded *bool
		entries  int
	}{
		{"the reply is lost", cutReply, &yes, 1},
		{"the request is lost", cutRequest, &no, 0},
		{"the reply is lost and the database is away", cutAndClose, nil, 1},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			w.house(t, 1)
			p, dsn := newProxy(t)
			s := w.store(t, "gw-cut", func(c *Config) { c.URL = dsn + " dbname=" + w.name })
			r := apply(get(t, s, "w1"), anna)
			p.next.Store(row.how)
			adm, err := s.Admit(t.Context(), r, allow)
			var unknown *CommitUnknownError
			if !errors.As(err, &unknown) || !errors.Is(err, ErrUnavailable) {
				t.Fatalf("got %+v, %v; want an unknown commit", adm, err)
			}
			if adm.Attempt != nil {
				t.Error("an attempt was handed out")
			}
			if (unknown.Recorded == nil) != (row.recorded == nil) || unknown.Recorded != nil && *unknown.Recorded != *row.recorded {
				t.Errorf("recorded: %v, want %v", unknown.Recorded, row.recorded)
			}
			if n := w.count(t, "select count(*) from audit.entries where id = $1", unknown.EntryID); n != row.entries {
				t.Errorf("%d entries, want %d", n, row.entries)
			}
			if n := w.count(t, "select count(*) from control.attempts where id = $1 and state = 'open'", unknown.AttemptID); n != row.entries {
				t.Errorf("%d open attempts, want %d: entry and attempt are one", n, row.entries)
			}
		})
	}
}

// A closing whose COMMIT was not answered, and could not be looked up, may be brought again: it
// finds what it has written itself, and neither writes twice nor takes it for another owner's. By
// an outcome without an id of its own it cannot be told.
func TestAClosingIsBroughtAgain(t *testing.T) {
	for _, row := range []struct {
		name string
		id   uuid.UUID
		want error
	}{
		{"with an id", uuid.Must(uuid.NewV7()), nil},
		{"without one", uuid.Nil, ErrNotOwner},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			w.house(t, 1)
			p, dsn := newProxy(t)
			s := w.store(t, "gw-cut", func(c *Config) { c.URL = dsn + " dbname=" + w.name })
			a := open(t, s, "w1", anna)
			c := Closing{AttemptID: a.ID, Owner: a.Owner, To: StateNotSent, Reason: "no byte", Outcomes: []audit.Outcome{{ID: row.id, Kind: audit.OutcomeUnanswered}}}
			p.next.Store(cutAndClose)
			if err := s.CloseAttempt(t.Context(), c); !errors.Is(err, ErrUnavailable) {
				t.Fatalf("the first try gave %v", err)
			}
			if err := w.store(t, "gw-cut", nil).CloseAttempt(t.Context(), c); !errors.Is(err, row.want) {
				t.Errorf("the second try gave %v, want %v", err, row.want)
			}
			if n := w.count(t, "select count(*) from audit.outcomes where attempt_id = $1", a.ID); n != 2 {
				t.Errorf("%d outcomes, want the answer's and the state's", n)
			}
		})
	}
}

// An act sends nothing out of the house, so what was found is its answer.
func TestAnActsUnansweredCommitIsLookedUp(t *testing.T) {
	rows := []struct {
		name string
		how  int32
		want error
		rows int
	}{
		{"the reply is lost", cutReply, nil, 1},
		{"the request is lost", cutRequest, ErrUnavailable, 0},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			p, dsn := newProxy(t)
			s := w.store(t, "gw-cut", func(c *Config) { c.URL = dsn + " dbname=" + w.name })
			p.next.Store(row.how)
			_, err := s.RevokeIdentity(t.Context(), anna, "left", by(admin, "identities.revoke"))
			wantErr(t, err, row.want)
			if n := w.count(t, "select count(*) from control.identity_revocations"); n != row.rows {
				t.Errorf("%d revocations, want %d", n, row.rows)
			}
		})
	}
}

// Closing may be said again after an unknown end: the second finds the first's work done.
func TestAClosingsUnansweredCommitIsLookedUp(t *testing.T) {
	w := newWorld(t)
	w.house(t, 1)
	p, dsn := newProxy(t)
	s := w.store(t, "gw-cut", func(c *Config) { c.URL = dsn + " dbname=" + w.name })
	a := open(t, s, "w1", anna)
	c := Closing{AttemptID: a.ID, Owner: a.Owner, To: StateNotSent, Reason: "connection died"}
	p.next.Store(cutRequest)
	wantErr(t, s.CloseAttempt(t.Context(), c), ErrUnavailable)
	p.next.Store(cutReply)
	if err := s.CloseAttempt(t.Context(), c); err != nil {
		t.Fatalf("committed, answer lost: %v", err)
	}
	wantErr(t, s.CloseAttempt(t.Context(), c), ErrNotOwner)
	if n := w.count(t, "select count(*) from audit.outcomes"); n != 1 {
		t.Errorf("%d outcomes, want one", n)
	}
}
