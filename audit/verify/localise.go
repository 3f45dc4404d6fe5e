package verify

import (
	"cmp"
	"slices"
	"sync"

	"github.com/google/uuid"
)

const (
	// suspectLimit is how many bad tiles are looked into; the first ones say most.
	suspectLimit = 16
	// candidateLimit is how many hashes are kept to be tried in a place.
	candidateLimit = 4096
)

// suspect is a tile whose leaves do not give the root they should. before are the tiles before it; a tile that is not full
// (open) has no stored root, and want is then the root of its largest checkpoint, over before and its leaves.
type suspect struct {
	tree   int32
	begin  int64 // index of its first leaf
	leaves []leaf
	size   int // leaves it should have
	want   hash
	open   bool
	before *spine // nil if not known
	heads  []*head
	solved bool
}

// suspects are the bad tiles, and what may put them right.
type suspects struct {
	found *findings

	mu   sync.Mutex // guards what follows
	list []*suspect
	rows map[[2]int64]hash // leaf that a row gives, by tree and index, where the tree has another
	free []row             // rows in neither place
}

func newSuspects(found *findings) *suspects {
	return &suspects{found: found, rows: map[[2]int64]hash{}}
}

func (s *suspects) add(x *suspect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) < suspectLimit {
		s.list = append(s.list, x)
	}
}

// substitute notes what the row of a leaf gives instead.
func (s *suspects) substitute(l *leaf, h hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rows) < candidateLimit {
		s.rows[[2]int64{int64(l.tree), l.index}] = h
	}
}

// leafless notes a row whose leaf may have been deleted.
func (s *suspects) leafless(r *row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) < candidateLimit {
		s.free = append(s.free, *r)
	}
}

// resolve tries to put each bad tile right, and tells exactly what it was where that works.
func (s *suspects) resolve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.free, func(a, b row) int { return cmp.Or(cmp.Compare(a.at, b.at), slices.Compare(a.id[:], b.id[:])) })
	for _, x := range s.list {
		places := x.places()
		if slices.Contains(places, nil) {
			s.fill(x, places)
		} else if !s.replace(x, places) {
			s.swap(x, places)
		}
	}
	for i, x := range s.list {
		for _, y := range s.list[i+1:] {
			if x.tree == y.tree && !x.solved && !y.solved && !x.open && !y.open {
				s.swapBetween(x, y)
			}
		}
	}
}

// places are the leaves by their place in the tile; nil where there is none.
func (x *suspect) places() []*leaf {
	out := make([]*leaf, x.size)
	for i := range x.leaves {
		if k := x.leaves[i].index - x.begin; k >= 0 && k < int64(x.size) {
			out[k] = &x.leaves[i]
		}
	}
	return out
}

func hashes(places []*leaf) []hash {
	out := make([]hash, len(places))
	for i, l := range places {
		if l != nil {
			out[i] = l.hash
		}
	}
	return out
}

// right is whether the tile gives what it should.
func (x *suspect) right(root hash) bool {
	if !x.open {
		return root == x.want
	}
	return x.before.root(&root) == x.want
}

// solve notes that these are the leaves that were signed, and takes back what was told because of the others.
func (s *suspects) solve(x *suspect, leaves []hash) {
	x.solved = true
	if !x.open && len(x.leaves) == tileSize {
		s.found.take(Tile, 1, func(f *Finding) bool {
			return f.Tree == x.tree && *f.Indexes == [2]int64{x.begin, x.begin + tileSize - 1} && f.Differs != nil
		})
	}
	for _, h := range x.heads {
		n := h.size - x.begin
		if !h.told || x.before == nil || n < 1 || n > int64(len(leaves)) {
			continue
		}
		tail := newBush(leaves[:n]).root()
		if x.before.root(&tail) != h.root {
			continue
		}
		kind, name := Checkpoint, "checkpoints"
		if !h.stored {
			kind, name = Forked, h.name
		}
		s.found.take(kind, 1, func(f *Finding) bool {
			return f.Tree == x.tree && f.Table == name && f.Indexes != nil && f.Indexes[1] == h.size-1 && slices.Equal(f.Differs, []string{"root"})
		})
	}
}

