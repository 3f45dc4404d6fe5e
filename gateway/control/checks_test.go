package control

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"bronzeward/fixtures/postgres"
)

func TestConfigNamesEveryProblem(t *testing.T) {
	_, err := Open(t.Context(), Config{SettleFloor: time.Second, MaxConns: -1})
	for _, want := range []string{"URL", "instance", "logger", "may only be raised", "negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}

func TestAPasswordIsInNoError(t *testing.T) {
	const secret = "hunter2canary"
	for _, url := range []string{
		"postgres://u:" + secret + "@%zz/x", "user=u password=" + secret + " port=bad",
		"postgres://u:" + secret + "@127.0.0.1:1/x?connect_timeout=1",
	} {
		var log bytes.Buffer
		_, err := Open(t.Context(), Config{URL: url, Instance: "gw", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err == nil || strings.Contains(err.Error(), secret) || strings.Contains(log.String(), secret) {
			t.Errorf("%v\n%s", err, log.String())
		}
	}
}

func TestFsyncOffIsRefused(t *testing.T) {
	server, err := postgres.Start(t.Context(), postgres.Config{Settings: map[string]string{"fsync": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	_, err = Open(t.Context(), Config{URL: server.DSN("postgres", postgres.Superuser), Instance: "gw", Logger: discard()})
	wantErr(t, err, ErrUnsafeDatabase)
	if !strings.Contains(err.Error(), "fsync = on") {
		t.Errorf("the error does not say what to do: %v", err)
	}
}

// A commit waits for the disk on every connection, whatever the database is set to.
func TestSynchronousCommitIsSetPerConnection(t *testing.T) {
	for set, want := range map[string]string{"off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply"} {
		t.Run(set, func(t *testing.T) {
			w := newWorld(t)
			w.exec(t, fmt.Sprintf("alter database %s set synchronous_commit = %s", pgx.Identifier{w.name}.Sanitize(), set))
			s := w.store(t, "gw", nil)
			var got, idle, lock string
			if err := s.Pool().QueryRow(t.Context(), `select current_setting('synchronous_commit'),
				current_setting('idle_in_transaction_session_timeout'), current_setting('lock_timeout')`).Scan(&got, &idle, &lock); err != nil || got != want {
				t.Errorf("synchronous_commit is %s (%v), want %s", got, err, want)
			}
			if idle != idleWithin || lock != lockWithin {
				t.Errorf("a session may idle in a transaction for %s and wait for a lock for %s", idle, lock)
			}
		})
	}
}

func TestAProxyThatPoolsByTransactionIsRefused(t *testing.T) {
	w := newWorld(t)
	dir := newPooler(t, w.url(t, asGateway))
	url := fmt.Sprintf("host=%s port=5432 user=x dbname=x", dir)
	_, err := Open(t.Context(), Config{URL: url, Instance: "gw", Logger: discard()})
	wantErr(t, err, ErrUnsafeDatabase)
	if !strings.Contains(err.Error(), "pools by transaction") {
		t.Errorf("the error does not name the proxy: %v", err)
	}
}

// Control: a proxy that leaves a session its connection is let through.
func TestAProxyThatPoolsBySessionIsFine(t *testing.T) {
	w := newWorld(t)
	_, dsn := newProxy(t)
	w.store(t, "gw", func(c *Config) { c.URL = dsn + " dbname=" + w.name })
}
