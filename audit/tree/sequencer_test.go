package tree

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/tlog"
)

// wholeSQL is how many rows of the book have not exactly one place with their leaf, plus gaps in the order.
const wholeSQL = `select
	(select count(*) from (select id, recorded_at, leaf, 'entry' as source from audit.entries union all select id, recorded_at, leaf, 'outcome' from audit.outcomes) r
		where (select count(*) from audit.leaves l where l.id = r.id and l.leaf = r.leaf and l.recorded_at = r.recorded_at and l.source = r.source) <> 1)
	+ (select count(*) from (select tree, count(*) as n, max(index) as last from audit.leaves group by tree) t where t.n <> t.last + 1)
	+ (select count(*) from audit.unsequenced)`

// wantWhole demands that every row has its one place and that none waits.
func wantWhole(t testing.TB, db database) {
	t.Helper()
	if n := count(t, db, wholeSQL); n != 0 {
		t.Errorf("%d rows are lost, there twice, or wait", n)
	}
}

// places collects what a Publisher is called with.
type places struct {
	mu   sync.Mutex
	got  []Stored
	err  error
	seen int // calls
}

func (p *places) publisher(name string) Publisher {
	return Publisher{Name: name, Publish: func(_ context.Context, s Stored) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.seen++
		if p.err == nil {
			p.got = append(p.got, s)
		}
		return p.err
	}}
}

func (p *places) sizes() []int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []int64
	for _, s := range p.got {
		out = append(out, s.Size)
	}
	return out
}

func TestRowsGetPlacesAndTheHeadIsSigned(t *testing.T) {
	db := newDatabase(t)
	signer, folder := newSigner(1), &places{}
	cfg := config(t, db, signer)
	cfg.Publish = []Publisher{folder.publisher("folder")}
	q, stop := running(t, cfg)
	r := write(t, db, 2)
	covered := func(size int64) func() bool { return func() bool { return q.Status().Checkpoint.Size == size } }
	eventually(t, "a checkpoint of three leaves", covered(3))
	wantWhole(t, db)

	p, err := Prove(t.Context(), db.auditor, r.ID)
	if err != nil {
		t.Fatal(err)
	}
	proven, err := p.Open(signer.verifiers(t))
	if err != nil || proven.Entry.ID != r.ID || proven.Leaf != tlog.Hash(r.Leaf) || len(proven.Outcomes) != 2 || !proven.RecordedAt.Equal(r.RecordedAt) {
		t.Errorf("%v, %+v", err, proven)
	}

	// The key is rotated: older proofs go on to hold, and the next checkpoint is under the new version.
	signer.set(signer.rotate)
	fill(t, db, 300)
	eventually(t, "a checkpoint of 303 leaves", covered(303))
	if err := p.Check(signer.verifiers(t)); err != nil {
		t.Error(err)
	}
	onlyNew := &localSigner{keys: signer.keys[1:]}
	if err := p.Check(onlyNew.verifiers(t)); !errors.Is(err, ErrKey) {
		t.Errorf("%v, want ErrKey", err)
	}
	last, err := Latest(t.Context(), db.auditor, 1)
	if err != nil {
		t.Fatal(err)
	}
	newest, err := OpenCheckpoint(last.Note, onlyNew.verifiers(t))
	if err != nil || newest.Installation != installation || newest.Epoch != firstEpoch || newest.Size != 303 {
		t.Errorf("%v, %+v", err, newest)
	}
	proof, err := Consistency(t.Context(), db.auditor, 1, proven.Checkpoint.Size, newest.Size)
	if err != nil || CheckConsistency(proven.Checkpoint, newest, proof) != nil {
		t.Errorf("%v, %v", err, CheckConsistency(proven.Checkpoint, newest, proof))
	}

	eventually(t, "it is published", func() bool { return slices.Contains(folder.sizes(), 303) })
	all, err := Checkpoints(t.Context(), db.auditor, 1, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var stored []int64
	for _, s := range all {
		stored = append(stored, s.Size)
	}
	if got := folder.sizes(); !slices.Equal(got, stored) || !slices.IsSorted(got) {
		t.Errorf("published %v, stored %v", got, stored)
	}
	s := q.Status()
	if !s.Holder || s.Size != 303 || s.Refused != "" || len(s.Errors) != 0 || s.Tree != 1 || s.Origin != Origin(installation, firstEpoch) {
		t.Errorf("%+v", s)
	}
	stop()
	if q.Status().Holder {
		t.Error("it still says that it has the lock")
	}
}

func TestALateCommitIsSequencedLater(t *testing.T) {
	db := newDatabase(t)
	s := held(t, config(t, db, newSigner(1)))
	slow, err := db.owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Rollback(context.Background())
	if _, err := slow.Exec(t.Context(), fillSQL, 3); err != nil {
		t.Fatal(err)
	}
	// Another database of the server writes for long, too.
	long, err := newDatabase(t).owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer long.Rollback(context.Background())
	if _, err := long.Exec(t.Context(), fillSQL, 1); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		fill(t, db, 5)
		drain(t, s)
	}
	if n := count(t, db, "select count(*) from audit.leaves"); n != 15 {
		t.Fatalf("%d leaves while a transaction is open, want the 15 of the others", n)
	}
	if st := sign(t, s); st.Checkpoint.Size != 15 {
		t.Errorf("%+v", st)
	}
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	drain(t, s)
	wantWhole(t, db)
	// The order of the tree is the order of being seen.
	if n := count(t, db, "select count(*) from audit.leaves where index >= 15 and recorded_at < (select min(recorded_at) from audit.leaves where index < 15)"); n != 3 {
		t.Errorf("%d of the late rows stand at the end", n)
	}
	if st := sign(t, s); st.Checkpoint.Size != 18 || st.Refused != "" {
		t.Errorf("%+v", st)
	}
}