// replace puts what the rows give in the place of leaves that disagree with their rows.
func (s *suspects) replace(x *suspect, places []*leaf) bool {
	var wrong []int
	for i := range places {
		if _, ok := s.rows[[2]int64{int64(x.tree), x.begin + int64(i)}]; ok {
			wrong = append(wrong, i)
		}
	}
	tries := [][]int{wrong}
	for _, i := range wrong {
		tries = append(tries, []int{i})
	}
	for _, try := range tries {
		leaves := hashes(places)
		for _, i := range try {
			leaves[i] = s.rows[[2]int64{int64(x.tree), x.begin + int64(i)}]
		}
		if len(try) == 0 || !x.right(newBush(leaves).root()) {
			continue
		}
		for _, i := range try {
			l := places[i]
			taken := s.found.take(Changed, 1, func(f *Finding) bool { return f.Tree == x.tree && *f.Indexes == *at(l.index) })
			f := Finding{Tree: x.tree, Indexes: at(l.index), ID: l.id, RecordedAt: moment(l.at)}
			if len(taken) > 0 {
				f = taken[0]
			}
			f.Kind, f.Table, f.Differs = Leaf, "leaves", []string{"leaf"}
			f.Text = "the leaf was replaced: the one that the row gives is the one that was signed"
			s.found.add(f)
		}
		s.solve(x, leaves)
		return true
	}
	return false
}

// fill puts rows that have no leaf into places that have none.
func (s *suspects) fill(x *suspect, places []*leaf) {
	var holes []int
	for i, l := range places {
		if l == nil {
			holes = append(holes, i)
		}
	}
	tries := [][]row{s.free}
	if len(holes) == 1 {
		tries = slices.Collect(slices.Chunk(s.free, 1))
	} else if len(s.free) > len(holes) { // rows in order, some of other tiles before and after
		tries = nil
		for i := 0; i+len(holes) <= len(s.free); i++ {
			tries = append(tries, s.free[i:i+len(holes)])
		}
	}
	for _, try := range tries {
		if len(try) != len(holes) {
			continue
		}
		leaves := hashes(places)
		for k, i := range holes {
			leaves[i] = try[k].hash
		}
		if !x.right(newBush(leaves).root()) {
			continue
		}
		gaps := s.found.take(Leaf, 0, func(f *Finding) bool {
			return f.Tree == x.tree && f.ID == uuid.Nil && f.Indexes[0] >= x.begin && f.Indexes[1] < x.begin+int64(x.size)
		})
		told := int64(0)
		for _, g := range gaps {
			told += g.Rows
		}
		if told != int64(len(holes)) { // a gap that begins before or ends after the tile is told as a whole
			for _, g := range gaps {
				s.found.add(g)
			}
			return
		}
		for k, i := range holes {
			s.found.take(Inserted, 1, func(f *Finding) bool { return f.ID == try[k].id })
			s.found.add(Finding{
				Kind: Leaf, Table: "leaves", ID: try[k].id, RecordedAt: moment(try[k].at), Tree: x.tree, Indexes: at(x.begin + int64(i)),
				Text: "the leaf was deleted: the one that the row gives is the one that was signed",
			})
		}
		s.solve(x, leaves)
		return
	}
}

// swap tries every two leaves in each other's place.
func (s *suspects) swap(x *suspect, places []*leaf) {
	b := newBush(hashes(places))
	for i := range places {
		for j := i + 1; j < len(places); j++ {
			b.set(i, places[j].hash)
			b.set(j, places[i].hash)
			if places[i].hash != places[j].hash && x.right(b.root()) {
				s.solve(x, b[0])
				s.outOfOrder(x.tree, places[i], places[j])
				return
			}
			b.set(i, places[i].hash)
			b.set(j, places[j].hash)
		}
	}
}

// swapBetween tries a leaf of each tile in the other's place.
func (s *suspects) swapBetween(x, y *suspect) {
	px, py := x.places(), y.places()
	if slices.Contains(px, nil) || slices.Contains(py, nil) {
		return
	}
	bx, by := newBush(hashes(px)), newBush(hashes(py))
	for i := range px {
		for j := range py {
			bx.set(i, py[j].hash)
			if x.right(bx.root()) {
				if by.set(j, px[i].hash); y.right(by.root()) {
					s.solve(x, bx[0])
					s.solve(y, by[0])
					s.outOfOrder(x.tree, px[i], py[j])
					return
				}
				by.set(j, py[j].hash)
			}
		}
		bx.set(i, px[i].hash)
	}
}

func (s *suspects) outOfOrder(tree int32, a, b *leaf) {
	s.found.add(Finding{
		Kind: OutOfOrder, Table: "leaves", ID: a.id, RecordedAt: moment(a.at), Tree: tree, Indexes: at(a.index), Others: []Place{b.place()},
		Text: "the leaves of two rows changed places: exchanged, they are what was signed",
	})
}
