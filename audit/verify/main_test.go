package verify

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/note"

	"bronzeward/audit"
	"bronzeward/audit/tree"
	"bronzeward/fixtures/postgres/pgtest"
)

var shared pgtest.Shared

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

var (
	installation = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	firstEpoch   = uuid.MustParse("5b0f8f5e-1111-4111-8111-111111111111")
	secondEpoch  = uuid.MustParse("5b0f8f5e-2222-4222-8222-222222222222")
)

// signer is an Ed25519 key in memory, in the place of Transit.
type signer struct{ key ed25519.PrivateKey }

func newSigner(seed string) signer {
	s := sha256.Sum256([]byte(seed))
	return signer{ed25519.NewKeyFromSeed(s[:])}
}

func (s signer) Sign(_ context.Context, message []byte) ([]byte, int, error) {
	return ed25519.Sign(s.key, message), 1, nil
}

func (s signer) PublicKeys(context.Context) (map[int]ed25519.PublicKey, error) {
	return map[int]ed25519.PublicKey{1: s.key.Public().(ed25519.PublicKey)}, nil
}

func (s signer) keys() note.Verifiers {
	text, err := tree.VerifierKey(s.key.Public().(ed25519.PublicKey))
	if err == nil {
		var v note.Verifiers
		if v, err = tree.ParseKeys([]byte(text)); err == nil {
			return v
		}
	}
	panic(err)
}

var ours = newSigner("ours")

// The book of the tests: leaves of tree 1 by round, each with a checkpoint, the first of the month before; then the leaves
// of tree 2; then rows that wait.
const (
	lastMonth, thisMonth, lastRound = 300, 612, 730
	secondTree                      = 40
	stillWaiting                    = 4
)

// filled is the template.
var filled = pgtest.Template{Name: "verify_filled", Prepare: func(ctx context.Context, dsn string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := audit.Migrate(ctx, conn); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, `
		create role test_gateway login in role bronzeward_gateway;
		create role test_auditor login in role bronzeward_auditor;
		create table public.installation (id uuid not null, epoch uuid not null);
		grant select on public.installation to bronzeward_gateway;
		`+partitionBefore()); err != nil {
		return err
	}
	f := &filler{conn: conn, dsn: dsn}
	if err := f.epoch(ctx, firstEpoch); err != nil {
		return err
	}
	// PostgreSQL takes the last day of a month that is too short, so that a month ago is always in the month before.
	if _, err := conn.Exec(ctx, `alter table audit.entries alter column recorded_at set default (clock_timestamp() at time zone 'UTC' - interval '1 month') at time zone 'UTC';
		alter table audit.outcomes alter column recorded_at set default (clock_timestamp() at time zone 'UTC' - interval '1 month') at time zone 'UTC'`); err != nil {
		return err
	}
	if err := f.round(ctx, lastMonth); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, `alter table audit.entries alter column recorded_at set default clock_timestamp();
		alter table audit.outcomes alter column recorded_at set default clock_timestamp()`); err != nil {
		return err
	}
	for _, n := range []int{thisMonth, lastRound} {
		if err := f.round(ctx, n); err != nil {
			return err
		}
	}
	if err := f.epoch(ctx, secondEpoch); err != nil {
		return err
	}
	if err := f.round(ctx, secondTree); err != nil {
		return err
	}
	// Recorded so late that no test takes long enough to find them waiting for too long.
	if _, err := conn.Exec(ctx, `alter table audit.entries alter column recorded_at set default clock_timestamp() + interval '1 hour';
		alter table audit.outcomes alter column recorded_at set default clock_timestamp() + interval '1 hour'`); err != nil {
		return err
	}
	return f.rows(ctx, stillWaiting)
}}

// before is the month before this one, which audit.entries has no partition for yet.
func before() time.Time {
	now := time.Now().UTC()
	return time.Date(now.Year(), now.Month()-1, 1, 0, 0, 0, 0, time.UTC)
}

