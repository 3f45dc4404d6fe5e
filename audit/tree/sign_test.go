package tree

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// openTables lets the owner do what the triggers refuse.
const openTables = `alter table audit.leaves disable trigger all; alter table audit.tiles disable trigger all;
	alter table audit.checkpoints disable trigger all; `

// What was signed must not be taken back: a tree that does not begin with it is not signed, and goes on growing.
func TestATreeThatWasChangedIsNotSigned(t *testing.T) {
	rollBack := openTables + `delete from audit.leaves where index >= 250; delete from audit.tiles; `
	for _, c := range []struct {
		name string
		sql  string
		// restart is whether the change meets a sequencer that does not remember what it signed.
		restart bool
		refused string // empty: signed
	}{
		{"control: nothing was changed", "select 1", true, ""},
		{"control: nothing was changed under one that remembers", "select 1", false, ""},
		{"leaves were rolled back", rollBack, true, "rolled back"},
		{"leaves were rolled back under one that remembers", rollBack, false, "rolled back"},
		{"a leaf at the edge was changed", openTables + "update audit.leaves set leaf = sha256('x') where index = 299", true, "forked"},
		{"the root of a tile was changed", openTables + "update audit.tiles set root = sha256('x')", true, "forked"},
		{"the checkpoints are gone", openTables + "delete from audit.checkpoints", false, "is gone"},
		{
			"leaves and checkpoints were rolled back, and others came", rollBack + "delete from audit.checkpoints;" +
				"insert into audit.leaves select now(), g, gen_random_uuid(), 1, 'entry', sha256(g::text::bytea) from generate_series(250, 255) g;" +
				"insert into audit.tiles select 1, 0, 0, sha256('y')", false, "rolled back",
		},
		// Whoever restarts has nothing to hold it to but copies elsewhere: the anchor, the auditors' folder.
		{"control: the checkpoints are gone and nobody remembers", openTables + "delete from audit.checkpoints", true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := newDatabase(t)
			cfg := config(t, db, newSigner(1))
			s := held(t, cfg)
			fill(t, db, 300)
			drain(t, s)
			if st := sign(t, s); st.Checkpoint.Size != 300 {
				t.Fatalf("%+v", st)
			}
			change(t, db, c.sql)
			if c.restart {
				s.conn.Close(t.Context())
				s = held(t, cfg)
			} else if err := s.load(t.Context()); err != nil {
				t.Fatal(err)
			}
			st := sign(t, s) // what is there is held to the checkpoint before anything is added
			if (st.Refused != "") != (c.refused != "") || !strings.Contains(st.Refused, c.refused) {
				t.Fatalf("refused %q, want %q", st.Refused, c.refused)
			}
			before := s.edge.size
			fill(t, db, 20)
			drain(t, s)
			signed := s.q.signer.signer.(*localSigner).signed
			st = sign(t, s)
			if got := s.q.signer.signer.(*localSigner).signed > signed; got != (c.refused == "") {
				t.Errorf("signed: %v; %+v", got, st)
			}
			if st.Size != before+20 {
				t.Errorf("%d leaves after %d and 20 more", st.Size, before)
			}
		})
	}
}

// Without the hashes of its right edge a tree cannot grow: no later root could be computed.
func TestATreeThatLacksHashesStops(t *testing.T) {
	db := newDatabase(t)
	s := held(t, config(t, db, newSigner(1)))
	fill(t, db, 300)
	drain(t, s)
	s.conn.Close(t.Context())
	change(t, db, openTables+"delete from audit.tiles")
	fill(t, db, 1)
	q, _ := running(t, config(t, db, newSigner(1)))
	eventually(t, "it says what is missing", func() bool { return strings.Contains(q.Status().Errors[StepLoad], ErrMissing.Error()) })
	if n := count(t, db, "select count(*) from audit.leaves"); n != 300 {
		t.Errorf("%d leaves", n)
	}
}

