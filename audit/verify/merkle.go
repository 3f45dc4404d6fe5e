package verify

import (
	"crypto/sha256"

	"golang.org/x/mod/sumdb/tlog"
)

type hash = tlog.Hash

// nodeHash is tlog.NodeHash without its allocations: one is computed per leaf.
func nodeHash(left, right hash) hash {
	var b [1 + 2*tlog.HashSize]byte
	b[0] = 1
	copy(b[1:], left[:])
	copy(b[1+tlog.HashSize:], right[:])
	return sha256.Sum256(b[:])
}

// spine is the right edge of a growing tree: the roots of the perfect subtrees that n things make, one for each bit of n.
// It is copied by assignment.
type spine struct {
	n     int64
	roots [56]hash // roots[k] covers 2^k things, and counts if bit k of n is set
}

// push appends one thing and calls full, if there is one, for every perfect subtree of 256^level things it completes.
func (s *spine) push(h hash, full func(level int, index int64, root hash)) {
	k := 0
	for i := s.n; i&1 == 1; i >>= 1 {
		h = nodeHash(s.roots[k], h)
		k++
		if k%8 == 0 && full != nil {
			full(k/8, s.n>>k, h)
		}
	}
	s.roots[k] = h
	s.n++
}

// root is the RFC 6962 hash of all that was pushed, and of tail after it. There must be one or the other.
func (s *spine) root(tail *hash) hash {
	var acc hash
	have := tail != nil
	if have {
		acc = *tail
	}
	for k := 0; s.n>>k != 0; k++ {
		switch {
		case s.n>>k&1 == 0:
		case have:
			acc = nodeHash(s.roots[k], acc)
		default:
			acc, have = s.roots[k], true
		}
	}
	return acc
}

// bush is the tree of up to 256 leaves with all its nodes, so that a leaf can be tried in a place for eight hashes. A node
// without a sibling goes up as it is, which is RFC 6962's shape.
type bush [][]hash

func newBush(leaves []hash) bush {
	b := bush{append([]hash(nil), leaves...)}
	for below := b[0]; len(below) > 1; below = b[len(b)-1] {
		row := make([]hash, (len(below)+1)/2)
		for i := range row {
			row[i] = parent(below, i)
		}
		b = append(b, row)
	}
	return b
}

func parent(below []hash, i int) hash {
	if 2*i+1 == len(below) {
		return below[2*i]
	}
	return nodeHash(below[2*i], below[2*i+1])
}

func (b bush) set(i int, h hash) {
	b[0][i] = h
	for level := 1; level < len(b); level++ {
		i /= 2
		b[level][i] = parent(b[level-1], i)
	}
}

func (b bush) root() hash { return b[len(b)-1][0] }
