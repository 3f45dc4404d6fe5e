package tree

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// fault is what becomes of the next message to the database.
type fault int32

const (
	none        fault = iota
	dropAnswer        // the database gets it, its answer does not come
	dropRequest       // the database does not get it
)

// wire is a connection that does what it is told once.
type wire struct {
	net.Conn
	fault *atomic.Int32
}

func (w wire) Write(b []byte) (int, error) {
	if w.fault.CompareAndSwap(int32(dropRequest), int32(none)) {
		w.Conn.Close()
		return 0, io.ErrClosedPipe
	}
	return w.Conn.Write(b)
}

func (w wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if w.fault.CompareAndSwap(int32(dropAnswer), int32(none)) {
		w.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func TestACommitWithoutAnswer(t *testing.T) {
	for _, c := range []struct {
		name     string
		fault    fault
		connects int32
		leaves   int // after the fault, before the next round
	}{
		{"control: no fault", none, 1, 600},
		{"committed, and the answer is lost", dropAnswer, 2, 600},
		{"the request is lost", dropRequest, 2, 300},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := newDatabase(t)
			var order, connects atomic.Int32
			cfg := config(t, db, newSigner(1))
			parsed, err := pgx.ParseConfig(db.server.Server(t).DSN(db.name, "test_gateway"))
			if err != nil {
				t.Fatal(err)
			}
			dial := parsed.DialFunc
			parsed.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dial(ctx, network, address)
				return wire{conn, &order}, err
			}
			found := -1
			cfg.Connect = func(ctx context.Context) (*pgx.Conn, error) {
				if connects.Add(1) == 2 {
					eventually(t, "the old session ended", func() bool { return count(t, db, locksSQL) == 0 })
					found = count(t, db, "select count(*) from audit.leaves")
				}
				return pgx.ConnectConfig(ctx, parsed)
			}
			rounds := 0
			cfg.Batch = 300
			cfg.pause = func(at string) {
				// What comes next is tiles and COMMIT, in one message: the first round prepared the statements.
				if at == "rows taken" {
					if rounds++; rounds == 2 {
						order.Store(int32(c.fault))
					}
				}
			}
			fill(t, db, 600)
			q, stop := running(t, cfg)
			eventually(t, "all rows are covered", func() bool { s := q.Status(); return s.Checkpoint.Size == 600 && len(s.Errors) == 0 })
			stop()
			wantWhole(t, db)
			if n := connects.Load(); n != c.connects {
				t.Errorf("%d connections, want %d", n, c.connects)
			}
			if c.connects > 1 && found != c.leaves {
				t.Errorf("the fault left %d leaves, want %d", found, c.leaves)
			}
		})
	}
}

// Writers commit and roll back as they like, two replicas sequence beside them: every committed row has one place.
func TestWritersAndReplicasSideBySide(t *testing.T) {
	db := newDatabase(t)
	cfg := config(t, db, newSigner(1))
	cfg.Batch = 7
	one, _ := running(t, cfg)
	two, _ := running(t, cfg)
	var committed atomic.Int64
	var writers sync.WaitGroup
	for w := range 6 {
		writers.Go(func() {
			for n := range 25 {
				tx, err := db.owner.Begin(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				for range 1 + (n+w)%3 {
					if _, err := tx.Exec(context.Background(), fillSQL, 1+n%4); err != nil {
						t.Error(err)
					}
				}
				if (n+w)%4 == 0 {
					err = tx.Rollback(context.Background())
				} else {
					err = tx.Commit(context.Background())
					committed.Add(int64((1 + (n+w)%3) * (1 + n%4)))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	eventually(t, "all have places", func() bool { return max(one.Status().Size, two.Status().Size) == committed.Load() })
	wantWhole(t, db)
}

func TestAStepThatHangsEnds(t *testing.T) {
	db := newDatabase(t)
	cfg := config(t, db, newSigner(1))
	cfg.StepTimeout = 500 * time.Millisecond
	q, _ := running(t, cfg)
	fill(t, db, 5)
	eventually(t, "they have places", func() bool { return q.Status().Size == 5 })
	// Somebody locks the table away, and the next round does not end by itself.
	tx, err := db.owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "lock table audit.leaves in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	fill(t, db, 5)
	eventually(t, "the step ends", func() bool { return len(q.Status().Errors) > 0 })
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it goes on", func() bool { s := q.Status(); return s.Size == 10 && s.Holder })
	wantWhole(t, db)
}
