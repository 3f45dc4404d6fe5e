package audit

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"bronzeward/fixtures/postgres"
)

// smallDisk names the case that the child of TestDiskFull runs.
const smallDisk = "BRONZEWARD_TEST_SMALL_DISK"

// TestDiskFull runs itself again in a mount namespace of its own, where it may mount a file system that is small.
func TestDiskFull(t *testing.T) {
	cases := map[string]func(*testing.T, string){"the tables' disk": tablesDisk, "the log's disk": logDisk}
	if c := os.Getenv(smallDisk); c != "" {
		cases[c](t, mountSmall(t))
		return
	}
	for name := range cases {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDiskFull$", "-test.v")
			cmd.Env = append(os.Environ(), smallDisk+"="+name)
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
			if os.Geteuid() != 0 { // whoever is not root is root in there
				cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
				cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
				cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v (this needs to be root, or a kernel that gives everybody user namespaces)\n%s", err, out)
			}
		})
	}
}

// mountSmall is a folder with room for 64 MiB.
func mountSmall(t *testing.T) string {
	t.Helper()
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "bw-small-")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m,mode=0755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(syscall.Unmount(dir, syscall.MNT_DETACH), os.Remove(dir)); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill takes all room of the disk but so many bytes; the file it makes is what to remove.
func fill(t *testing.T, dir string, but int64) (ballast string) {
	t.Helper()
	ballast = filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var size int64
	for block := make([]byte, 64<<10); err == nil; {
		var n int
		n, err = f.Write(block)
		size += int64(n)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Truncate(size - but); err != nil {
		t.Fatal(err)
	}
	return ballast
}

// ownBook is a server of this test's own, its database in the tablespace, and a Book on it.
func ownBook(t *testing.T, server *postgres.Server, tablespace string) (database, *Book) {
	t.Helper()
	ctx := t.Context()
	super, err := pgx.Connect(ctx, server.DSN("postgres", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close(ctx)
	sql := "create database small"
	if tablespace != "" {
		if _, err := super.Exec(ctx, "create tablespace small location '"+tablespace+"'"); err != nil {
			t.Fatal(err)
		}
		sql += " tablespace small"
	}
	if _, err := super.Exec(ctx, sql); err != nil {
		t.Fatal(err)
	}
	if err := book.Prepare(ctx, server.DSN("small", "postgres")); err != nil {
		t.Fatal(err)
	}
	db := database{name: "small"}
	for role, pool := range map[string]**pgxpool.Pool{"postgres": &db.owner, asGateway: &db.gateway} {
		if *pool, err = pgxpool.New(ctx, server.DSN("small", role)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*pool).Close)
	}
	return db, newBook(t, db, func(c *BookConfig) { c.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil)) })
}

