package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"bronzeward/audit"
	"bronzeward/fixtures/postgres/pgtest"
	"bronzeward/policy"
)

var shared17 pgtest.Shared

func TestMain(m *testing.M) {
	shared17.Config.Settings = map[string]string{"max_connections": "200"}
	os.Exit(shared17.Main(m))
}

const (
	asGateway = "test_gateway"
	asAuditor = "test_auditor"
)

// migrated is the template: both schemas, a login per role, and a live bundle.
var migrated = pgtest.Migrated("control_intent", func(ctx context.Context, conn *pgx.Conn) error { return Migrate(ctx, conn, nil) }, `
		create role test_gateway login in role bronzeward_gateway;
		create role test_auditor login in role bronzeward_auditor;`)

var (
	anna  = policy.Person{Issuer: "https://id.test", Subject: "anna"}
	boris = policy.Person{Issuer: "https://id.test", Subject: "boris"}
	admin = policy.Person{Issuer: "https://id.test", Subject: "admin"}

	revision1 = strings.Repeat("1", 64)
	revision2 = strings.Repeat("2", 64)

	// worker is the identity of a machine's number.
	worker = func(n int) Identity {
		return Identity{NodeID: fmt.Sprintf("node-%d", n), ClusterID: "cluster-a", SMBIOS: ""}
	}
)

const (
	digestA = "hmac-sha256:k1:aaaa"
	digestB = "hmac-sha256:k1:bbbb"
	digestC = "hmac-sha256:k1:cccc"
)

// world is one test's database, with what a superuser sees of it.
type world struct {
	name string
	root *pgxpool.Pool
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{name: shared17.NewDatabaseName(t, migrated)}
	root, err := pgxpool.New(t.Context(), w.url(t, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(root.Close)
	w.root = root
	return w
}

func (w *world) url(t testing.TB, role string) string {
	return shared17.Server(t).DSN(w.name, role)
}

// store is a replica; change may be nil.
func (w *world) store(t testing.TB, instance string, change func(*Config)) *Store {
	t.Helper()
	cfg := Config{URL: w.url(t, asGateway), Instance: instance, Logger: slog.New(slog.DiscardHandler), PollEvery: time.Hour}
	if change != nil {
		change(&cfg)
	}
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// house is a store with a live bundle and so many pinned workers, w1 to wn, in cluster lab.
func (w *world) house(t testing.TB, machines int) *Store {
	t.Helper()
	s := w.store(t, "gw-1", nil)
	w.activate(t, s, revision1)
	for i := 1; i <= machines; i++ {
		w.add(t, s, i)
	}
	return s
}

func (w *world) activate(t testing.TB, s *Store, revision string) {
	t.Helper()
	ok(t)(s.SaveBundle(t.Context(), revision, []byte("bundle "+revision[:1]), nil, by(admin, "policy.save")))
	ok(t)(s.ActivateBundle(t.Context(), NewLive{Revision: revision, Way: WayActivate}, by(admin, "policy.activate")))
}

func (w *world) add(t testing.TB, s *Store, n int) Machine {
	t.Helper()
	name := fmt.Sprintf("w%d", n)
	addr := netip.AddrFrom4([4]byte{10, 5, byte(n / 250), byte(n%250 + 1)})
	if _, _, err := s.AddMachine(t.Context(), NewMachine{Name: name, Cluster: "lab", Addresses: []netip.Addr{addr}}, by(admin, "machines.add")); err != nil {
		t.Fatal(err)
	}
	ok(t)(s.PinMachine(t.Context(), name, worker(n), false, by(admin, "machines.pin")))
	return get(t, s, name)
}

// ok fails the test when an act did.
func ok(t testing.TB) func(audit.Receipt, error) {
	return func(_ audit.Receipt, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// revoked fails the test when a revocation did.
func revoked(t testing.TB) func(IdentityRevocation, error) {
	return func(_ IdentityRevocation, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func get(t testing.TB, s *Store, name string) Machine {
	t.Helper()
	m, err := s.GetMachine(context.WithoutCancel(t.Context()), name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// by is an act of p that its entry allows.
func by(p policy.Person, name string) Act {
	return Act{By: p, Entry: func(Stamp) audit.Entry {
		return audit.Entry{
			Kind: audit.KindHTTP, Verdict: audit.Allowed, Method: name,
			Caller: audit.Caller{Issuer: p.Issuer, Subject: p.Subject, Kind: "human"},
		}
	}}
}

// apply is the request of p to apply digestA to m.
func apply(m Machine, p policy.Person) Request {
	return Request{MachineID: m.ID, Serial: m.Serial, Caller: p, Apply: true, Mode: "no-reboot", Digest: digestA}
}

// allow is a judge who allows whatever it sees, as a careless one would. The machine holds what was
// applied last, and digestB where nothing was.
func allow(l Locked) Judgement {
	base, persistent := digestB, digestB
	if l.Machine.ActiveDigest != "" {
		base, persistent = l.Machine.ActiveDigest, l.Machine.PersistentDigest
	}
	return Judgement{
		Entry: audit.Entry{
			Kind: audit.KindRPC, Verdict: audit.Allowed, Method: "/machine.MachineService/ApplyConfiguration",
			MachineID: l.Machine.ID, PolicyRevision: l.LiveRevision,
		},
		Attempt: &NewAttempt{
			Digest: digestA, Base: base, Persistent: persistent, Mode: "no-reboot", LiveType: "worker",
			Stage: "running", Minor: "1.13", Identity: l.Machine.Identity, Transport: 10 * time.Second,
		},
	}
}

// allowOnly allows a mutation that is no apply: an entry, and no attempt.
func allowOnly(l Locked) Judgement {
	j := allow(l)
	j.Attempt = nil
	return j
}

// open admits an apply of p to the machine.
func open(t testing.TB, s *Store, name string, p policy.Person) *Attempt {
	t.Helper()
	adm, err := s.Admit(t.Context(), apply(get(t, s, name), p), allow)
	if err != nil {
		t.Fatal(err)
	}
	return adm.Attempt
}

// count is how many rows a query of one number says.
func (w *world) count(t testing.TB, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := w.root.QueryRow(context.WithoutCancel(t.Context()), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// exec changes the database behind everybody's back, triggers aside.
func (w *world) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	err := pgx.BeginFunc(ctx, w.root, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set local session_replication_role = replica"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// age moves an attempt into the past, as if so much time had gone by.
func (w *world) age(t testing.TB, id uuid.UUID, d time.Duration) {
	t.Helper()
	w.exec(t, `update control.attempts set opened_at = opened_at - $2::interval, send_by = send_by - $2::interval,
		lease_until = lease_until - $2::interval, transport_deadline = transport_deadline - $2::interval where id = $1`, id, d)
}

// waiting returns once so many of the gateway's sessions wait for a lock.
func (w *world) waiting(t testing.TB, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d sessions waiting for a lock", n), func() bool {
		return w.count(t, `select count(distinct pid) from pg_locks l join pg_stat_activity a using (pid)
			where not l.granted and a.datname = current_database()`) >= n
	})
}

// eventually asks until the answer is yes; the deadline only ends a broken test.
func eventually(t testing.TB, what string, yes func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if yes() {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("waiting for %s: it did not come", what)
}

func wantErr(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func wantGuard(t testing.TB, err error, guard string) {
	t.Helper()
	var g *GuardError
	if !errors.As(err, &g) || g.Guard != guard {
		t.Fatalf("got %v, want a refusal by %s", err, guard)
	}
}

func authorityVersion(t testing.TB, s *Store) int64 {
	t.Helper()
	snap, err := s.Refresh(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return snap.AuthorityVersion
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
