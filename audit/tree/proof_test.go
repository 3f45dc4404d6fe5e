package tree

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// proved is a database with checkpoints at 20 and 40 leaves, signed under two versions, and the proof of an entry with two
// outcomes made under the first.
func proved(t testing.TB) (db database, s *session, signer *localSigner, p Proof) {
	t.Helper()
	db, signer = newDatabase(t), newSigner(2)
	s = held(t, config(t, db, signer))
	fill(t, db, 7)
	r := write(t, db, 2)
	fill(t, db, 10)
	drain(t, s)
	sign(t, s)
	p, err := Prove(t.Context(), db.auditor, r.ID)
	if err != nil {
		t.Fatal(err)
	}
	return db, s, signer, p
}

// copyOf is p taken through its file.
func copyOf(t testing.TB, p Proof) Proof {
	t.Helper()
	text, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	q, err := ParseProof(text)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestAProofSaysWhatIsWrong(t *testing.T) {
	db, s, signer, p := proved(t)
	keys := signer.verifiers(t)
	fill(t, db, 20)
	drain(t, s)
	sign(t, s)
	later, err := Latest(t.Context(), db.auditor, 1)
	if err != nil {
		t.Fatal(err)
	}
	other := write(t, db, 1)
	drain(t, s)
	sign(t, s)
	foreign, err := Prove(t.Context(), db.auditor, other.ID)
	if err != nil {
		t.Fatal(err)
	}
	// A checkpoint of another installation by the same key.
	elsewhere := Checkpoint{Origin: Origin(uuid.New(), firstEpoch), Size: 40, Root: later.Root}
	text, err := (&signing{signer: signer}).sign(t.Context(), elsewhere, Stored{})
	if err != nil {
		t.Fatal(err)
	}
	outsider, err := ParseKeys((&localSigner{keys: newSigner(3).keys[2:]}).file(t))
	if err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		name   string
		change func(*Proof)
		keys   note.Verifiers
		is     error
		says   string
	}{
		{"control", func(*Proof) {}, nil, nil, ""},
		{"another key", func(*Proof) {}, outsider, ErrKey, "checkpoint 0"},
		{"no keys", func(*Proof) {}, note.VerifierList(), ErrKey, ""},
		{"the root in the checkpoint was changed", func(p *Proof) {
			p.Checkpoints[0] = strings.Replace(p.Checkpoints[0], "\n20\n", "\n21\n", 1)
		}, nil, ErrSignature, "did not sign"},
		{"no note", func(p *Proof) { p.Checkpoints[0] = "x" }, nil, ErrCheckpoint, "no signed note"},
		{"another size", func(p *Proof) { p.Checkpoints[0] = string(later.Note) }, nil, ErrPlace, "another index or size"},
		{"the record was altered", func(p *Proof) {
			p.Entry.Record = strings.Replace(p.Entry.Record, "u-4711", "u-4712", 1)
		}, nil, ErrAltered, "the entry"},
		{"the time was altered", func(p *Proof) {
			p.Outcomes[1].RecordedAt = "2020-01-01T00:00:00.000000Z"
		}, nil, ErrAltered, "outcome 2"},
		{"record and leaf were altered", func(p *Proof) {
			p.Entry.Record = strings.Replace(p.Entry.Record, "u-4711", "u-4712", 1)
			r, err := Prove(context.Background(), db.auditor, other.ID)
			if err != nil {
				t.Error(err)
			}
			p.Entry.Record, p.Entry.RecordedAt, p.Entry.Leaf = r.Entry.Record, r.Entry.RecordedAt, r.Entry.Leaf
		}, nil, ErrPlace, "does not lead to the root"},
		{"wrong index", func(p *Proof) { p.Entry.Index ^= 1 }, nil, ErrPlace, "does not lead"},
		{"index of another depth", func(p *Proof) { p.Entry.Index = 19 }, nil, ErrPlace, "another index or size"},
		{"index beyond the checkpoint", func(p *Proof) { p.Entry.Index = 20 }, nil, ErrPlace, "not under a checkpoint"},
		{"negative index", func(p *Proof) { p.Entry.Index = -1 }, nil, ErrPlace, "not under a checkpoint"},
		{"the path was altered", func(p *Proof) { p.Entry.Path[0][0] ^= 1 }, nil, ErrPlace, "does not lead"},
		{"the path is longer", func(p *Proof) { p.Entry.Path = append(p.Entry.Path, tlog.Hash{}) }, nil, ErrPlace, "6 hashes"},
		{"an outcome of another entry", func(p *Proof) {
			p.Checkpoints = append(p.Checkpoints, foreign.Checkpoints[0])
			in := foreign.Outcomes[0]
			in.Checkpoint = 1
			p.Outcomes = append(p.Outcomes, in)
		}, nil, ErrForeign, "it names entry"},
		{"an outcome twice", func(p *Proof) { p.Outcomes = append(p.Outcomes, p.Outcomes[0]) }, nil, ErrForeign, "outcome 1 again"},
		{"an outcome as the entry", func(p *Proof) { p.Entry = p.Outcomes[0] }, nil, nil, "no canonical record"},
		{"checkpoints of two installations", func(p *Proof) {
			p.Checkpoints = append(p.Checkpoints, string(text))
		}, nil, ErrForeign, "several installations"},
		{"no such checkpoint", func(p *Proof) { p.Entry.Checkpoint = 1 }, nil, ErrProof, "no checkpoint 1"},
		{"another version", func(p *Proof) { p.V = 2 }, nil, ErrProof, "version is 2"},
		{"a time in another spelling", func(p *Proof) {
			p.Entry.RecordedAt = strings.Replace(p.Entry.RecordedAt, "Z", "+00:00", 1)
		}, nil, ErrProof, "recorded_at"},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := copyOf(t, p)
			c.change(&changed)
			if c.keys == nil {
				c.keys = keys
			}
			err := changed.Check(c.keys)
			if c.says == "" && c.is == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %v and %q", err, c.is, c.says)
			}
		})
	}
}