// partitionBefore makes the partitions of the month before, as audit.ensure_partitions does.
func partitionBefore() string {
	var b strings.Builder
	for _, parent := range []string{"entries", "outcomes"} {
		fmt.Fprintf(&b, "create table audit.%[1]s_%[2]s (like audit.%[1]s including all); alter table audit.%[1]s attach partition audit.%[1]s_%[2]s for values from ('%[3]s') to ('%[4]s');",
			parent, before().Format("2006_01"), before().Format("2006-01-02+00"), before().AddDate(0, 1, 0).Format("2006-01-02+00"))
	}
	return b.String()
}

// filler writes rows as the gateway does and has them sequenced and signed.
type filler struct {
	conn *pgx.Conn
	dsn  string
	size int // of the tree in force
	n    int
}

func (f *filler) epoch(ctx context.Context, epoch uuid.UUID) error {
	f.size = 0
	_, err := f.conn.Exec(ctx, "delete from public.installation; insert into public.installation values ('"+installation.String()+"', '"+epoch.String()+"')")
	return err
}

// round writes rows until the tree has so many leaves, and waits for the checkpoint of all of them.
func (f *filler) round(ctx context.Context, size int) error {
	if err := f.rows(ctx, size-f.size); err != nil {
		return err
	}
	f.size = size
	return f.sequence(ctx, size)
}

// sequence runs a sequencer until it signs so many leaves.
func (f *filler) sequence(ctx context.Context, size int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	done := false
	q, err := tree.New(tree.Config{
		Connect: func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, f.dsn) },
		Epoch: func(ctx context.Context, conn *pgx.Conn) (installation, epoch uuid.UUID, err error) {
			err = conn.QueryRow(ctx, "select id, epoch from public.installation").Scan(&installation, &epoch)
			return installation, epoch, err
		},
		Signer: ours, Poll: time.Millisecond, RetryEvery: time.Millisecond, CheckpointEvery: time.Nanosecond, Logger: slog.New(slog.DiscardHandler),
		Observe: tree.Observe{Stored: func(s tree.Stored) {
			if s.Size == int64(size) {
				done = true
				cancel()
			}
		}},
	})
	if err != nil {
		return err
	}
	if err := q.Run(ctx); err != nil || !done {
		return fmt.Errorf("sequencing %d leaves: %w, %+v", size, err, q.Status())
	}
	return nil
}

// rows writes entries of many shapes, two of three with an outcome.
func (f *filler) rows(ctx context.Context, n int) error {
	tx, err := f.conn.Begin(ctx)
	if err != nil {
		return err
	}
	for n > 0 {
		f.n++
		e := sample(f.n)
		r, err := audit.Append(ctx, tx, e)
		if err != nil {
			return err
		}
		if n--; n > 0 && f.n%3 > 0 {
			if _, err := audit.AppendOutcome(ctx, tx, sampleOutcome(f.n, r.ID)); err != nil {
				return err
			}
			n--
		}
	}
	return tx.Commit(ctx)
}

// sample is an entry with all that projections meet: what is left out, what is cut, what is escaped.
func sample(n int) audit.Entry {
	e := audit.Entry{
		Kind: audit.KindRPC, Verdict: audit.Allowed, Method: "/machine.MachineService/Version", Class: "read",
		Caller: audit.Caller{
			Issuer: "https://id.example", Subject: fmt.Sprintf("u-%d", n%7), Name: "olga", Kind: "human",
			Groups: []string{"operators", "staff"}, Proof: "token", TokenID: "jti-0001",
		},
		ClientAddress: "10.5.0.17", MachineID: uuid.MustParse("018f2f6e-0000-7000-8000-000000000001"), MachineName: "worker-1",
		Cluster: "lab", NodeID: "n0d3", Epoch: firstEpoch, AuthorityVersion: 7, PolicyRevision: strings.Repeat("9f", 32),
		OPAVersion: "1.22.4", Count: 1, Instance: "gw-1", At: time.Now(),
		Facts: []byte(`{"version":1,"call":{"method":"x","instance":"not this one"},"codes":["nor this"]}`),
	}
	switch n % 6 {
	case 1:
		e.Verdict, e.Codes = audit.Denied, []string{"BW-CONFIG-004", "BW-MODE-001"}
	case 2:
		e.Caller.Subject, e.ClientAddress = "\"quoted\\ \x00\xff\tü\u2028", strings.Repeat("ä", 300)
		e.Codes = []string{strings.Repeat("c", 600), "with \x1f separator", ""}
	case 3:
		e = audit.Entry{Kind: audit.KindSystem, Verdict: audit.Refused, Detail: "a stranger", AuthorityVersion: -3, Count: 12345}
	case 4:
		e.DryRun, e.Mode, e.AttemptID, e.ChangeID = true, "no-reboot", uuid.MustParse("018f2f6e-0000-7000-8000-0000000000aa"), "ch-1"
		e.Digest, e.Base, e.Persistent = "hmac-sha256:k1:aa", "hmac-sha256:k1:bb", "hmac-sha256:k1:cc"
		e.Facts = []byte(`{"config":{"changes":[{"path":"machine.sysctls[\"net.core\"]","field":"machine.sysctls"},{"path":"machine.type","field":"machine.type"}]}}`)
	}
	return e
}

