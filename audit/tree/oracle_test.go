package tree

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"
)

// oracle keeps all hashes of a tree as the library lays them out (tlog.StoredHashes).
type oracle struct{ stored []tlog.Hash }

func (o *oracle) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		out[i] = o.stored[x]
	}
	return out, nil
}

func (o *oracle) add(t testing.TB, n int64, leaf tlog.Hash) {
	t.Helper()
	hashes, err := tlog.StoredHashesForRecordHash(n, leaf, o)
	if err != nil {
		t.Fatal(err)
	}
	o.stored = append(o.stored, hashes...)
}

func (o *oracle) root(t testing.TB, size int64) tlog.Hash {
	t.Helper()
	h, err := tlog.TreeHash(size, o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// edges are the sizes at which a tile begins, is full, and begins anew.
var edges = []int64{1, 2, 255, 256, 257, 511, 512, 513, 65535, 65536, 65537, 65791, 65792, 65793}

// upTo is a size over tile edges and anything between.
func upTo(n int64) *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(1, n), rapid.SampledFrom(edges), rapid.Int64Range(60_000, n))
}

const oracleSize = 66_000

func TestTheRightEdgeIsTheLibrarysTree(t *testing.T) {
	o, e := &oracle{}, &edge{}
	for n := range int64(oracleSize) {
		leaf := tlog.RecordHash([]byte{byte(n), byte(n >> 8), byte(n >> 16)})
		o.add(t, n, leaf)
		for _, full := range e.append(leaf) {
			// The root of a tile is the library's hash eight levels up.
			if want := o.stored[tlog.StoredHashIndex((full.level+1)*tileHeight, full.index)]; full.root != want {
				t.Fatalf("tile %d of level %d after %d leaves has another root", full.index, full.level, n+1)
			}
		}
		if size := n + 1; size%97 == 0 || slices.Contains(edges, size) {
			root, err := e.root()
			if err != nil || root != o.root(t, size) {
				t.Fatalf("%d leaves: another root, %v", size, err)
			}
		}
	}
	if e.size != oracleSize {
		t.Errorf("size %d", e.size)
	}
}

// What the sequencer wrote is the library's tree: every hash, every root, every tile, every proof.
func TestTheTablesAreTheLibrarysTree(t *testing.T) {
	db := newDatabase(t)
	cfg := config(t, db, newSigner(1))
	cfg.Batch = 3001 // no tile's width divides it
	s := held(t, cfg)
	fill(t, db, oracleSize)
	drain(t, s)

	rows, err := db.auditor.Query(t.Context(), "select leaf from audit.leaves order by index")
	if err != nil {
		t.Fatal(err)
	}
	leaves, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h tlog.Hash, err error) {
		var b []byte
		err = row.Scan(&b)
		return tlog.Hash(b), err
	})
	if err != nil || len(leaves) != oracleSize {
		t.Fatalf("%d leaves, %v", len(leaves), err)
	}
	o := &oracle{}
	for n, leaf := range leaves {
		o.add(t, int64(n), leaf)
	}
	if n := count(t, db, "select count(*) from audit.tiles"); n != oracleSize/256+1 {
		t.Errorf("%d tiles", n)
	}
	r := Hashes(context.Background(), db.auditor, s.tree.Tree)
	rapid.Check(t, func(t *rapid.T) {
		size := upTo(oracleSize).Draw(t, "size")
		want, err := tlog.TreeHash(size, o)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tlog.TreeHash(size, r); err != nil || got != want {
			t.Fatalf("the root of %d leaves: %v, %v", size, got, err)
		}
		index := rapid.Int64Range(0, size-1).Draw(t, "index")
		stored := rapid.SliceOfN(rapid.Int64Range(0, tlog.StoredHashIndex(0, size)-1), 1, 5).Draw(t, "stored")
		wantHashes, _ := o.ReadHashes(stored)
		if got, err := r.ReadHashes(stored); err != nil || !slices.Equal(got, wantHashes) {
			t.Fatalf("hashes %v: %v", stored, err)
		}
		// Tiles are authenticated against the root by the library.
		authenticated := tlog.TileHashReader(tlog.Tree{N: size, Hash: want}, r)
		p, err := tlog.ProveRecord(size, index, authenticated)
		if err != nil || tlog.CheckRecord(p, size, want, index, leaves[index]) != nil {
			t.Fatalf("leaf %d of %d: %v", index, size, err)
		}
		if len(p) != pathLength(size, index) {
			t.Fatalf("the path of leaf %d of %d has %d hashes, want %d", index, size, len(p), pathLength(size, index))
		}
		older := rapid.Int64Range(1, size).Draw(t, "older")
		proof, err := Consistency(context.Background(), db.auditor, s.tree.Tree, older, size)
		if err != nil {
			t.Fatal(err)
		}
		from, to := Checkpoint{Origin: s.tree.Origin, Size: older}, Checkpoint{Origin: s.tree.Origin, Size: size, Root: want}
		if from.Root, err = tlog.TreeHash(older, o); err != nil || CheckConsistency(from, to, proof) != nil {
			t.Fatalf("from %d to %d: %v, %v", older, size, err, CheckConsistency(from, to, proof))
		}
		// A session that begins at any size has the edge that one has which came there.
		e, err := loadEdge(context.Background(), db.auditor, s.tree.Tree, size)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.root(); err != nil || got != want {
			t.Fatalf("the edge of %d leaves: %v", size, err)
		}
	})
	if _, err := r.ReadHashes([]int64{tlog.StoredHashIndex(0, oracleSize)}); err == nil {
		t.Error("a leaf that is not there was read")
	}
	if _, err := r.ReadHashes([]int64{-1}); err == nil {
		t.Error("a hash of a negative index was read")
	}
}
