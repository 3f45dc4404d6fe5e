package house

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"bronzeward/fixtures/postgres/pgtest"
	"bronzeward/gateway/control"
	"bronzeward/gateway/vault"
)

// readable is an OpenBao that answers and takes nothing.
type readable struct {
	anchor vault.Anchor
	err    error
}

func (r readable) Read(context.Context) (vault.Anchor, int, error) { return r.anchor, 1, nil }

func (r readable) ForwardOver(context.Context, int, func(*vault.Anchor)) (vault.Anchor, int, error) {
	return r.anchor, 1, r.err
}

func (r readable) Change(context.Context, func(*vault.Anchor) error) (vault.Anchor, int, error) {
	return r.anchor, 1, r.err
}

// What is known to be older is marked, and so refused, also while OpenBao takes no latch. The control
// is an anchor that remembers no more than the database: nothing is marked.
func TestWhatIsFoundIsMarkedThoughOpenBaoTakesNothing(t *testing.T) {
	var postgres pgtest.Shared
	t.Cleanup(func() {
		if err := postgres.Close(); err != nil {
			t.Error(err)
		}
	})
	for name, more := range map[string]int64{"older": 5, "control: as remembered": 0} {
		t.Run(name, func(t *testing.T) {
			dsn := postgres.Server(t).DSN(postgres.NewDatabaseName(t, migratedBook), "gateway")
			store, err := control.Open(t.Context(), control.Config{URL: dsn, Instance: "gw-1", Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(store.Close)
			snap := store.Snapshot()
			away := errors.New("OpenBao takes nothing")
			c := &comparing{store: store, log: slog.New(slog.DiscardHandler), place: readable{err: away, anchor: vault.Anchor{
				Installation: snap.InstallationID.String(), Epoch: snap.Epoch.String(), AuthorityVersion: snap.AuthorityVersion + more, Written: time.Now(),
			}}}
			_, err = c.check(t.Context())
			found, _, foundErr := store.FoundNow(t.Context())
			if foundErr != nil {
				t.Fatal(foundErr)
			}
			want := control.RecoveryNone
			if more > 0 {
				want = control.RecoveryRolledBack
			}
			if (more > 0) != errors.Is(err, away) || found.State != want {
				t.Errorf("found %s, want %s: %v", found.State, want, err)
			}
		})
	}
}
