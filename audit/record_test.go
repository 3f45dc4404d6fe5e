package audit

import (
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fullOutcome has every field that an outcome can have.
func fullOutcome() Outcome {
	return Outcome{
		ID: uuid.MustParse("018f2f6e-0000-7000-8000-0000000000cc"), EntryID: uuid.MustParse("018f2f6e-0000-7000-8000-0000000000bb"),
		AttemptID: uuid.MustParse("018f2f6e-0000-7000-8000-0000000000aa"), Kind: OutcomeAccounted, State: "accounted",
		Code: "DeadlineExceeded", Message: "no answer\nin time", Digest: "hmac-sha256:k1:aa", Persistent: "hmac-sha256:k1:bb",
		ActiveVersion: "2026-05-04T03:00:00Z/4", PersistentVersion: "2026-05-04T03:00:00Z/3",
		Caller:   Caller{Issuer: "https://id.example", Subject: "u-1", Name: "rita", Kind: "human", Groups: []string{"recovery"}, Proof: "certificate"},
		Duration: 1500*time.Microsecond + 7*time.Nanosecond, BytesOut: 321, Instance: "gw-1",
	}
}

func TestRecordBytesNeverChange(t *testing.T) {
	full := deniedApply()
	full.ID = uuid.MustParse("018f2f6e-0000-7000-8000-0000000000bb")
	least := Entry{ID: full.ID, Kind: KindSystem, Verdict: Refused}
	for name, record := range map[string][]byte{
		"entry-full.json": full.Record(), "entry-least.json": least.Record(), "outcome-full.json": fullOutcome().Record(),
		"outcome-least.json": Outcome{ID: full.ID, EntryID: full.ID, Kind: OutcomeAnswered}.Record(),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(path, record, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(record)); diff != "" {
				t.Errorf("the canonical bytes moved, and with them every leaf hash (-golden +got; go test ./audit -run Bytes -update writes them):\n%s", diff)
			}
		})
	}
}

func TestLeafOfKnownRecord(t *testing.T) {
	// A zero byte, the record {}, the microseconds in eight bytes.
	at := time.UnixMicro(0x0005de2bfb2ca240)
	raw, err := hex.DecodeString("00" + "7b7d" + "0005de2bfb2ca240")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := Leaf([]byte("{}"), at), sha(raw); got != want {
		t.Errorf("leaf %x, want %x", got, want)
	}
}

func TestParsedRecordWritesTheSameBytes(t *testing.T) {
	for name, e := range map[string]Entry{"read": readEntry(), "denied apply": deniedApply(), "least": {Kind: KindHTTP, Verdict: Denied}} {
		got, err := ParseEntry(e.Record())
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(e.clean().columns(nil), got.columns(nil)); diff != "" {
			t.Errorf("%s: the projections of the record are not those of the entry:\n%s", name, diff)
		}
	}
	got, err := ParseOutcome(fullOutcome().Record())
	if diff := cmp.Diff(fullOutcome().clean(), got); err != nil || diff != "" {
		t.Errorf("outcome: %v\n%s", err, diff)
	}
}

func TestOnlyCanonicalRecordsAreRead(t *testing.T) {
	good := string(readEntry().Record())
	for name, bad := range map[string]string{
		"empty": "", "no object": "[]", "white space": strings.Replace(good, ",", ", ", 1), "more behind": good + "{}",
		"another version": strings.Replace(good, `{"v":1`, `{"v":2`, 1), "unknown member": strings.Replace(good, `{"v":1`, `{"v":1,"x":1`, 1),
		"zero value written out": strings.Replace(good, `"kind":"rpc"`, `"kind":"rpc","mode":""`, 1),
		"member twice":           strings.Replace(good, `"kind":"rpc"`, `"kind":"rpc","kind":"rpc"`, 1),
		"other case":             strings.Replace(good, `"kind"`, `"Kind"`, 1),
	} {
		if _, err := ParseEntry([]byte(bad)); err == nil {
			t.Errorf("%s: read", name)
		}
	}
	if _, err := ParseEntry([]byte(good)); err != nil {
		t.Errorf("control: %v", err)
	}
}

func TestEscapeShowsWhatPostgreSQLRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"plain":          "plain",
		"a\x00b":         `a\x00b`,
		"a\xffb\xc3":     `a\xffb\xc3`,
		"\xed\xa0\x80":   `\xed\xa0\x80`, // a surrogate
		"ü\u2028\ufffd€": "ü\u2028\ufffd€",
		`a\x00`:          `a\x00`,
		"tab\tand\x1b":   "tab\tand\x1b",
	} {
		if got := escape(in); got != want {
			t.Errorf("escape(%q) = %q, want %q", in, got, want)
		}
	}
	if got := escape(strings.Repeat("ü", maxText)); len(got) > maxText || !strings.HasSuffix(got, "ü"+cutMark) {
		t.Errorf("a long text is %d bytes and ends in %q", len(got), got[len(got)-12:])
	}
}

func TestFactsStayJSONThatPostgreSQLReads(t *testing.T) {
	for in, want := range map[string]string{
		``:                          ``,
		` { "a" : [ 1 , "x y" ] } `: `{"a":[1,"x y"]}`,
		`{"a":"\u0000"}`:            `{"a":"\\x00"}`,
		`{"a":"\\u0000"}`:           `{"a":"\\u0000"}`,
		`{"a":"\ud800"}`:            `{"a":"\ufffd"}`,
		`{"a":"\ud83d\ude00"}`:      `{"a":"\ud83d\ude00"}`,
		`{"a":"\ud800\u0041"}`:      `{"a":"\ufffd\u0041"}`,
		"{\"a\":\"\xff\"}":          `{"a":"\\xff"}`,
		`{"a":`:                     `"{\"a\":"`,
		`1e400`:                     `1e400`,
	} {
		if got := string(cleanJSON([]byte(in))); got != want {
			t.Errorf("cleanJSON(%q) = %s, want %s", in, got, want)
		}
	}
}

func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "a\x00b", "\xff\xfe", "ü", strings.Repeat("\x00", maxText), strings.Repeat("x", maxText-1) + "ü"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := escape(s)
		switch {
		case !utf8.ValidString(got) || strings.ContainsRune(got, 0):
			t.Errorf("%q is not fit for PostgreSQL", got)
		case len(got) > maxText:
			t.Errorf("%d bytes", len(got))
		case escape(got) != got:
			t.Error("escaping twice is not escaping once")
		case len(s) <= maxText && utf8.ValidString(s) && !strings.ContainsRune(s, 0) && got != s:
			t.Errorf("%q became %q", s, got)
		}
	})
}

func FuzzRecord(f *testing.F) {
	f.Add("a\x00", []byte(`{"a":"\u0000\ud800"}`), int64(3))
	f.Add("\xff\"\\\n\x01", []byte("{"), int64(-1))
	f.Add("", []byte(" [1 , 2]"), int64(0))
	f.Fuzz(func(t *testing.T, s string, facts []byte, n int64) {
		e := Entry{
			Kind: Kind(s), Verdict: Verdict(s), Method: s, Caller: Caller{Subject: s, Groups: []string{s}}, MachineName: s,
			Codes: []string{s}, Facts: facts, Count: n, At: time.UnixMicro(n),
		}
		record := e.Record()
		if !json.Valid(record) || !utf8.Valid(record) {
			t.Fatalf("no JSON: %q", record)
		}
		if _, err := ParseEntry(record); err != nil {
			t.Errorf("%v: %s", err, record)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(deniedApply().Record())
	f.Add(fullOutcome().Record())
	f.Add([]byte(`{"v":1,"facts":`))
	f.Fuzz(func(t *testing.T, record []byte) {
		if e, err := ParseEntry(record); err == nil && string(e.Record()) != string(record) {
			t.Error("an entry was read that writes other bytes")
		}
		if o, err := ParseOutcome(record); err == nil && string(o.Record()) != string(record) {
			t.Error("an outcome was read that writes other bytes")
		}
	})
}
