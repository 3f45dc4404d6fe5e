package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"bronzeward/fixtures/cache"
	"bronzeward/fixtures/leakscan"
	"bronzeward/fixtures/openbao"
	"bronzeward/fixtures/talosctlbin"
	"bronzeward/fixtures/world"
)

// The kinds of places that no secret may be in. The first three are the database's files, the
// others are what the product says and keeps elsewhere. It makes no traces.
const (
	inColumns   = "database columns"
	inFiles     = "database files"
	inWAL       = "write-ahead log"
	inStatement = "database statements" // the server's log of every statement and parameter
	inLog       = "gateway log"
	inMetrics   = "metrics"
	inHTTP      = "HTTP answers"
	inGRPC      = "gRPC answers"
	inTalosctl  = "talosctl output"
	inCommand   = "command output"
	inWebhook   = "webhook bodies"
	inRego      = "Rego inputs"
	inCrash     = "crash texts"
	inProcess   = "process tables" // arguments and environment of the gateway
	inBao       = "OpenBao's logs" // its audit file and what it says; its storage is encrypted
	inHome      = "homes of logins"
	inKept      = "checkpoint files" // the folder of the auditors
	inOther     = "other files"      // whatever else the product wrote
)

// leakKinds are all of them.
func leakKinds() []string {
	return []string{
		inColumns, inFiles, inWAL, inStatement, inLog, inMetrics, inHTTP, inGRPC, inTalosctl, inCommand, inWebhook, inRego, inCrash,
		inProcess, inBao, inHome, inKept, inOther,
	}
}

// auditors is the folder of the world that checkpoints are written into.
const auditors = "auditors"

// leak is the world the leak scan runs in, its canaries and what was told.
type leak struct {
	w        *world.World
	canaries leakscan.Maker
	controls *leakscan.Controls
	db       *pgx.Conn // a superuser's
	hook     *hook
	wire     *tap // all that the product and OpenBao say to each other
	logins   given
	changes  []string // ids that questions are asked about

	mu   sync.Mutex // guards told and sent: some questions are asked side by side
	told int        // how many texts were told
	sent int        // how many configurations were sent
}