func TestAForgedCheckpointIsNotSignedOn(t *testing.T) {
	db := newDatabase(t)
	cfg := config(t, db, newSigner(2))
	s := held(t, cfg)
	fill(t, db, 5)
	drain(t, s)
	sign(t, s)
	// Somebody with the database and without the key writes another history and another checkpoint of it.
	change(t, db, openTables+"delete from audit.leaves; delete from audit.checkpoints")
	s.conn.Close(t.Context())
	forger := config(t, db, &localSigner{keys: newSigner(3).keys[2:]})
	f := held(t, forger)
	fill(t, db, 9)
	drain(t, f)
	if st := sign(t, f); st.Checkpoint.Size != 9 {
		t.Fatalf("%+v", st)
	}
	f.conn.Close(t.Context())

	s = held(t, config(t, db, newSigner(2)))
	fill(t, db, 1)
	drain(t, s)
	if st := sign(t, s); !strings.Contains(st.Errors[StepSign], ErrKey.Error()) || st.Checkpoint.Size != 9 || st.Size != 10 {
		t.Errorf("%+v", st)
	}
	// Control: with the forger's key among the known ones it is signed on.
	s.conn.Close(t.Context())
	all := held(t, config(t, db, newSigner(3)))
	if st := sign(t, all); st.Checkpoint.Size != 10 {
		t.Errorf("%+v", st)
	}
}

func TestTheSignerMayBeAwayOrSlow(t *testing.T) {
	db := newDatabase(t)
	signer := newSigner(1)
	signer.err = errAway
	cfg := config(t, db, signer)
	var failed []Step
	cfg.Observe.Failed = func(s Step) { failed = append(failed, s) }
	q, stop := running(t, cfg)
	fill(t, db, 10)
	eventually(t, "it says that the signer is away", func() bool { return strings.Contains(q.Status().Errors[StepSign], errAway.Error()) })
	fill(t, db, 10)
	eventually(t, "sequencing goes on", func() bool { return q.Status().Size == 20 })
	if n := count(t, db, "select count(*) from audit.checkpoints"); n != 0 {
		t.Errorf("%d checkpoints without a signature", n)
	}
	signer.set(func() { signer.err = nil })
	eventually(t, "it signs", func() bool { s := q.Status(); return s.Checkpoint.Size == 20 && s.Errors[StepSign] == "" })

	// Signing hangs: rows get their places meanwhile, and no transaction is open.
	signer.set(func() { signer.hang, signer.onTheWay = make(chan struct{}), make(chan struct{}) })
	fill(t, db, 10)
	<-signer.onTheWay
	fill(t, db, 10)
	eventually(t, "sequencing goes on beside a signing", func() bool { return q.Status().Size == 40 })
	if n := count(t, db, "select count(*) from pg_stat_activity where datname = current_database() and usename = 'test_gateway' and state like 'idle in%'"); n != 0 {
		t.Errorf("%d transactions are open while the signer is asked", n)
	}
	if s := q.Status().Checkpoint.Size; s != 20 {
		t.Errorf("checkpoint of %d", s)
	}
	hang := signer.hang
	signer.set(func() { signer.hang = nil })
	close(hang)
	eventually(t, "it signs all", func() bool { return q.Status().Checkpoint.Size == 40 })
	stop()
	if !slices.Contains(failed, StepSign) {
		t.Errorf("failed: %v", failed)
	}
}

// badSigner signs something else, or says another version.
type badSigner struct {
	*localSigner
	message bool
	version int
}

func (s badSigner) Sign(ctx context.Context, message []byte) ([]byte, int, error) {
	if s.message {
		message = append([]byte("x"), message...)
	}
	signature, version, err := s.localSigner.Sign(ctx, message)
	return signature, version + s.version, err
}

