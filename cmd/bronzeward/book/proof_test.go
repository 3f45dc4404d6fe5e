package book

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"bronzeward/audit"
	"bronzeward/audit/tree"
	"bronzeward/cmd/bronzeward/cli"
)

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

// file is the public key file.
func (s signer) file(t *testing.T) string {
	t.Helper()
	text, err := tree.VerifierKey(s.key.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "checkpoint.pub")
	mustWrite(t, path, "# keys of the book\n"+text+"\n")
	return path
}

// sign runs a sequencer until every row is under a checkpoint of the epoch.
func (w *world) sign(t *testing.T, s signer, epoch uuid.UUID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	signed := w.signing(t, ctx, s, epoch)
	for size := range signed {
		var waits, leaves int64
		if err := w.owner.QueryRow(ctx, "select (select count(*) from audit.unsequenced), (select count(*) from audit.leaves join audit.trees using (tree) where epoch = $1)", epoch).Scan(&waits, &leaves); err != nil {
			t.Fatal(err)
		}
		if waits == 0 && leaves == size {
			cancel()
			for range signed {
			}
			return
		}
	}
	t.Fatal("nothing was signed")
}

// signing runs a sequencer until ctx ends, and gives the size of each checkpoint.
func (w *world) signing(t *testing.T, ctx context.Context, s signer, epoch uuid.UUID) <-chan int64 {
	t.Helper()
	signed := make(chan int64, 1000)
	q, err := tree.New(tree.Config{
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			return pgx.ConnectConfig(ctx, w.owner.Config().ConnConfig)
		},
		Epoch: func(context.Context, *pgx.Conn) (uuid.UUID, uuid.UUID, error) {
			return installation, epoch, nil
		},
		Signer: s, Poll: time.Millisecond, RetryEvery: time.Millisecond, CheckpointEvery: time.Nanosecond, Logger: slog.New(slog.DiscardHandler),
		Observe: tree.Observe{Stored: func(s tree.Stored) { signed <- s.Size }},
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(signed)
		if err := q.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	return signed
}

// tamper does what only a superuser can.
func (w *world) tamper(t *testing.T, sql string) {
	t.Helper()
	if _, err := w.owner.Exec(t.Context(), `do $$ declare r regclass; begin
		for r in select oid from pg_class where relnamespace = 'audit'::regnamespace and relkind in ('r', 'p') loop
			execute format('alter table %s disable trigger all', r);
		end loop; end $$; `+sql); err != nil {
		t.Fatal(err)
	}
}

func notWhole(err error) bool {
	var e cli.NotWholeError
	return errors.As(err, &e)
}

func usage(err error) bool {
	var e cli.UsageError
	return errors.As(err, &e)
}

// has fails unless the text holds all the words.
func has(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in\n%s", w, text)
		}
	}
}

func TestVerifyTellsWhetherTheBookIsWhole(t *testing.T) {
	w, ours := newWorld(t), newSigner("ours")
	id := w.write(t, apply(), audit.Outcome{Kind: audit.OutcomeAnswered, Code: "OK"})
	w.write(t, call("Version"))
	w.sign(t, ours, firstEpoch)
	key, kept := ours.file(t), filepath.Join(t.TempDir(), "kept")
	if r := w.run(t, "checkpoint", "--public-key", key, "--keep", kept); r.err != nil {
		t.Fatal(r.err)
	}

	r := w.run(t, "verify", "--public-key", key, "--checkpoint", kept)
	if r.err != nil {
		t.Error(r.err)
	}
	has(t, r.out, "the book is whole", "3 leaves", "1 you kept agree", "any two are consistent", "2 entries and 1 outcomes")
	r = w.run(t, "verify")
	has(t, r.out, "signatures were NOT checked", "held to no checkpoint of yours")
	if r := w.run(t, "verify", "--public-key", newSigner("another").file(t)); !notWhole(r.err) {
		t.Errorf("another key: %v", r.err)
	} else {
		has(t, r.out, "signature", "the public key is not this installation's")
	}

	w.tamper(t, "insert into audit.terms select field, E'mallory\\x1b[2J', recorded_at, id from audit.terms where term = 'BW-X-001'")
	if r = w.run(t, "verify", "--public-key", key); !notWhole(r.err) || !strings.Contains(r.err.Error(), "not whole: 1 term") {
		t.Errorf("a term too many: %v", r.err)
	}
	has(t, r.out, "term", "terms 1/0", id.String(), `code "mallory\x1b[2J"`)
	w.tamper(t, "delete from audit.terms where term like 'mallory%'")
	if r = w.run(t, "verify", "--public-key", key); r.err != nil {
		t.Errorf("it was taken out again: %v", r.err)
	}

	w.tamper(t, "update audit.entries set caller_subject = 'mallory' where id = '"+id.String()+"'")
	if r = w.run(t, "verify", "--public-key", key); !notWhole(r.err) {
		t.Errorf("a changed column: %v", r.err)
	}
	has(t, r.out, "column", id.String(), "caller_subject", "entries 1/0")
	has(t, r.err.Error(), "the book is not whole: 1 column")
	if strings.Contains(r.out, "mallory") || strings.Contains(r.out, "olga") || strings.Contains(r.out, "the book is whole") {
		t.Errorf("tells what a record says:\n%s", r.out)
	}
	var report struct {
		Whole    bool
		Findings []struct{ Kind, ID string }
	}
	if r := w.run(t, "verify"); json.Unmarshal([]byte(runJSON(t, w, "verify").out), &report) != nil || report.Whole || report.Findings[0].ID != id.String() {
		t.Errorf("%+v from %s", report, r.out)
	}
}

