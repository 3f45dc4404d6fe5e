package verify

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"
)

// fieldsOf are the fields of a row whose columns are the record's projections, as COPY sends them, by an oracle that reads
// the record as any JSON.
func fieldsOf(t interface{ Fatalf(string, ...any) }, tab *table, record []byte) [][]byte {
	var all map[string]any
	d := json.NewDecoder(bytes.NewReader(record))
	d.UseNumber()
	if err := d.Decode(&all); err != nil {
		t.Fatalf("%v in %s", err, record)
	}
	for over, rename := range map[string]map[string]string{
		"caller":  {"issuer": "caller_issuer", "subject": "caller_subject", "kind": "caller_kind", "proof": "proof"},
		"machine": {"id": "machine_id", "name": "machine_name", "cluster": "cluster"},
	} {
		inner, _ := all[over].(map[string]any)
		for from, to := range rename {
			all[to] = inner[from]
		}
	}
	out := make([][]byte, len(tab.columns))
	out[columnRecord] = record
	for i, c := range tab.columns {
		v := all[c.name]
		switch c.kind {
		case textual:
			if s, ok := v.(string); ok {
				out[i] = []byte(shorten(s))
			}
		case uuidText:
			if s, ok := v.(string); ok {
				u := uuid.MustParse(s)
				out[i] = u[:]
			}
		case number:
			n, _ := v.(json.Number)
			x, _ := n.Int64()
			out[i] = binary.BigEndian.AppendUint64(nil, uint64(x))
		case truth:
			out[i] = []byte{0}
			if v == true {
				out[i][0] = 1
			}
		case words:
			if list, ok := v.([]any); ok {
				var short []string
				for _, w := range list {
					short = append(short, shorten(w.(string)))
				}
				split := strings.Split(strings.Join(short, "\x1f"), "\x1f")
				if len(split) == 1 && split[0] == "" { // string_to_array of nothing
					split = nil
				}
				out[i] = arrayOf(split)
			}
		}
	}
	return out
}

// shorten is audit.Projected, written again.
func shorten(s string) string {
	if len(s) <= 512 {
		return s
	}
	end := 512 - len("…[cut]")
	for s[end]&0xc0 == 0x80 {
		end--
	}
	return s[:end] + "…[cut]"
}

func arrayOf(list []string) []byte {
	if len(list) == 0 {
		return make([]byte, 12)
	}
	out := []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 25}
	out = binary.BigEndian.AppendUint32(out, uint32(len(list)))
	out = append(out, 0, 0, 0, 1)
	for _, s := range list {
		out = binary.BigEndian.AppendUint32(out, uint32(len(s)))
		out = append(out, s...)
	}
	return out
}

func TestAColumnIsItsRecordsProjection(t *testing.T) {
	for n := range 12 {
		o := sampleOutcome(n, uuid.New())
		o.ID = uuid.New()
		e := sample(n)
		e.ID = uuid.New()
		for _, row := range []struct {
			tab    *table
			record []byte
		}{{entries, e.Record()}, {outcomes, o.Record()}} {
			fields := fieldsOf(t, row.tab, row.record)
			values := make([]member, len(row.tab.columns))
			if got := row.tab.names(row.tab.differences(fields, values)); got != nil {
				t.Errorf("%v differ in %s", got, row.record)
			}
			for i, c := range row.tab.columns {
				if c.kind == beside {
					continue
				}
				was := fields[i]
				for _, other := range [][]byte{nil, {}, {1}, append(slices.Clone(was), 0), []byte("x"), make([]byte, 8), make([]byte, 12)} {
					if bytes.Equal(was, other) && (was == nil) == (other == nil) {
						continue
					}
					fields[i] = other
					if got := row.tab.names(row.tab.differences(fields, values)); !slices.Equal(got, []string{c.name}) {
						t.Errorf("%s is %q instead of %q, and %v differ", c.name, other, was, got)
					}
				}
				fields[i] = was
			}
		}
	}
}

func TestARecordThatIsNotCanonicalIsTold(t *testing.T) {
	e := sample(4)
	e.ID = uuid.New()
	record := string(e.Record())
	fields := fieldsOf(t, entries, []byte(record))
	values := make([]member, len(entries.columns))
	for what, text := range map[string]string{
		"another version": strings.Replace(record, `"v":1`, `"v":2`, 1), "no version": strings.Replace(record, `"v":1,`, "", 1),
		"white space": strings.Replace(record, `,"kind"`, `, "kind"`, 1), "a member twice": strings.Replace(record, `"kind":"rpc"`, `"kind":"rpc","kind":"rpc"`, 1),
		"out of order": strings.Replace(record, `"kind":"rpc","verdict":"allow"`, `"verdict":"allow","kind":"rpc"`, 1),
		"cut":          record[:100], "empty": "", "no object": "[]", "an object in the wrong place": strings.Replace(record, `"caller":{`, `"caller":[`, 1),
	} {
		if text == record {
			t.Fatalf("%s: the record is as it was", what)
		}
		fields[columnRecord] = []byte(text)
		if got := entries.names(entries.differences(fields, values)); !slices.Equal(got, []string{"record"}) {
			t.Errorf("%s: %v", what, got)
		}
	}
	// A member that this version does not know changes nothing.
	fields[columnRecord] = []byte(strings.Replace(record, `"kind":`, `"new":{"kind":["x"]},"kind":`, 1))
	if got := entries.names(entries.differences(fields, values)); got != nil {
		t.Errorf("a new member: %v", got)
	}
}