func startServer(t *testing.T, settings map[string]string) *postgres.Server {
	t.Helper()
	server, err := postgres.Start(t.Context(), postgres.Config{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// give makes a folder the server's.
func give(t *testing.T, server *postgres.Server, dir string) {
	t.Helper()
	info, err := os.Stat(filepath.Join(server.Dir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	if err := os.Chown(dir, int(stat.Uid), int(stat.Gid)); err != nil {
		t.Fatal(err)
	}
}

// incompressible is text of so many bytes.
func incompressible(n int) string {
	raw := make([]byte, n*3/4)
	_, _ = rand.Read(raw)
	return base64.StdEncoding.EncodeToString(raw)
}

// writeUntil writes from several callers until each has been refused, and returns what was acknowledged and what was not.
func writeUntil(t *testing.T, b *Book, most int) (acknowledged, refused []uuid.UUID, errs []error) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range most {
				e := readEntry()
				e.ID, e.Detail = uuid.Must(uuid.NewV7()), incompressible(64<<10)
				_, err := b.Write(context.Background(), e)
				mu.Lock()
				if err == nil {
					acknowledged = append(acknowledged, e.ID)
				} else {
					refused, errs = append(refused, e.ID), append(errs, err)
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return acknowledged, refused, errs
}

func tablesDisk(t *testing.T, disk string) {
	server := startServer(t, nil)
	folder := filepath.Join(disk, "tables")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	give(t, server, folder)
	db, b := ownBook(t, server, folder)
	if _, no, errs := writeUntil(t, b, 2); len(no) != 0 { // control: the same, with room
		t.Fatal(errs)
	}
	ballast := fill(t, disk, 4<<20)

	acknowledged, refused, errs := writeUntil(t, b, 1000)
	if len(acknowledged) == 0 || len(refused) != 8 {
		t.Fatalf("%d acknowledged, %d refused", len(acknowledged), len(refused))
	}
	for _, err := range errs {
		if !errors.Is(err, ErrUnavailable) || sqlState(err) != "53100" {
			t.Errorf("%v, want no room, and ErrUnavailable", err)
		}
	}
	whole := func(when string) {
		t.Helper()
		if n := count(t, db.owner, "select count(*) from audit.entries where id = any ($1)", acknowledged); n != len(acknowledged) {
			t.Errorf("%s: %d of %d acknowledged rows are there", when, n, len(acknowledged))
		}
		if n := count(t, db.owner, "select count(*) from audit.entries where id = any ($1)", refused); n != 0 {
			t.Errorf("%s: %d refused rows are there", when, n)
		}
		if e, w := count(t, db.owner, "select (select count(*) from audit.entries) + (select count(*) from audit.outcomes)"), count(t, db.owner, "select count(*) from audit.unsequenced"); e != w {
			t.Errorf("%s: %d rows, of which %d wait for the sequencer", when, e, w)
		}
	}
	whole("while the disk is full")

	// An apply's transaction fails as a whole.
	err := pgx.BeginFunc(t.Context(), db.gateway, func(tx pgx.Tx) error {
		e := readEntry()
		e.ID, e.Detail = newID(t), incompressible(8<<20)
		refused = append(refused, e.ID)
		_, err := Append(t.Context(), tx, e)
		return err
	})
	if sqlState(err) != "53100" {
		t.Errorf("an apply: %v, want no room", err)
	}

	// The outcome of a call that was answered is kept until there is room.
	kept := Outcome{EntryID: acknowledged[0], Kind: OutcomeAnswered, Message: incompressible(8 << 20)}
	before := b.Stats().Unavailable
	if err := b.EnqueueOutcome(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the outcome is tried in vain", func() bool { return b.Stats().Unavailable > before })
	if n := count(t, db.owner, "select count(*) from audit.outcomes"); n != 0 || b.Stats().Parked != 1 {
		t.Errorf("%d outcomes, %+v", n, b.Stats())
	}

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the outcome is durable", func() bool { return b.Stats().Parked == 0 })
	if n := count(t, db.owner, "select count(*) from audit.outcomes where entry_id = $1", kept.EntryID); n != 1 || b.Stats().Abandoned != 0 {
		t.Errorf("%d outcomes once there is room, %+v", n, b.Stats())
	}
	if more, no, errs := writeUntil(t, b, 2); len(no) != 0 {
		t.Errorf("once there is room: %d written, %v", len(more), errs)
	}
	whole("once there is room")
}

func logDisk(t *testing.T, disk string) {
	server := startServer(t, map[string]string{"max_wal_size": "1GB", "checkpoint_timeout": "1h"})
	db, b := ownBook(t, server, "")
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	from, to := filepath.Join(server.Dir(), "data", "pg_wal"), filepath.Join(disk, "pg_wal")
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := errors.Join(os.RemoveAll(from), os.Symlink(to, from)); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the book is written", func() bool { _, err := b.Write(t.Context(), readEntry()); return err == nil })
	ballast := fill(t, disk, 1<<20)

	acknowledged, refused, errs := writeUntil(t, b, 2000)
	if len(acknowledged) == 0 || len(refused) != 8 {
		t.Fatalf("%d acknowledged, %d refused", len(acknowledged), len(refused))
	}
	for _, err := range errs {
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("%v, want ErrUnavailable", err)
		}
	}
	// The server has stopped or is about to: it cannot write its log.
	if _, err := b.Write(t.Context(), readEntry()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	server.StopHard()
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the book goes on", func() bool { _, err := b.Write(t.Context(), readEntry()); return err == nil })
	if n := count(t, db.owner, "select count(*) from audit.entries where id = any ($1)", acknowledged); n != len(acknowledged) {
		t.Errorf("%d of %d acknowledged rows are there", n, len(acknowledged))
	}
	if e, w := count(t, db.owner, "select count(*) from audit.entries"), count(t, db.owner, "select count(*) from audit.unsequenced"); e != w {
		t.Errorf("%d entries, of which %d wait for the sequencer", e, w)
	}
}