func sampleOutcome(n int, entry uuid.UUID) audit.Outcome {
	o := audit.Outcome{EntryID: entry, Kind: audit.OutcomeAnswered, Code: "OK", Message: "fine, \"really\"", Instance: "gw-1", BytesOut: int64(n)}
	if n%2 == 0 {
		o.Kind, o.State, o.AttemptID = audit.OutcomeState, "completed", uuid.MustParse("018f2f6e-0000-7000-8000-0000000000aa")
		o.Digest, o.Persistent, o.ActiveVersion, o.PersistentVersion = "sha256:k0:aa", "sha256:k0:bb", "1/2", "1/3"
		o.Caller, o.Duration = audit.Caller{Issuer: "https://id.example", Subject: "ada", Proof: "token"}, 1500*time.Microsecond
	}
	return o
}

// database is a copy of the filled book.
type database struct {
	name  string
	owner *pgx.Conn // superuser
}

func newDatabase(t testing.TB) database {
	t.Helper()
	name := shared.NewDatabaseName(t, filled)
	conn, err := pgx.Connect(t.Context(), shared.Server(t).DSN(name, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return database{name, conn}
}

// tamper does what only a superuser can: no trigger fires.
func (d database) tamper(t testing.TB, sql string) {
	t.Helper()
	if _, err := d.owner.Exec(t.Context(), `do $$ declare r regclass; begin
		for r in select oid from pg_class where relnamespace = 'audit'::regnamespace and relkind in ('r', 'p') loop
			execute format('alter table %s disable trigger all', r);
		end loop; end $$; `+sql); err != nil {
		t.Fatalf("%v in %s", err, sql)
	}
}

// text is one value as the superuser reads it.
func (d database) text(t testing.TB, sql string) string {
	t.Helper()
	var s string
	if err := d.owner.QueryRow(t.Context(), sql).Scan(&s); err != nil {
		t.Fatalf("%v in %s", err, sql)
	}
	return s
}

// verify runs the verification as the auditor.
func (d database) verify(t testing.TB, o Options) Report {
	t.Helper()
	r, err := Book(t.Context(), d.config(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// config is the auditor's login.
func (d database) config(t testing.TB) *pgx.ConnConfig {
	t.Helper()
	config, err := pgx.ParseConfig(shared.Server(t).DSN(d.name, "test_auditor"))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func (d database) moment(t testing.TB, sql string) (at time.Time) {
	t.Helper()
	if err := d.owner.QueryRow(t.Context(), sql).Scan(&at); err != nil {
		t.Fatal(err)
	}
	return at
}

// note signs a checkpoint.
func (s signer) note(t testing.TB, c tree.Checkpoint) string {
	t.Helper()
	public := s.key.Public().(ed25519.PublicKey)
	text, err := note.NewEd25519VerifierKey(tree.KeyName, public)
	if err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(text)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := note.Sign(&note.Note{Text: c.Text()}, noteSigner{v, s})
	if err != nil {
		t.Fatal(err)
	}
	return string(signed)
}

type noteSigner struct {
	note.Verifier
	s signer
}

func (n noteSigner) Sign(msg []byte) ([]byte, error) { return ed25519.Sign(n.s.key, msg), nil }