func FuzzScan(f *testing.F) {
	for n := range 6 {
		f.Add(sample(n).Record(), true)
		f.Add(sampleOutcome(n, uuid.New()).Record(), false)
	}
	f.Fuzz(func(t *testing.T, record []byte, entry bool) {
		tab := outcomes
		if entry {
			tab = entries
		}
		values := make([]member, len(tab.columns))
		if !scan(record, tab.members, values) || !json.Valid(record) {
			return
		}
		for i, v := range values {
			if v != nil && !json.Valid(v) {
				t.Errorf("%s is read as %q of %s", tab.columns[i].name, v, record)
			}
		}
	})
}

func FuzzCopy(f *testing.F) {
	head := append([]byte(copySignature), make([]byte, 8)...)
	row := []byte{0, 2, 0, 0, 0, 1, 'a', 0xff, 0xff, 0xff, 0xff}
	f.Add(slices.Concat(head, row, row, []byte{0xff, 0xff}), 7)
	f.Add(slices.Concat(head, []byte{0, 2, 0xff, 0xff, 0xff, 0xfe}), 3)
	f.Add(slices.Concat(head, []byte{0, 3}), 1)
	f.Fuzz(func(t *testing.T, stream []byte, piece int) {
		read := func(size int) (rows []string, err error) {
			r := newCopyReader(2, func(fields [][]byte) error {
				for _, x := range fields {
					rows = append(rows, string(x))
				}
				return nil
			})
			for chunk := range slices.Chunk(stream, max(size, 1)) {
				if _, err = r.Write(chunk); err != nil {
					return rows, err
				}
			}
			return rows, nil
		}
		whole, err := read(len(stream))
		pieces, pieceErr := read(piece % 50)
		if !errors.Is(err, pieceErr) || !slices.Equal(whole, pieces) {
			t.Errorf("in one: %q, %v; in pieces: %q, %v", whole, err, pieces, pieceErr)
		}
	})
}

func FuzzTextArray(f *testing.F) {
	f.Add(arrayOf(nil))
	f.Add(arrayOf([]string{"BW-MODE-001", ""}))
	f.Fuzz(func(t *testing.T, field []byte) {
		list, ok := textArray(field)
		if !ok {
			return
		}
		var texts []string
		for _, x := range list {
			texts = append(texts, string(x))
		}
		if again, ok := textArray(arrayOf(texts)); !ok || len(again) != len(list) {
			t.Errorf("%q reads as %q", field, list)
		}
	})
}

func TestTheTreeIsTheLibrarys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 1500).Draw(t, "leaves")
		var stored, leaves []tlog.Hash
		reader := tlog.HashReaderFunc(func(indexes []int64) (out []tlog.Hash, err error) {
			for _, i := range indexes {
				out = append(out, stored[i])
			}
			return out, nil
		})
		var all, tiles, low spine
		full := map[int64]hash{}
		for i := range int64(n) {
			leaf := tlog.RecordHash(binary.BigEndian.AppendUint64(nil, uint64(i)))
			leaves = append(leaves, leaf)
			more, err := tlog.StoredHashesForRecordHash(i, leaf, reader)
			if err != nil {
				t.Fatal(err)
			}
			stored = append(stored, more...)
			all.push(leaf, func(_ int, index int64, root hash) { full[index] = root })
			if low.push(leaf, nil); low.n == tileSize {
				tiles.push(low.root(nil), nil)
				low = spine{}
			}
		}
		want, err := tlog.TreeHash(int64(n), reader)
		if err != nil {
			t.Fatal(err)
		}
		if all.root(nil) != want {
			t.Error("the spine over leaves has another root")
		}
		joined := tiles.root(nil)
		if low.n > 0 {
			tail := low.root(nil)
			joined = tiles.root(&tail)
		}
		if joined != want {
			t.Error("the spine over tiles has another root")
		}
		for i, root := range full {
			if root != newBush(leaves[i*tileSize:(i+1)*tileSize]).root() {
				t.Errorf("tile %d has another root", i)
			}
		}
		few := leaves[:min(n, tileSize)]
		if b := newBush(few); true {
			k := rapid.IntRange(0, len(few)-1).Draw(t, "place")
			b.set(k, hash{1})
			changed := slices.Clone(few)
			changed[k] = hash{1}
			if b.root() != newBush(changed).root() {
				t.Error("a bush that was changed is not the bush of the change")
			}
			first, err := tlog.TreeHash(int64(len(few)), reader)
			if err != nil || newBush(few).root() != first {
				t.Errorf("a bush has another root than the library's tree: %v", err)
			}
		}
	})
}