func portOf(c *pgx.ConnConfig) string { return strconv.Itoa(int(c.Port)) }

func runJSON(t *testing.T, w *world, args ...string) ran {
	t.Helper()
	return w.run(t, append(args, "-o", "json")...)
}

func TestVerifyRefusesWhatItCannotUse(t *testing.T) {
	w := newWorld(t)
	odd := filepath.Join(t.TempDir(), "odd")
	mustWrite(t, odd, "no checkpoint, no key, no proof")
	for _, args := range [][]string{
		{"verify", "--since", "soon"},
		{"verify", "--limit", "0"},
		{"verify", "--detached", "May"},
		{"verify", "--checkpoint", odd},
		{"verify", "--checkpoint", odd + "x"},
		{"verify", "--public-key", odd},
		{"check", odd, "--public-key", odd},
		{"prove", "x"},
		{"checkpoint", "--follow"},
		{"checkpoint", "--keep", odd, "--every", "0s"},
	} {
		if r := w.run(t, args...); !usage(r.err) {
			t.Errorf("%v: %v", args, r.err)
		}
	}
	t.Setenv(auditorURL, "")
	if r := runAt(t, t.Context(), noConfig{}, cli.Console{}, "verify"); !usage(r.err) || !strings.Contains(r.err.Error(), "PGHOST") {
		t.Errorf("no login: %v", r.err)
	}
}

func TestTheDatabaseIsFoundAsPsqlFindsIt(t *testing.T) {
	w := newWorld(t)
	w.write(t, call("Version"))
	w.sign(t, newSigner("ours"), firstEpoch)
	config, err := pgx.ParseConfig(w.auditor)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PGHOST", config.Host)
	t.Setenv("PGPORT", "1")
	t.Setenv("PGDATABASE", config.Database)
	t.Setenv("PGUSER", config.User)
	if r := runAt(t, t.Context(), noConfig{}, cli.Console{}, "verify"); !cli.IsUnavailable(r.err) {
		t.Errorf("nobody listens there: %v", r.err)
	}
	for name, value := range map[string]string{"PGPORT": portOf(config), "PGPASSWORD": config.Password} {
		t.Setenv(name, value)
	}
	if r := runAt(t, t.Context(), noConfig{}, cli.Console{}, "verify"); r.err != nil {
		t.Error(r.err)
	}
}

