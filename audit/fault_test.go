package audit

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func TestCommitWithoutAnswerIsLookedUp(t *testing.T) {
	for _, c := range []struct {
		name    string
		fault   fault
		durable bool // what the caller is told
		rows    int  // what is in the book
		lasted  uint64
	}{
		{"control: no fault", none, true, 1, 0},
		{"committed, and the answer is lost", dropAnswer, true, 1, 1},
		{"the request is lost", dropRequest, false, 0, 0},
		{"the request is lost, and the server's process does not end", swallow, false, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := newDatabase(t)
			w, pool := newWire(t, db)
			armed := false
			b := newBook(t, db, func(cfg *BookConfig) {
				cfg.Pool, cfg.Committers = pool, 1
				if c.fault == swallow {
					cfg.BatchTimeout, cfg.UnknownTimeout = soon, soon
				}
				cfg.Guard = func(ctx context.Context, tx pgx.Tx) (int64, error) {
					version, err := guard(ctx, tx)
					if armed { // what the transaction sends next is its rows and COMMIT
						w.order(c.fault)
					}
					return version, err
				}
			})
			// The first write prepares the statements, so that the next one's rows and COMMIT are one message.
			if _, err := b.Write(t.Context(), readEntry()); err != nil {
				t.Fatal(err)
			}
			armed = true
			e := readEntry()
			e.ID = newID(t)
			r, err := b.Write(t.Context(), e)
			if c.durable && (err != nil || r.Leaf != Leaf(e.Record(), r.RecordedAt)) {
				t.Errorf("%v, receipt %v, want it durable", err, r)
			}
			if !c.durable && !errors.Is(err, ErrUnavailable) {
				t.Errorf("%v, want ErrUnavailable", err)
			}
			if n := count(t, db.owner, "select count(*) from audit.entries where id = $1", e.ID); n != c.rows {
				t.Errorf("%d rows, want %d", n, c.rows)
			}
			wantUnknown := uint64(1)
			if c.fault == none {
				wantUnknown = 0
			}
			if s := b.Stats(); s.Unknown != wantUnknown || s.UnknownLasted != c.lasted {
				t.Errorf("%+v", s)
			}
			// The book goes on, over a new connection.
			armed = false
			w.setDown(true)
			w.setDown(false)
			if _, err := b.Write(t.Context(), readEntry()); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func TestDatabaseAwayRefusesEntriesAndKeepsOutcomes(t *testing.T) {
	db := newDatabase(t)
	w, pool := newWire(t, db)
	b := newBook(t, db, func(cfg *BookConfig) { cfg.Pool = pool })
	if _, err := b.Write(t.Context(), readEntry()); err != nil {
		t.Fatal(err)
	}
	w.setDown(true)
	if _, err := b.Write(t.Context(), readEntry()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	if err := b.WriteOutcome(t.Context(), Outcome{EntryID: uuid.New(), Kind: OutcomeAnswered}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	kept, bad := Outcome{EntryID: newID(t), Kind: OutcomeAnswered}, Outcome{EntryID: newID(t), Kind: "nonsense"}
	for _, o := range []Outcome{kept, bad} {
		if err := b.EnqueueOutcome(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the outcomes are tried in vain", func() bool { return b.Stats().Unavailable >= 4 })
	if n := count(t, db.owner, "select count(*) from audit.outcomes"); n != 0 || b.Stats().Parked != 2 {
		t.Errorf("%d outcomes, %+v", n, b.Stats())
	}
	w.setDown(false)
	eventually(t, "the outcomes are dealt with", func() bool { return b.Stats().Parked == 0 })
	if n := count(t, db.owner, "select count(*) from audit.outcomes where entry_id = $1", kept.EntryID); n != 1 || b.Stats().Abandoned != 1 {
		t.Errorf("%d outcomes, %+v; want the good one written and the bad one given up", n, b.Stats())
	}
}

// writerPoint names where the writer process kills itself.
const writerPoint = "BRONZEWARD_TEST_WRITER"

// writer is the body of a process that writes, says on stdout what it was told is durable, and dies by SIGKILL.
func writer(point, dsn string) int {
	die := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return 2
	}
	batches := 0
	cfg := BookConfig{Pool: pool, Committers: 1, Guard: func(ctx context.Context, tx pgx.Tx) (int64, error) {
		if batches++; batches == 40 && point != "after commit" {
			die()
		}
		return guard(ctx, tx)
	}, Observe: func(int, time.Duration) {
		if batches == 40 {
			die() // committed, and nobody was told
		}
	}}
	b, err := NewBook(cfg)
	if err != nil {
		return 2
	}
	for range 8 {
		go func() {
			for {
				e := readEntry()
				e.ID = uuid.Must(uuid.NewV7())
				if point == "acknowledging too early" {
					os.Stdout.WriteString(e.ID.String() + "\n")
				}
				if _, err := b.Write(ctx, e); err == nil && point != "acknowledging too early" {
					os.Stdout.WriteString(e.ID.String() + "\n")
				}
			}
		}()
	}
	select {}
}

func TestKilledWriterLosesNothingItAcknowledged(t *testing.T) {
	for _, c := range []struct {
		point string
		loses bool
	}{{"before the rows", false}, {"after commit", false}, {"acknowledging too early", true}} {
		t.Run(c.point, func(t *testing.T) {
			db := newDatabase(t)
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), writerPoint+"="+c.point, "BRONZEWARD_TEST_DSN="+shared.Server(t).DSN(db.name, asGateway))
			out, err := cmd.Output()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the writer ended with %v, want SIGKILL", err)
			}
			acknowledged := 0
			lost := 0
			for s := bufio.NewScanner(strings.NewReader(string(out))); s.Scan(); acknowledged++ {
				lost += 1 - count(t, db.owner, "select count(*) from audit.entries where id = $1", uuid.MustParse(s.Text()))
			}
			rows := count(t, db.owner, "select count(*) from audit.entries")
			if acknowledged < 39 || rows < 39 {
				t.Errorf("%d acknowledged, %d rows: the writer died too early", acknowledged, rows)
			}
			if (lost > 0) != c.loses {
				t.Errorf("%d of %d acknowledged rows lost", lost, acknowledged)
			}
			if waiting := count(t, db.owner, "select count(*) from audit.unsequenced u join audit.entries e using (recorded_at, id)"); waiting != rows {
				t.Errorf("%d of %d rows wait for the sequencer", waiting, rows)
			}
		})
	}
}
