package tree

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"bronzeward/audit"
)

var update = flag.Bool("update", false, "write testdata anew")

// sample is a proof that is the same in every process: an entry at index 7 and its two outcomes behind it, in a tree of 20.
func sample(t testing.TB) (Proof, *localSigner) {
	t.Helper()
	at := time.Date(2026, 5, 4, 3, 2, 1, 123456000, time.UTC)
	entry := audit.Entry{
		ID: uuid.MustParse("018f2f6e-0000-7000-8000-000000000001"), Kind: audit.KindRPC, Verdict: audit.Allowed,
		Method: "/machine.MachineService/Version", Class: "read", Count: 1, Instance: "gw-1", At: at,
		Caller: audit.Caller{Issuer: "https://id.example", Subject: "u-4711", Name: "olga <o@example>", Kind: "human"},
	}
	records := [][]byte{entry.Record()}
	for n := range 2 {
		o := audit.Outcome{ID: uuid.MustParse("018f2f6e-0000-7000-8000-00000000000a"), EntryID: entry.ID, Kind: audit.OutcomeAnswered, Code: "OK"}
		o.ID[0] = byte(n)
		records = append(records, o.Record())
	}
	o, signer := &oracle{}, newSigner(1)
	p := Proof{V: ProofVersion, Checkpoints: []string{}, Outcomes: []Inclusion{}}
	const size, first = 20, 7
	var all []Inclusion
	for n := range int64(size) {
		leaf := tlog.RecordHash([]byte{byte(n)})
		if i := n - first; i >= 0 && i < int64(len(records)) {
			when := at.Add(time.Duration(i) * time.Millisecond)
			leaf = audit.Leaf(records[i], when)
			all = append(all, Inclusion{Record: string(records[i]), RecordedAt: when.Format(timeFormat), Leaf: leaf, Index: n})
		}
		o.add(t, n, leaf)
	}
	for i := range all {
		var err error
		if all[i].Path, err = tlog.ProveRecord(size, all[i].Index, o); err != nil {
			t.Fatal(err)
		}
	}
	c := Checkpoint{Origin: Origin(installation, firstEpoch), Size: size, Root: o.root(t, size)}
	text, err := (&signing{signer: signer}).sign(t.Context(), c, Stored{})
	if err != nil {
		t.Fatal(err)
	}
	p.Checkpoints, p.Entry, p.Outcomes = []string{string(text)}, all[0], all[1:]
	return p, signer
}

// A proof of version 1 that somebody keeps is checked by every later program.
func TestTheKeptProofHolds(t *testing.T) {
	p, signer := sample(t)
	text, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{"proof-v1.json": text, "proof-v1.keys": signer.file(t)} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		kept, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(kept, want) {
			t.Errorf("%s is not what is written now: %v", path, err)
		}
	}
	kept, err := os.ReadFile(filepath.Join("testdata", "proof-v1.json"))
	if err != nil {
		t.Fatal(err)
	}
	q, err := ParseProof(kept)
	if err != nil {
		t.Fatal(err)
	}
	proven, err := q.Open(signer.verifiers(t))
	if err != nil || proven.Index != 7 || len(proven.Outcomes) != 2 || proven.Entry.Caller.Name != "olga <o@example>" {
		t.Errorf("%v, %+v", err, proven)
	}
}