// Between looks at the whole queue only its end is looked at: what comes late waits for the next of them.
func TestALookAtTheWholeQueueFindsWhatComesLate(t *testing.T) {
	db := newDatabase(t)
	s := held(t, config(t, db, newSigner(1)))
	fill(t, db, 3)
	drain(t, s)
	floor, later := time.Now().Add(time.Hour), time.Now().Add(time.Hour)
	fill(t, db, 2)
	s.floor, s.nextLook = &floor, later
	if _, err := s.sequence(t.Context()); err != nil || s.edge.size != 3 {
		t.Errorf("%v, %d leaves: rows below the floor were looked at", err, s.edge.size)
	}
	s.nextLook = time.Time{}
	if _, err := s.sequence(t.Context()); err != nil || s.edge.size != 5 {
		t.Errorf("%v, %d leaves, want 5", err, s.edge.size)
	}
	if !s.floor.Before(floor) || s.nextLook.IsZero() {
		t.Errorf("floor %v, next look %v", s.floor, s.nextLook)
	}
	wantWhole(t, db)
}

// The lock keeps replicas from getting in each other's way; the constraints keep the tree whole without it.
func TestTwoSequencers(t *testing.T) {
	for _, c := range []struct {
		name    string
		sameKey bool
		drop    string // what is taken away
		doubled int    // places given twice
	}{
		{"the lock lets one work", true, "", 0},
		{"control: without the lock the constraints refuse the second", false, "", 0},
		{"control: without lock and constraints places are given twice", false, "alter table audit.leaves drop constraint leaves_pk", 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := newDatabase(t)
			if c.drop != "" {
				change(t, db, c.drop)
			}
			cfg := config(t, db, newSigner(1))
			first := held(t, cfg)
			if c.sameKey {
				q, err := New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				if ok, err := q.tryLock(t.Context(), connectOne(t, cfg)); ok || err != nil {
					t.Fatalf("a second one has the lock: %v", err)
				}
				return
			}
			cfg.lock = sequencerLock + 1
			second := held(t, cfg)
			fill(t, db, 4)
			drain(t, first)
			fill(t, db, 4)
			_, err := second.sequence(t.Context()) // it believes that the tree is empty
			if c.drop == "" {
				if err == nil || !strings.Contains(err.Error(), "leaves_pk") {
					t.Fatalf("%v, want it refused by leaves_pk", err)
				}
				if err := second.load(t.Context()); err != nil {
					t.Fatal(err)
				}
				drain(t, second)
				wantWhole(t, db)
			} else if err != nil {
				t.Fatal(err)
			}
			if n := count(t, db, "select count(*) - count(distinct index) from audit.leaves"); n != c.doubled {
				t.Errorf("%d places were given twice, want %d", n, c.doubled)
			}
		})
	}
}

