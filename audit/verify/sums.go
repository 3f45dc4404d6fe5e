package verify

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"sort"

	"github.com/google/uuid"
)

// sum is the sum, modulo 2^256, of hashes under a key that nobody knew when the database was written. Two multisets have
// the same sum only if they are the same; it takes no memory, and the order does not count.
type sum [4]uint64

func (s *sum) add(h hash) {
	carry := uint64(0)
	for i := range s {
		s[i], carry = bits.Add64(s[i], binary.LittleEndian.Uint64(h[8*i:]), carry)
	}
}

// termSums are the sums of the terms of each chunk of time: those that the entries give, and those of audit.terms. A
// chunk's entries are read by one reader alone, and audit.terms by one.
type termSums struct {
	key    [32]byte
	chunks []chunk
	given  []sum // of the entries
	stored []sum
}

func newTermSums(list []chunk) *termSums {
	s := &termSums{chunks: list, given: make([]sum, len(list)), stored: make([]sum, len(list))}
	_, _ = rand.Read(s.key[:]) // it never fails
	return s
}

// hash is one term's. space is the caller's. The parts have their own length each, or are last; a text is ended by a NUL,
// which no text of PostgreSQL has, and one that is there is begun by another byte.
func (s *termSums) hash(t term, at int64, id uuid.UUID, space []byte) (hash, []byte) {
	space = append(space[:0], s.key[:]...)
	space = binary.BigEndian.AppendUint64(space, uint64(at))
	space = append(space, id[:]...)
	for _, m := range []maybe{t.machine, t.caller} {
		if m.there {
			space = append(space, 1)
			space = append(space, m.text...)
		}
		space = append(space, 0)
	}
	space = append(space, t.field...)
	space = append(space, 0)
	space = append(space, t.text...)
	return sha256.Sum256(space), space
}

// chunkOf is the chunk a time lies in, false if none does.
func (s *termSums) chunkOf(at int64) (int, bool) {
	i := sort.Search(len(s.chunks), func(i int) bool { return s.chunks[i].to == 0 || at < s.chunks[i].to })
	return i, i < len(s.chunks) && (s.chunks[i].from == 0 || at >= s.chunks[i].from)
}

// differ are the chunks whose terms are not those that their entries give.
func (s *termSums) differ() map[int]bool {
	out := map[int]bool{}
	for i := range s.chunks {
		if s.given[i] != s.stored[i] {
			out[i] = true
		}
	}
	return out
}