func TestASignatureIsVerifiedBeforeItIsStored(t *testing.T) {
	for _, c := range []struct {
		name   string
		signer Signer
		stored int
	}{
		{"control", badSigner{newSigner(2), false, 0}, 1},
		{"of another message", badSigner{newSigner(2), true, 0}, 0},
		{"of another version", badSigner{newSigner(2), false, -1}, 0},
		{"of a version that is not there", badSigner{newSigner(2), false, 1}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := newDatabase(t)
			s := held(t, config(t, db, c.signer))
			fill(t, db, 3)
			drain(t, s)
			st := sign(t, s)
			if n := count(t, db, "select count(*) from audit.checkpoints"); n != c.stored || (st.Errors[StepSign] == "") != (c.stored == 1) {
				t.Errorf("%d stored, %+v", n, st)
			}
		})
	}
}

func TestAKeyMadeAnewUnderItsOldVersion(t *testing.T) {
	db := newDatabase(t)
	signer := newSigner(1)
	s := held(t, config(t, db, signer))
	fill(t, db, 3)
	drain(t, s)
	sign(t, s)
	signer.set(func() { signer.keys = newSigner(2).keys[1:] })
	fill(t, db, 3)
	drain(t, s)
	if st := sign(t, s); st.Checkpoint.Size != 3 || !strings.Contains(st.Errors[StepSign], "made anew") {
		t.Errorf("%+v", st)
	}
}

func TestAPublisherIsTriedAgainWithTheNewest(t *testing.T) {
	db := newDatabase(t)
	folder, anchor := &places{}, &places{err: errors.New("the folder is full")}
	cfg := config(t, db, newSigner(1))
	cfg.Publish = []Publisher{folder.publisher("folder"), anchor.publisher("anchor")}
	q, _ := running(t, cfg)
	for n := range 5 {
		fill(t, db, 1)
		eventually(t, "it is stored and in the folder", func() bool { return slices.Contains(folder.sizes(), int64(n+1)) })
	}
	eventually(t, "the other's trouble is told", func() bool {
		return strings.Contains(q.Status().Errors["publish anchor"], "the folder is full")
	})
	anchor.mu.Lock()
	anchor.err = nil
	anchor.mu.Unlock()
	eventually(t, "the newest comes there", func() bool { return slices.Contains(anchor.sizes(), 5) })
	eventually(t, "no trouble is left", func() bool { return len(q.Status().Errors) == 0 })
	if !slices.Equal(folder.sizes(), []int64{1, 2, 3, 4, 5}) || !slices.IsSorted(anchor.sizes()) {
		t.Errorf("folder %v, anchor %v", folder.sizes(), anchor.sizes())
	}
}

func TestCheckpointsHaveTheirTime(t *testing.T) {
	db := newDatabase(t)
	cfg := config(t, db, newSigner(1))
	cfg.CheckpointEvery = time.Hour
	q, _ := running(t, cfg)
	fill(t, db, 1)
	eventually(t, "the first is signed at once", func() bool { return q.Status().Checkpoint.Size == 1 })
	fill(t, db, 1)
	eventually(t, "the row has its place", func() bool { return q.Status().Size == 2 })
	fill(t, db, 1)
	eventually(t, "the next too", func() bool { return q.Status().Size == 3 })
	if n := count(t, db, "select count(*) from audit.checkpoints"); n != 1 {
		t.Errorf("%d checkpoints within CheckpointEvery", n)
	}
}

func TestConfigIsValidated(t *testing.T) {
	_, err := New(Config{Poll: -1, Publish: []Publisher{{}}})
	for _, part := range []string{"Connect is missing", "Epoch is missing", "Poll is negative", "publisher 0"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v lacks %q", err, part)
		}
	}
	db := newDatabase(t)
	q, _ := running(t, config(t, db, nil))
	fill(t, db, 1)
	eventually(t, "it sequences without a signer", func() bool { return q.Status().Size == 1 })
	if s := q.Status(); s.Errors[StepSign] == "" || s.Checkpoint.Size != 0 {
		t.Errorf("%+v", s)
	}
}
