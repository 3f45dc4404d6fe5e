package book

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/cli"
)

// filled is a book of n calls with an outcome each, in order.
func filled(t *testing.T, n int) (*world, []string) {
	t.Helper()
	w := newWorld(t)
	var all []string
	for range n {
		all = append(all, w.write(t, call("Version"), audit.Outcome{Kind: audit.OutcomeAnswered, Code: "OK", Message: "odd \u2028 \u200b text"}).String())
	}
	w.sequence(t)
	return w, all
}

func TestWhoeverHasTheExportCanComputeItsLeaves(t *testing.T) {
	w, all := filled(t, 3)
	got := w.run(t, "export")
	if got.err != nil {
		t.Fatal(got.err)
	}
	lines := strings.Split(strings.TrimSuffix(got.out, "\n"), "\n")
	if len(lines) != 6 {
		t.Fatalf("%d lines, want an entry and an outcome of 3 calls", len(lines))
	}
	for i, line := range lines {
		var l struct {
			V, Tree    int
			Index      int64
			Source     string
			ID         string
			RecordedAt time.Time `json:"recorded_at"`
			Leaf       string
			Record     json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		want := []string{"entry", "outcome"}[i%2]
		if l.V != 1 || l.Tree != 1 || l.Index != int64(i) || l.Source != want || want == "entry" && l.ID != all[i/2] {
			t.Errorf("line %d is %+v", i, l)
		}
		// RFC 6962, by hand: 0x00, the record, its time.
		data := binary.BigEndian.AppendUint64(append([]byte{0}, l.Record...), uint64(l.RecordedAt.UnixMicro()))
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != l.Leaf {
			t.Errorf("the leaf of line %d is not the one computed of it", i)
		}
	}
}

func TestAnExportGoesOnBehindItsLastWholeLine(t *testing.T) {
	w, _ := filled(t, 5)
	whole := w.run(t, "export").out
	lines := strings.SplitAfter(whole, "\n")
	for name, begun := range map[string]string{
		"not begun":             "",
		"half a first line":     lines[0][:20],
		"two lines":             lines[0] + lines[1],
		"two lines and a half":  lines[0] + lines[1] + lines[2][:30],
		"all but the last half": strings.TrimSuffix(whole, "\n")[:len(whole)-10],
		"all of it":             whole,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "book.jsonl")
			if begun != "" {
				mustWrite(t, path+".part", begun)
			}
			got := w.run(t, "export", "-f", path)
			raw, err := os.ReadFile(path)
			if got.err != nil || err != nil || string(raw) != whole {
				t.Errorf("%v, %v: got\n%s\nwant\n%s", got.err, err, raw, whole)
			}
			if _, err := os.Lstat(path + ".part"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the part is left: %v", err)
			}
			if got := w.run(t, "export", "-f", path); got.err == nil || !strings.Contains(got.err.Error(), "is there already") {
				t.Errorf("written over: %v", got.err)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "book.jsonl")
	mustWrite(t, path+".part", lines[0])
	if got := w.run(t, "export", "-f", path, "--format", "opa"); got.err == nil || !strings.Contains(got.err.Error(), "was not begun by --format opa") {
		t.Errorf("another format: %v", got.err)
	}
	if got := w.run(t, "export", "-f", path, "--after", uuid.NewString()); got.err == nil || !strings.Contains(got.err.Error(), "leave --after out") {
		t.Errorf("two places to go on: %v", got.err)
	}
}

func TestAnExportSharesItsFileWithNobody(t *testing.T) {
	w, _ := filled(t, 2)
	whole := w.run(t, "export").out
	path := filepath.Join(t.TempDir(), "book.jsonl")
	half := strings.SplitAfter(whole, "\n")[0] + "half a line of the one that writes"
	mustWrite(t, path+".part", half)
	first, err := openPart(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.file.WriteString("half a line"); err != nil {
		t.Fatal(err)
	}
	before := mustRead(t, path+".part")
	var usage cli.UsageError
	if got := w.run(t, "export", "-f", path); !errors.As(got.err, &usage) || !strings.Contains(got.err.Error(), "another export writes to") {
		t.Errorf("a second export: %v", got.err)
	}
	if now := mustRead(t, path+".part"); now != before {
		t.Errorf("the second one changed the file of the first to %q", now)
	}
	if err := first.finish(errors.New("ended early")); err != nil {
		t.Fatal(err)
	}
	if got := w.run(t, "export", "-f", path); got.err != nil || mustRead(t, path) != whole {
		t.Errorf("control, the first is over: %v", got.err)
	}

	// In a folder that others may write to, the name may be theirs.
	victim := filepath.Join(t.TempDir(), "victim")
	mustWrite(t, victim, "not a line")
	path = filepath.Join(t.TempDir(), "book.jsonl")
	if err := os.Symlink(victim, path+".part"); err != nil {
		t.Fatal(err)
	}
	if got := w.run(t, "export", "-f", path); got.err == nil || !strings.Contains(got.err.Error(), "is a link") || mustRead(t, victim) != "not a line" {
		t.Errorf("through a link: %v, the file behind it holds %q", got.err, mustRead(t, victim))
	}
}

func TestAnExportTakesARange(t *testing.T) {
	w, all := filled(t, 4)
	var second, third time.Time
	if err := w.owner.QueryRow(t.Context(), "select recorded_at from audit.entries where id = $1", all[1]).Scan(&second); err != nil {
		t.Fatal(err)
	}
	if err := w.owner.QueryRow(t.Context(), "select recorded_at from audit.entries where id = $1", all[2]).Scan(&third); err != nil {
		t.Fatal(err)
	}
	got := w.run(t, "export", "--since", second.Format(time.RFC3339Nano), "--until", third.Format(time.RFC3339Nano))
	if list := ids(t, got.out); got.err != nil || len(list) != 2 || list[0] != all[1] {
		t.Errorf("%v: %v", got.err, list)
	}
	if got := w.run(t, "export", "--after", all[2]); got.err != nil || strings.Count(got.out, "\n") != 3 || ids(t, got.out)[1] != all[3] {
		t.Errorf("behind the third: %v\n%s", got.err, got.out)
	}
	if got := w.run(t, "export", "--until", "2020-01-01"); got.err != nil || got.out != "" || !strings.Contains(got.errOut, "0 rows written") {
		t.Errorf("%v %q %q", got.err, got.out, got.errOut)
	}
	for _, args := range [][]string{{"--since=-1h"}, {"--since", "soon"}, {"--since", "2026-01-02", "--until", "2026-01-01"}} {
		if got := w.run(t, append([]string{"export"}, args...)...); got.err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}

func TestTheLawsDecisionsAreExportedAsOPAWritesThem(t *testing.T) {
	w := newWorld(t)
	sent := w.write(t, apply(), audit.Outcome{Kind: audit.OutcomeAnswered, Code: "OK"})
	w.write(t, audit.Entry{Kind: audit.KindRPC, Verdict: audit.Refused, Class: "no-credential", ClientAddress: "10.6.6.6", Count: 1})
	act := call("x")
	act.Kind, act.Method, act.Class, act.Verdict = audit.KindHTTP, "machines.pin", "act", audit.Denied
	w.write(t, act)
	w.sequence(t)
	got := w.run(t, "export", "--format", "opa")
	lines := strings.Split(strings.TrimSuffix(got.out, "\n"), "\n")
	if got.err != nil || len(lines) != 2 {
		t.Fatalf("%v: %d lines, want the two that the law decided:\n%s", got.err, len(lines), got.out)
	}
	var e map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &e); err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339Nano, e["timestamp"].(string))
	result, _ := e["result"].(map[string]any)
	bundles, _ := json.Marshal(e["bundles"])
	if err != nil || time.Since(at) > time.Hour || e["decision_id"] != sent.String() || e["path"] != "bronzeward/admission/decision" || result["allow"] != true ||
		len(result["reasons"].([]any)) != 1 || string(bundles) != `{"bronzeward":{"revision":"a7b7"}}` || e["requested_by"] != "10.0.0.7" || e["input"].(map[string]any)["version"] != 1.0 {
		t.Errorf("%v %s", err, lines[0])
	}
	if !strings.Contains(lines[1], `"path":"bronzeward/api/decision"`) || !strings.Contains(lines[1], `"allow":false`) {
		t.Errorf("the act: %s", lines[1])
	}
}

func TestARowThatIsGoneOrForgedIsNotPassedOver(t *testing.T) {
	w, all := filled(t, 3)
	for _, sql := range []string{
		"alter table audit.entries disable trigger user", "alter table audit.entries alter column leaf drop expression",
		"update audit.entries set record = convert_to('{\"a\":' || chr(10) || '1}', 'UTF8') where id = '" + all[0] + "'",
		"delete from audit.entries where id = '" + all[1] + "'",
	} {
		if _, err := w.owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	got := w.run(t, "export")
	lines := strings.Split(strings.TrimSuffix(got.out, "\n"), "\n")
	if got.err != nil || len(lines) != 6 || !strings.Contains(got.errOut, "2 rows have no record that reads as one") {
		t.Fatalf("%v, %d lines, %q", got.err, len(lines), got.errOut)
	}
	if !strings.HasSuffix(lines[0], `"record":null,"bytes":"eyJhIjoKMX0="}`) || !strings.HasSuffix(lines[2], `"record":null}`) {
		t.Errorf("%s\n%s", lines[0], lines[2])
	}
}

// many gives pages of rows without end, and counts those that were not written yet.
type many struct {
	n, given int64
	out      *counting
	most     int64 // ever given and not written
}

func (m *many) rows(_ context.Context, after, _ place, _ span, _ bool, limit int) ([]row, error) {
	n := min(int64(limit), m.n-m.given)
	page := make([]row, n)
	for i := range page {
		page[i] = row{place: place{1, after.index + int64(i) + 1}, source: "entry", id: uuid.UUID{15: 1}, leaf: make([]byte, 32), record: []byte(`{"v":1}`)}
	}
	m.most = max(m.most, m.given+n-m.out.lines.Load())
	m.given += n
	return page, nil
}

func (m *many) addRecords(context.Context, []row) error { return nil }

// counting counts lines.
type counting struct{ lines atomic.Int64 }

func (c *counting) Write(p []byte) (int, error) {
	c.lines.Add(int64(bytes.Count(p, []byte("\n"))))
	return len(p), nil
}

// Memory is flat because what is held is: told by counting rows, not bytes.
func TestAnExportHoldsAFewPagesHoweverMuchThereIs(t *testing.T) {
	const total = 1_000_000
	out := &counting{}
	m := &many{n: total, out: out}
	done, err := copyRows(t.Context(), m, place{1, -1}, theEnd(), span{}, formats()["jsonl"], out, uuid.Nil, func(int64) {})
	if err != nil || done.written != total || out.lines.Load() != total {
		t.Fatalf("%v: %+v, %d lines", err, done, out.lines.Load())
	}
	// A page is being read, one waits to be handed over, so many wait, and one is written.
	if bound := int64((3 + pagesAhead) * exportPage); m.most > bound {
		t.Errorf("%d rows were held at once, more than the bound %d", m.most, bound)
	}
	// The control: had all been read before any was written, it would have been seen.
	if m.most >= total/10 {
		t.Errorf("%d rows were held at once", m.most)
	}
}

// failing writes so many bytes and no more.
type failing struct{ room int }

func (f *failing) Write(p []byte) (int, error) {
	if len(p) > f.room {
		return f.room, errors.New("no space left")
	}
	f.room -= len(p)
	return len(p), nil
}

func TestAnExportThatCannotBeWrittenSaysSo(t *testing.T) {
	m := &many{n: 100_000, out: &counting{}}
	if _, err := copyRows(t.Context(), m, place{1, -1}, theEnd(), span{}, formats()["jsonl"], &failing{1 << 20}, uuid.Nil, func(int64) {}); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("%v", err)
	}
}

func TestAnInterruptedExportEndsWithAWholeLineAndSaysWhereToGoOn(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var out bytes.Buffer
	m := &stopping{many: many{n: 1 << 40, out: &counting{}}, stop: stop}
	done, err := copyRows(ctx, m, place{1, -1}, theEnd(), span{}, formats()["jsonl"], &out, uuid.Nil, func(int64) {})
	if !errors.Is(err, context.Canceled) || !strings.HasSuffix(out.String(), "}\n") || done.last == uuid.Nil || int64(strings.Count(out.String(), "\n")) != done.written {
		t.Errorf("%v: %+v, %d lines", err, done, strings.Count(out.String(), "\n"))
	}
}

// stopping ends the run after some pages, as an interrupt does.
type stopping struct {
	many
	stop  context.CancelFunc
	pages int
}

func (s *stopping) rows(ctx context.Context, after, last place, r span, entries bool, limit int) ([]row, error) {
	if s.pages++; s.pages == 5 {
		s.stop()
		return nil, ctx.Err()
	}
	return s.many.rows(ctx, after, last, r, entries, limit)
}

// FuzzLastLine holds that whatever a file holds, what stays ends with a line end, and that what is
// cut off had none.
func FuzzLastLine(f *testing.F) {
	for _, text := range []string{"", "\n", "a", "a\n", "a\nb", "a\nb\n", "\n\n", strings.Repeat("x", 1<<16) + "\n" + strings.Repeat("y", 1<<17) + "\nz"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := os.CreateTemp(t.TempDir(), "part")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.Write(text); err != nil {
			t.Fatal(err)
		}
		last, err := lastLine(file)
		if err != nil {
			t.Fatal(err)
		}
		left, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		end := bytes.LastIndexByte(text, '\n') + 1
		at, _ := file.Seek(0, io.SeekCurrent)
		if !bytes.Equal(left, text[:end]) || at != int64(end) {
			t.Errorf("of %q there is %q left, standing at %d", text, left, at)
		}
		whole := bytes.Split(left, []byte{'\n'})
		if end > 0 && !slices.Equal(last, whole[len(whole)-2]) || end == 0 && last != nil {
			t.Errorf("the last line of %q is %q", text, last)
		}
	})
}