func connectOne(t testing.TB, cfg Config) *pgx.Conn {
	t.Helper()
	conn, err := cfg.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func TestReplicasTakeOverFromEachOther(t *testing.T) {
	db := newDatabase(t)
	cfg := config(t, db, newSigner(1))
	type replica struct {
		q    *Sequencer
		stop func()
	}
	var replicas []replica
	for range 3 {
		q, stop := running(t, cfg)
		replicas = append(replicas, replica{q, stop})
	}
	for len(replicas) > 0 {
		holder := -1
		eventually(t, "one holds the lock", func() bool {
			holder = slices.IndexFunc(replicas, func(r replica) bool { return r.q.Status().Holder })
			return holder >= 0
		})
		fill(t, db, 300)
		// Every replica knows how far the book is, whoever works.
		for _, r := range replicas {
			eventually(t, "all rows have a place and are covered", func() bool {
				s := r.q.Status()
				return s.Waiting == 0 && s.Size == int64(300*(4-len(replicas))) && s.Checkpoint.Size == s.Size
			})
			if len(replicas) > 1 && r.q != replicas[holder].q && r.q.Status().Holder {
				t.Error("two hold the lock")
			}
		}
		wantWhole(t, db)
		replicas[holder].stop()
		replicas = slices.Delete(replicas, holder, holder+1)
	}
}

// Any login may take an advisory lock. One that is no gateway's holds nobody up.
func TestALoginThatIsNoGatewaysHoldsUpNobody(t *testing.T) {
	db := newDatabase(t)
	foreign, ours := db.auditor, db.gateway
	for _, pool := range []*pgxpool.Pool{foreign, ours} {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "select pg_advisory_lock_shared($1)", sequencerLock); err != nil {
			t.Fatal(err)
		}
		q, stop := running(t, config(t, db, newSigner(1)))
		fill(t, db, 10)
		if pool == foreign {
			eventually(t, "the rows have places", func() bool { return q.Status().Checkpoint.Size == 10 })
			wantWhole(t, db)
		} else {
			// Control: for a gateway's own session it waits.
			eventually(t, "it looks on", func() bool { return q.Status().Waiting == 10 })
			if q.Status().Holder {
				t.Error("it works beside a gateway that has the lock")
			}
		}
		stop()
		if _, err := conn.Exec(t.Context(), "select pg_advisory_unlock_shared($1)", sequencerLock); err != nil {
			t.Fatal(err)
		}
		conn.Release()
	}
}

func TestABrokenConnectionIsReplaced(t *testing.T) {
	db := newDatabase(t)
	q, _ := running(t, config(t, db, newSigner(1)))
	for round := range 3 {
		fill(t, db, 10)
		eventually(t, "the rows have places", func() bool { return q.Status().Checkpoint.Size == int64(10*(round+1)) })
		change(t, db, "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())")
	}
	wantWhole(t, db)
}

