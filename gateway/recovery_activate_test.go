package gateway

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// onData does something to the data of the stopped database, and starts it again.
func (s *street) onData(t *testing.T, do func(context.Context, string) error, folder string) {
	t.Helper()
	ctx := context.Background()
	ok(t, errors.Join(s.Postgres.Stop(), do(ctx, folder), s.Postgres.Restart(ctx)))
}

// activations is how often a law became live.
func (s *street) activations(t *testing.T) int {
	t.Helper()
	return must(s.db.Count(context.Background(), "select counter from control.live_bundle"))(t)
}

// The command that makes a law live acts by itself, beside the gateways. On a database that was
// restored from an older copy it is refused like any act, also when no gateway has looked at that one
// yet, and what it found is latched in OpenBao. The control is the same restored database with the
// anchor, and the database's memory of it, removed: the law becomes live.
func TestNoLawIsMadeLiveOnARestoredDatabase(t *testing.T) {
	ctx := context.Background()
	s := newStreet(t, 1, 0)
	backup := s.Path("backup")
	s.onData(t, s.Postgres.Backup, backup)
	first := s.serve(t, "first")
	s.revokes(t, first, "mallory")
	first.kill()
	edit := filepath.Join(s.PolicyDir(), "bronzeward", "data.yaml")
	text := must(os.ReadFile(edit))(t)
	ok(t, os.WriteFile(edit, append(text, "# another law\n"...), 0o600))
	activate := func() (string, error) { return s.Bronzeward(ctx, "sven", "policy", "activate", "--direct", s.PolicyDir()) }

	s.onData(t, s.Postgres.Restore, backup)
	before := s.activations(t)
	if n := must(s.db.Count(ctx, "select count(*) from control.identity_revocations"))(t); n != 0 {
		t.Fatalf("%d revocations are there: it is not the older one", n)
	}
	out, err := activate()
	if err == nil || !strings.Contains(out, "DENIED "+codeRolledBack) {
		t.Errorf("activating on the restored database: %v\n%s", err, out)
	}
	if n := s.activations(t); n != before || s.anchor(t)["latched"] == nil {
		t.Errorf("%d activations, %d before; the anchor has %v", n, before, s.anchor(t))
	}

	s.onData(t, s.Postgres.Restore, backup)
	status, _, err := s.OpenBao.API(ctx, http.MethodDelete, "bronzeward/metadata/anchor", nil)
	if err != nil || status != http.StatusNoContent {
		t.Fatalf("removing the anchor: %d, %v", status, err)
	}
	ok(t, s.db.Exec(ctx, "update control.recovery set anchor_version = 0"))
	if out, err := activate(); err != nil || s.activations(t) != before+1 {
		t.Errorf("the control: %v\n%s", err, out)
	}
}
