package gateway

import (
	"context"
	"strings"
	"testing"

	"bronzeward/fixtures/postgres/pgtest"
)

// Ready names everything that keeps this replica from deciding, and nothing else.
func TestReadyNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	ready := func(h *house) (map[string]any, string) {
		state, problems := h.gw.Ready(context.Background())
		return state, strings.Join(problems, "; ")
	}
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t, func(s *setup) { s.ownEngine = true })
		state, problems := ready(h)
		if problems != "" || state["policy_revision"] != must(shippedLaw())(t).bundle.Revision() {
			t.Errorf("problems %q, state %v", problems, state)
		}
	})
	t.Run("a law", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t, func(s *setup) { s.empty, s.ownEngine = true, true })
		if _, problems := ready(h); !strings.Contains(problems, "no policy is live") {
			t.Errorf("problems %q", problems)
		}
	})
	t.Run("a law that can be loaded", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t, func(s *setup) { s.ownEngine = true })
		ok(t, h.db.Exec(t.Context(), "insert into control.bundles (revision, content, entry_id) values (repeat('a', 64), 'junk', gen_random_uuid())"))
		ok(t, h.db.Exec(t.Context(), "update control.live_bundle set revision = repeat('a', 64), counter = counter + 1"))
		ok(t, h.db.Exec(t.Context(), "update control.authority set version = version + 1"))
		if _, problems := ready(h); !strings.Contains(problems, "cannot be loaded") {
			t.Errorf("problems %q", problems)
		}
	})
	t.Run("the database", func(t *testing.T) {
		t.Parallel()
		own := &pgtest.Shared{}
		t.Cleanup(func() { ok(t, own.Close()) })
		h := newHouse(t, func(s *setup) { s.server = own })
		ok(t, own.Server(t).Stop())
		if _, problems := ready(h); !strings.Contains(problems, "database") {
			t.Errorf("problems %q", problems)
		}
		ok(t, own.Server(t).Restart(context.Background()))
		eventually(t, "the database to be back", func() bool { _, p := ready(h); return p == "" })
	})
}

// Every field a gateway cannot do without is named at once.
func TestConfigNamesEverythingMissing(t *testing.T) {
	t.Parallel()
	_, err := New(Config{})
	for _, field := range []string{"Certificate", "Identity", "Judge", "Store", "Book", "Upstream", "Digester", "Instance", "Registry", "Logger"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named: %v", field, err)
		}
	}
}