// leakscanCommand runs the story with canaries for secrets, and searches every place for them.
func leakscanCommand(ctx context.Context) error {
	began := time.Now()
	dir, err := os.MkdirTemp("", "bw-leak-")
	if err != nil {
		return err
	}
	keep := os.Getenv("LEAKSCAN_KEEP") != ""
	if keep {
		fmt.Println("keeping", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	// The database's account must be able to enter.
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if err := ownHome(ctx, filepath.Join(dir, "home")); err != nil {
		return err
	}
	report, err := leakRun(ctx, filepath.Join(dir, "world"), filepath.Join(dir, "home"))
	if err != nil {
		return err
	}
	fmt.Print(report.Table())
	if err := report.Verdict(leakKinds()...); err != nil {
		return err
	}
	fmt.Printf("leakscan ok: %s (%s)\n", report.Summary(leakKinds()...), time.Since(began).Round(100*time.Millisecond))
	return nil
}

// ownHome gives every command a home of its own, so that what it leaves there is searched.
// What was fetched and built stays where it is.
func ownHome(ctx context.Context, home string) error {
	kept, err := cache.Dir()
	if err != nil {
		return err
	}
	if _, err := talosctlbin.Path(ctx, os.Stdout); err != nil {
		return err
	}
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	return errors.Join(
		os.Setenv("BRONZEWARD_CACHE", kept), os.Setenv("HOME", home), os.Setenv("TMPDIR", home), os.Setenv("GOTRACEBACK", "system"),
		os.Unsetenv("BAO_ADDR"), os.Unsetenv("XDG_CONFIG_HOME"), os.Unsetenv("XDG_CACHE_HOME"), os.Unsetenv("XDG_STATE_HOME"),
	)
}

// leakRun starts the world, runs the story, ends the world and searches what is left of it.
func leakRun(ctx context.Context, dir, home string) (_ leakscan.Report, err error) {
	path, err := binary()
	if err != nil {
		return leakscan.Report{}, err
	}
	l := &leak{controls: leakscan.NewControls()}
	if l.hook, err = startHook(); err != nil {
		return leakscan.Report{}, err
	}
	defer func() { err = errors.Join(err, l.hook.close()) }()
	l.wire = &tap{}
	defer func() { err = errors.Join(err, l.wire.close()) }()
	first, err := l.canaries.Worker("a node's configuration")
	if err != nil {
		return leakscan.Report{}, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return leakscan.Report{}, err
	}
	if err := os.MkdirAll(filepath.Join(dir, auditors), 0o755); err != nil {
		return leakscan.Report{}, err
	}
	extra, err := l.configuration(dir)
	if err != nil {
		return leakscan.Report{}, err
	}
	l.w, err = world.Start(ctx, world.Config{
		Dir: dir, Binary: path, Quorum: 1, MachineConfig: first, Extra: extra,
		OpenBaoFront: func(s *openbao.Server) (string, string, error) { return l.wire.start(s, filepath.Join(dir, "pki")) },
		OpenBaoExtra: "  refresh: 1s\n", Given: l.logins.add,
		Settings: map[string]string{
			// Every statement with all its parameters is written down, no segment of the
			// write-ahead log is used twice, and none is compressed.
			"log_statement": "all", "log_parameter_max_length": "-1", "log_parameter_max_length_on_error": "-1",
			"wal_compression": "off", "wal_keep_size": "4GB", "max_wal_size": "4GB", "wal_recycle": "off",
		},
	})
	if err != nil {
		return leakscan.Report{}, err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, l.w.Close())
		}
	}()
	if l.db, err = pgx.Connect(ctx, l.w.Postgres.DSN(world.Database, "postgres")); err != nil {
		return leakscan.Report{}, err
	}
	defer l.db.Close(context.WithoutCancel(ctx))
	if err := leakscan.Uncompressed(ctx, l.db); err != nil {
		return leakscan.Report{}, err
	}
	if err := l.story(ctx); err != nil {
		return leakscan.Report{}, err
	}
	if err := errors.Join(l.takeWire(ctx), l.takeLogins()); err != nil {
		return leakscan.Report{}, err
	}
	if err := l.plant(ctx); err != nil {
		return leakscan.Report{}, err
	}
	s := leakscan.NewScanner(append(l.canaries.All(), l.controls.Canaries()...)...)
	s.Excused = l.ownLogin
	if err := s.Database(ctx, inColumns, l.db); err != nil {
		return leakscan.Report{}, err
	}
	if _, err := l.db.Exec(ctx, "checkpoint"); err != nil {
		return leakscan.Report{}, err
	}
	if err := l.carried(); err != nil {
		return leakscan.Report{}, err
	}
	closed = true
	if err := errors.Join(l.db.Close(ctx), l.w.Close()); err != nil {
		return leakscan.Report{}, err
	}
	if err := errors.Join(s.Folder(dir, l.kindOf), s.Folder(home, func(string) string { return inOther })); err != nil {
		return leakscan.Report{}, err
	}
	return s.Report(), nil
}

// kindOf is the kind of a file of the world's folder. What holds secrets because it is the
// world's own — credentials, the nodes, the configurations that are sent — is left out.
func (l *leak) kindOf(path string) string {
	top, rest, _ := strings.Cut(path, "/")
	switch {
	case top == "pki", top == "talosconfig", top == "nodes", top == "sent", top == "examples":
		return ""
	case top == "openbao" && rest != "" && rest != "audit.log" && rest != "openbao.log":
		return "" // it keeps the secrets
	case top == "openbao":
		return inBao
	case top == "home":
		return inHome
	case top == auditors:
		return inKept
	case top == "told" && rest != "":
		kind, _, _ := strings.Cut(rest, "/")
		return kind
	case strings.Contains(path, "pg_wal/"):
		return inWAL
	case top == "postgres" && strings.HasPrefix(rest, "data"):
		return inFiles
	case top == "postgres":
		return inStatement
	case strings.HasPrefix(top, "gateway-") && strings.HasSuffix(top, ".log"):
		return inLog
	}
	return inOther
}

// tell keeps what was said, so that it is searched.
func (l *leak) tell(kind, what, text string) error {
	l.mu.Lock()
	l.told++
	n := l.told
	l.mu.Unlock()
	dir := l.w.Path("told", kind)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	what = strings.Map(func(r rune) rune {
		if r == '/' || r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, what)
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("%04d-%.40s", n, what)), []byte(text), 0o600)
}

// send writes a configuration into the folder of what is sent, and gives its path.
func (l *leak) send(text []byte) (string, error) {
	l.mu.Lock()
	l.sent++
	n := l.sent
	l.mu.Unlock()
	if err := os.MkdirAll(l.w.Path("sent"), 0o700); err != nil {
		return "", err
	}
	path := l.w.Path("sent", fmt.Sprintf("%04d.yaml", n))
	return path, os.WriteFile(path, text, 0o600)
}
