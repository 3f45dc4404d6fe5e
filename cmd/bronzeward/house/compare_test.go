package house

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

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

// comparingWith compares a database of its own with an OpenBao that remembers so many authority versions more.
func comparingWith(t *testing.T, postgres *pgtest.Shared, more int64, err error) *comparing {
	t.Helper()
	dsn := postgres.Server(t).DSN(postgres.NewDatabaseName(t, migratedBook), "gateway")
	store, openErr := control.Open(t.Context(), control.Config{URL: dsn, Instance: "gw-1", Logger: slog.New(slog.DiscardHandler)})
	if openErr != nil {
		t.Fatal(openErr)
	}
	t.Cleanup(store.Close)
	snap := store.Snapshot()
	return &comparing{store: store, log: slog.New(slog.DiscardHandler), place: readable{err: err, anchor: vault.Anchor{
		Installation: snap.InstallationID.String(), Epoch: snap.Epoch.String(), AuthorityVersion: snap.AuthorityVersion + more, Written: time.Now(),
	}}}
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
			away := errors.New("OpenBao takes nothing")
			c := comparingWith(t, &postgres, more, away)
			_, err := c.check(t.Context())
			found, _, foundErr := c.store.FoundNow(t.Context())
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

// Whoever enters recovery before a restore was noticed enters it for what is found then. The control is
// an anchor that remembers no more than the database: it is entered for nothing.
func TestEnteringComparesFirst(t *testing.T) {
	var postgres pgtest.Shared
	t.Cleanup(func() {
		if err := postgres.Close(); err != nil {
			t.Error(err)
		}
	})
	for name, row := range map[string]struct {
		more int64
		want control.RecoveryState
	}{"older": {5, control.RecoveryRolledBack}, "control: as remembered": {0, control.RecoveryNone}} {
		t.Run(name, func(t *testing.T) {
			c := comparingWith(t, &postgres, row.more, nil)
			_, _, _, _ = c.Begin(t.Context(), c.store.Snapshot().Epoch, uuid.New()) // nothing is pending there: it takes nothing
			if found, _, err := c.store.FoundNow(t.Context()); err != nil || found.State != row.want {
				t.Errorf("found %s, want %s: %v", found.State, row.want, err)
			}
		})
	}
}