func TestProveSaysWhatItLacks(t *testing.T) {
	db := newDatabase(t)
	s := held(t, config(t, db, newSigner(1)))
	if _, err := Prove(t.Context(), db.auditor, uuid.New()); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v, want ErrNotFound", err)
	}
	if _, err := Latest(t.Context(), db.auditor, 1); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v, want ErrNotFound", err)
	}
	r := write(t, db, 1)
	want := func(is error) {
		t.Helper()
		if _, err := Prove(t.Context(), db.auditor, r.ID); !errors.Is(err, is) {
			t.Errorf("%v, want %v", err, is)
		}
	}
	want(ErrNotSigned) // waits
	drain(t, s)
	want(ErrNotSigned) // no checkpoint
	sign(t, s)
	want(nil)
	later := write(t, db, 0)
	drain(t, s)
	if _, err := Prove(t.Context(), db.auditor, later.ID); !errors.Is(err, ErrNotSigned) {
		t.Errorf("%v, want ErrNotSigned under a checkpoint that does not cover it", err)
	}
	want(nil)
	change(t, db, "alter table audit.leaves disable trigger all; update audit.leaves set leaf = sha256('x') where index = 0")
	want(ErrBroken)
	change(t, db, "update audit.leaves set leaf = e.leaf from audit.entries e where e.id = leaves.id")
	want(nil)
	change(t, db, "update audit.leaves set leaf = sha256('x') where index = 1; alter table audit.outcomes disable trigger all; delete from audit.outcomes")
	want(ErrBroken)
}

func TestParseProofIsStrict(t *testing.T) {
	_, _, signer, p := proved(t)
	text, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		t.Fatal(err)
	}
	if q, err := ParseProof(compact.Bytes()); err != nil || q.Check(signer.verifiers(t)) != nil {
		t.Errorf("without white space: %v", err)
	}
	replace := func(old, by string) string { return strings.Replace(compact.String(), old, by, 1) }
	for name, bad := range map[string]string{
		"empty":                   "",
		"no object":               "[]",
		"null":                    "null",
		"something follows":       compact.String() + "{}",
		"unknown member":          replace(`{"v":1`, `{"x":1,"v":1`),
		"unknown inner member":    replace(`"record":`, `"x":1,"record":`),
		"other spelling":          replace(`"entry"`, `"Entry"`),
		"member twice":            replace(`{"v":1`, `{"v":1,"v":1`),
		"inner member twice":      replace(`"index":`, `"index":1,"index":`),
		"missing member":          replace(`"v":1,`, ``),
		"missing inner member":    replace(`"checkpoint":0,`, ``),
		"null member":             `{"v":1,"checkpoints":null,"entry":null,"outcomes":null}`,
		"other version":           replace(`"v":1`, `"v":2`),
		"short hash":              replace(`"leaf":"`, `"leaf":"AA`),
		"negative with fraction":  replace(`"index":`, `"index":-1.5e3,"x":`),
		"outcomes no list":        `{"v":1,"checkpoints":[],"entry":{},"outcomes":{}}`,
		"outcomes with a string":  replace(`"outcomes":[`, `"outcomes":["x",`),
		"checkpoints with number": replace(`"checkpoints":[`, `"checkpoints":[1,`),
	} {
		if bad == compact.String() {
			t.Fatalf("%s: nothing was changed", name)
		}
		if _, err := ParseProof([]byte(bad)); !errors.Is(err, ErrProof) {
			t.Errorf("%s: %v, want ErrProof", name, err)
		}
	}
}

// Whatever a proof's file says, it is refused or checked, and what is checked shows what was recorded.
func FuzzProof(f *testing.F) {
	p, signer := sample(f)
	keys := signer.verifiers(f)
	text, err := p.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"v":1,"checkpoints":[],"entry":{"record":"","recorded_at":"","leaf":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","checkpoint":0,"index":0,"path":[]},"outcomes":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		q, err := ParseProof(text)
		if err != nil {
			return
		}
		if q.Check(keys) == nil && (q.Entry.Record != p.Entry.Record || q.Entry.Index != p.Entry.Index || q.Entry.RecordedAt != p.Entry.RecordedAt) {
			t.Errorf("another record is proven: %+v", q.Entry)
		}
	})
}

func TestRecordsThatJSONWouldChangeStay(t *testing.T) {
	db := newDatabase(t)
	signer := newSigner(1)
	s := held(t, config(t, db, signer))
	r := write(t, db, 0) // its caller's name has < and >
	drain(t, s)
	sign(t, s)
	p, err := Prove(t.Context(), db.auditor, r.ID)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(p) // escapes < and >
	if err != nil || !bytes.Contains(text, []byte(`\u003c`)) {
		t.Fatalf("%v: %s", err, text)
	}
	q, err := ParseProof(text)
	if err != nil || q.Check(signer.verifiers(t)) != nil {
		t.Errorf("%v", err)
	}
}