func TestAProofIsCheckedByWhoeverHasTheKeyAlone(t *testing.T) {
	w, ours := newWorld(t), newSigner("ours")
	w.write(t, call("Version"))
	id := w.write(t, apply(), audit.Outcome{Kind: audit.OutcomeState, State: "completed", AttemptID: apply().AttemptID}, audit.Outcome{Kind: audit.OutcomeReadBack, Digest: "sha256:k0:new"})
	key := ours.file(t)

	var early cli.NotYetError
	if r := w.run(t, "prove", id.String()); !errors.As(r.err, &early) || r.out != "" {
		t.Errorf("not signed yet: %v", r.err)
	} else {
		has(t, r.err.Error(), "not under a checkpoint yet", "--wait")
	}
	if r := w.run(t, "prove", uuid.NewString()); r.err == nil || !strings.Contains(r.err.Error(), "no decision has the id") {
		t.Error(r.err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	signed := w.signing(t, ctx, ours, firstEpoch)
	r := w.run(t, "prove", "--wait", id.String())
	cancel()
	for range signed {
	}
	if r.err != nil {
		t.Fatal(r.err)
	}
	proof := filepath.Join(t.TempDir(), "proof.json")
	mustWrite(t, proof, r.out)

	// No database, no configuration, no network: nothing that could be asked is named.
	check := func(args ...string) ran {
		return runAt(t, t.Context(), nil, cli.Console{}, append([]string{"check"}, args...)...)
	}
	r = check(proof, "--public-key", key)
	if r.err != nil {
		t.Fatal(r.err)
	}
	has(t, r.out, id.String(), "ALLOWED", "Olga Operator, olga of https://people.example", "worker-1 in lab", "sha256:k0:new", "now completed", "the machine holds",
		"proven: the decision stands in the book of bronzeward/"+installation.String()+"/"+firstEpoch.String(), "is leaf", "signed by bronzeward+", "outcome 2, read-back")
	var view proven
	if err := json.Unmarshal([]byte(check(proof, "--public-key", key, "-o", "json").out), &view); err != nil || !view.Proven || view.Decision.ID != id.String() || len(view.Outcomes) != 2 || view.Outcomes[1].Place.Size < 4 {
		t.Errorf("%v %+v", err, view)
	}
	if r := check(proof, "--public-key", newSigner("another").file(t)); !notWhole(r.err) {
		t.Errorf("another key: %v", r.err)
	} else {
		has(t, r.err.Error(), "nothing is proven", "signed by another key", "not this installation's")
	}
	whole, err := os.ReadFile(proof)
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string][2]string{
		"the verdict": {`\"allow\"`, `\"deny\"`}, "the place": {`"index": `, `"index": 1`}, "the outcome": {"completed", "uncertain"}, "the origin": {"5b0f8f5e-1111", "5b0f8f5e-1112"},
		"a member": {`"v": 1,`, `"v": 1, "w": 2,`}, "the version": {`"v": 1,`, `"v": 2,`},
	} {
		text := strings.Replace(string(whole), change[0], change[1], 1)
		if text == string(whole) {
			t.Fatalf("%s is not in the proof", what)
		}
		mustWrite(t, proof, text)
		if r := check(proof, "--public-key", key); !notWhole(r.err) || r.out != "" {
			t.Errorf("%s was altered: %v\n%s", what, r.err, r.out)
		}
	}

	// A book that contradicts itself gives no proof.
	w.tamper(t, "update audit.leaves set leaf = sha256('x') where id = '"+id.String()+"'")
	if r := w.run(t, "prove", id.String()); !notWhole(r.err) || r.out != "" {
		t.Errorf("a broken book: %v", r.err)
	}
}

func TestAKeptCheckpointIsFollowed(t *testing.T) {
	w, ours := newWorld(t), newSigner("ours")
	key, kept := ours.file(t), filepath.Join(t.TempDir(), "kept")
	keep := []string{"checkpoint", "--public-key", key, "--keep", kept}
	read := func(path string) string {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	var early cli.NotYetError
	if r := w.run(t, keep...); !errors.As(r.err, &early) {
		t.Errorf("no checkpoint yet: %v", r.err)
	}
	w.write(t, call("Version"))
	w.sign(t, ours, firstEpoch)
	r := w.run(t, keep...)
	if first := read(kept); r.err != nil || r.out != first || !strings.HasPrefix(first, "bronzeward/"+installation.String()) {
		t.Errorf("%v, printed %q, kept %q", r.err, r.out, first)
	}
	for range 5 {
		w.write(t, call("Version"))
	}
	w.sign(t, ours, firstEpoch)
	if r := w.run(t, keep...); r.err != nil || !strings.Contains(read(kept), "\n6\n") {
		t.Errorf("grown: %v, %s", r.err, read(kept))
	}
	six := read(kept)
	if r := w.run(t, "checkpoint", "--public-key", newSigner("another").file(t), "--keep", kept); !notWhole(r.err) || read(kept) != six {
		t.Errorf("another key: %v", r.err)
	}
	if r := w.run(t, "checkpoint"); r.err != nil || r.out != six || !strings.Contains(r.errOut, "NOT checked") {
		t.Errorf("without a key: %v %s", r.err, r.errOut)
	}

	// A recovery: the book goes on in a new tree.
	w.write(t, call("Version"))
	w.sign(t, ours, secondEpoch)
	if r := w.run(t, keep...); r.err != nil || !strings.Contains(r.errOut, "a new epoch began") || !strings.Contains(read(kept), secondEpoch.String()) || read(kept+"."+firstEpoch.String()) != six {
		t.Errorf("a new epoch: %v %s", r.err, r.errOut)
	}
	second := read(kept)

	// Rolled back: the second tree is gone, then the end of the first one.
	w.tamper(t, "delete from audit.checkpoints where tree = 2; delete from audit.trees where tree = 2")
	if r := w.run(t, keep...); !notWhole(r.err) || !errors.Is(r.err, tree.ErrRolledBack) || read(kept) != second {
		t.Errorf("the epoch is gone: %v", r.err)
	}
	mustWrite(t, kept, six)
	w.tamper(t, "delete from audit.checkpoints where size = 6; delete from audit.leaves where tree = 1 and index >= 3")
	if r := w.run(t, keep...); !notWhole(r.err) || !errors.Is(r.err, tree.ErrRolledBack) || read(kept) != six {
		t.Errorf("rolled back: %v", r.err)
	} else {
		has(t, r.err.Error(), "THE BOOK IS NOT THE ONE YOU KEPT A CHECKPOINT OF")
	}
	// Forked: as many leaves, others.
	w.write(t, call("Version"))
	w.write(t, call("Version"))
	w.write(t, call("Version"))
	w.write(t, call("Version"))
	w.sign(t, ours, firstEpoch)
	if r := w.run(t, keep...); !notWhole(r.err) || !errors.Is(r.err, tree.ErrForked) || read(kept) != six {
		t.Errorf("forked: %v", r.err)
	}
}

// script gives one answer after the other.
type script struct {
	answers []func() (tree.Stored, error)
	proofs  map[int64]tlog.TreeProof
}

func (s *script) newest(context.Context) (tree.Stored, error) {
	a := s.answers[0]
	s.answers = s.answers[1:]
	return a()
}

func (s *script) last(context.Context, string) (tree.Stored, error) {
	return tree.Stored{}, tree.ErrNotFound
}

func (s *script) consistency(_ context.Context, of tree.Stored, older int64) (tlog.TreeProof, error) {
	return s.proofs[of.Size], nil
}

func TestFollowingGoesOnOverAnOutageAndEndsWithARollBack(t *testing.T) {
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) (out []tlog.Hash, err error) {
		for _, i := range indexes {
			out = append(out, stored[i])
		}
		return out, nil
	})
	heads := map[int64]tree.Stored{}
	for n := range int64(9) {
		leaf := tlog.RecordHash([]byte{byte(n)})
		more, err := tlog.StoredHashesForRecordHash(n, leaf, reader)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, more...)
		root, err := tlog.TreeHash(n+1, reader)
		if err != nil {
			t.Fatal(err)
		}
		c := tree.Checkpoint{Origin: tree.Origin(installation, firstEpoch), Installation: installation, Epoch: firstEpoch, Size: n + 1, Root: root}
		c.Note = []byte(c.Text() + "\n— bronzeward AAAAAAAA\n")
		heads[n+1] = tree.Stored{Tree: 1, Checkpoint: c}
	}
	give := func(size int64) func() (tree.Stored, error) {
		return func() (tree.Stored, error) { return heads[size], nil }
	}
	fail := func() (tree.Stored, error) { return tree.Stored{}, cli.Unavailable(errors.New("the database is away")) }
	proof, err := tlog.ProveTree(7, 3, reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &script{proofs: map[int64]tlog.TreeProof{7: proof}, answers: []func() (tree.Stored, error){
		func() (tree.Stored, error) { return tree.Stored{}, tree.ErrNotFound }, give(3), give(3), fail, fail, give(7), give(5), give(9),
	}}
	var out, errOut strings.Builder
	g := &cli.Globals{Output: "table", Console: cli.Console{Out: &out, ErrOut: &errOut, Pause: time.Nanosecond}}
	k := &keeper{g: g, where: s, file: filepath.Join(t.TempDir(), "kept")}
	err = k.run(t.Context(), true, time.Hour)
	if !notWhole(err) || !errors.Is(err, tree.ErrRolledBack) || len(s.answers) != 1 {
		t.Errorf("%v, %d answers left", err, len(s.answers))
	}
	if want := string(heads[3].Note) + string(heads[7].Note); out.String() != want {
		t.Errorf("printed %q", out.String())
	}
	if n := strings.Count(errOut.String(), "the database is away"); n != 1 {
		t.Errorf("the outage was told %d times:\n%s", n, errOut.String())
	}
	has(t, errOut.String(), "no checkpoint yet", "answers again")

	// A proof that is none is a fork.
	s = &script{proofs: map[int64]tlog.TreeProof{9: proof}, answers: []func() (tree.Stored, error){give(9)}}
	if err := (&keeper{g: g, where: s, file: k.file}).look(t.Context()); !errors.Is(err, tree.ErrForked) {
		t.Errorf("a wrong proof: %v", err)
	}
}
