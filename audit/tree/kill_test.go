package tree

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// killPoint names where the sequencer process stops and waits for its end.
const killPoint = "BRONZEWARD_TEST_SEQUENCER"

// sequencerProcess is the body of a process that sequences, says on stdout that it came to the point, and stands still
// there.
func sequencerProcess(point, dsn string) int {
	cfg := Config{
		Connect: func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, dsn) },
		Epoch:   readEpoch, Signer: newSigner(1), Batch: 100,
		Poll: time.Millisecond, RetryEvery: time.Millisecond, CheckpointEvery: time.Nanosecond,
		Publish: []Publisher{{Name: "folder", Publish: func(_ context.Context, s Stored) error {
			if point == "publishing" {
				stop(point)
			}
			return nil
		}}},
		Logger: slog.New(slog.DiscardHandler),
		pause: func(at string) {
			if at == point {
				stop(point)
			}
		},
	}
	q, err := New(cfg)
	if err != nil {
		return 2
	}
	_ = q.Run(context.Background())
	return 2
}

func stop(point string) {
	fmt.Println(point)
	select {}
}

// TestKilledSequencer kills a sequencer at each of its points and lets another go on: nothing is lost or there twice,
// what was signed stays true, and the last checkpoint is taken elsewhere.
func TestKilledSequencer(t *testing.T) {
	for _, c := range []struct {
		point string
		// What the killed one left.
		leaves, tiles, checkpoints int
	}{
		{"locked", 0, 0, 0},
		{"loaded", 0, 0, 0},
		{"rows taken", 0, 0, 0},
		{"committed", 100, 0, 0},
		{"checked", 100, 0, 0},
		{"signed", -1, -1, 0},
		{"stored", -1, -1, 1},
		{"publishing", -1, -1, -1},
	} {
		t.Run(c.point, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			fill(t, db, 700)
			killed := killedAt(t, db, c.point)
			if c.point == "publishing" { // beside which it goes on
				eventually(t, "it signed all", func() bool { return count(t, db, "select coalesce(max(size), 0) from audit.checkpoints") == 700 })
			}
			for _, table := range []struct {
				name string
				want int
			}{{"leaves", c.leaves}, {"tiles", c.tiles}, {"checkpoints", c.checkpoints}} {
				if n := count(t, db, "select count(*) from audit."+table.name); table.want >= 0 && n != table.want {
					t.Errorf("killed at %q it left %d %s, want %d", c.point, n, table.name, table.want)
				}
			}
			before, _ := Latest(t.Context(), db.auditor, 1)

			signer, folder := newSigner(1), &places{}
			cfg := config(t, db, signer)
			cfg.Batch, cfg.Publish = 100, []Publisher{folder.publisher("folder")}
			if n := count(t, db, locksSQL); n != 1 {
				t.Errorf("the killed one's session has %d locks, want it to be there yet", n)
			}
			killed()
			fill(t, db, 56)
			q, _ := running(t, cfg)
			eventually(t, "another goes on", func() bool { return q.Status().Checkpoint.Size == 756 && q.Status().Size == 756 })
			eventually(t, "the last is published", func() bool { return slices.Contains(folder.sizes(), 756) })
			wantWhole(t, db)
			if n := count(t, db, "select count(*) from audit.tiles"); n != 2 {
				t.Errorf("%d tiles, want 2", n)
			}
			after, err := Latest(t.Context(), db.auditor, 1)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := OpenCheckpoint(after.Note, signer.verifiers(t)); err != nil {
				t.Error(err)
			}
			if before.Size > 0 {
				proof, err := Consistency(t.Context(), db.auditor, 1, before.Size, after.Size)
				if err != nil || CheckConsistency(before.Checkpoint, after.Checkpoint, proof) != nil {
					t.Errorf("%v, %v", err, CheckConsistency(before.Checkpoint, after.Checkpoint, proof))
				}
				if !slices.Contains(folder.sizes(), before.Size) {
					t.Errorf("the checkpoint of %d leaves was not published again: %v", before.Size, folder.sizes())
				}
			}
		})
	}
}

const locksSQL = "select count(*) from pg_locks where locktype = 'advisory' and granted and database = (select oid from pg_database where datname = current_database())"

// killedAt runs a sequencer of its own process until it stands at the point. The function that it returns kills it.
func killedAt(t *testing.T, db database, point string) (kill func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), killPoint+"="+point, "BRONZEWARD_TEST_DSN="+shared.Server(t).DSN(db.name, "test_gateway"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if s := bufio.NewScanner(out); !s.Scan() || s.Text() != point {
		t.Fatalf("the sequencer said %q", s.Text())
	}
	return func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
			t.Errorf("it ended with %v", status)
		}
	}
}