func TestABadRowKeepsNoOtherFromItsPlace(t *testing.T) {
	placed := "insert into audit.unsequenced select recorded_at - interval '1 day', id, source, leaf from audit.leaves where index = 0"
	for _, c := range []struct{ name, bad string }{
		{"its id has a place", placed},
		{"it is in neither table", "insert into audit.unsequenced values (now() - interval '1 day', gen_random_uuid(), 'outcome', null)"},
		{"its leaf is no hash", "insert into audit.unsequenced values (now() - interval '1 day', gen_random_uuid(), 'entry', 'short')"},
		{"its time is before all times", "insert into audit.unsequenced values ('-infinity', gen_random_uuid(), 'entry', null)"},
		{"it waits twice", "insert into audit.unsequenced select now() - g * interval '1 day', (select id from audit.leaves where index = 0), 'entry', sha256('x') from generate_series(1, 2) g"},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := newDatabase(t)
			cfg := config(t, db, newSigner(1))
			cfg.Batch = 2
			q, _ := running(t, cfg)
			fill(t, db, 1)
			eventually(t, "the first has a place", func() bool { return q.Status().Size == 1 })
			change(t, db, c.bad)
			bad := count(t, db, "select count(*) from audit.unsequenced where recorded_at < now() - interval '1 hour'")
			fill(t, db, 7)
			eventually(t, "the others have places", func() bool { return q.Status().Checkpoint.Size == 8 })
			eventually(t, "it says so", func() bool { return strings.Contains(q.Status().Errors[StepSequence], "no place") })
			if n := count(t, db, "select count(*) from audit.unsequenced"); n != bad || bad == 0 {
				t.Errorf("%d rows wait, want the %d bad ones", n, bad)
			}
		})
	}
}

func TestRowsWithoutALeafTakeTheBooks(t *testing.T) {
	db := newDatabase(t)
	s := held(t, config(t, db, newSigner(1)))
	write(t, db, 2)
	// As schema version 2 wrote them.
	change(t, db, "alter table audit.unsequenced disable trigger unsequenced_no_change; update audit.unsequenced set leaf = null")
	drain(t, s)
	wantWhole(t, db)
}

func TestTheEpochMoves(t *testing.T) {
	db := newDatabase(t)
	signer := newSigner(1)
	cfg := config(t, db, signer)
	s := held(t, cfg)
	r := write(t, db, 0)
	drain(t, s)
	write(t, db, 0) // it still waits when the epoch moves
	change(t, db, "update public.installation set epoch = $1", secondEpoch)
	drain(t, s)
	outcome := uuid.New()
	change(t, db, `with row as (insert into audit.outcomes (id, entry_id, kind, duration_us, bytes_out, record) values ($1, $2, 'answered', 0, 0, convert_to($3, 'UTF8')) returning recorded_at, id, leaf)
		insert into audit.unsequenced select recorded_at, id, 'outcome', leaf from row`, outcome, r.ID,
		`{"v":1,"id":"`+outcome.String()+`","entry_id":"`+r.ID.String()+`","kind":"answered"}`)
	drain(t, s)
	// The last leaves of the first tree are signed although the book goes on in the second.
	sign(t, s)
	st := sign(t, s)
	if st.Tree != 2 || st.Epoch != secondEpoch || st.Size != 2 || st.Checkpoint.Size != 2 || len(s.older) != 0 {
		t.Errorf("%+v", st)
	}
	first, err := Latest(t.Context(), db.auditor, 1)
	if err != nil || first.Size != 1 || first.Epoch != firstEpoch {
		t.Errorf("%v, %+v", err, first)
	}
	wantWhole(t, db)
	trees, err := Trees(t.Context(), db.auditor)
	if err != nil || len(trees) != 2 || trees[0].Size != 1 || trees[1].Size != 2 {
		t.Errorf("%v, %+v", err, trees)
	}
	// A proof over both.
	p, err := Prove(t.Context(), db.auditor, r.ID)
	if err != nil {
		t.Fatal(err)
	}
	proven, err := p.Open(signer.verifiers(t))
	if err != nil || len(proven.Checkpoints) != 2 || proven.Outcomes[0].Checkpoint.Epoch != secondEpoch {
		t.Errorf("%v, %+v", err, proven)
	}
	if err := CheckConsistency(proven.Checkpoints[0], proven.Checkpoints[1], nil); !errors.Is(err, ErrOtherTree) {
		t.Errorf("%v, want ErrOtherTree", err)
	}
}
