package tree

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"bronzeward/audit"
)

// Errors of Open and Check, beside ErrCheckpoint, ErrKey, ErrSignature and ErrProof; one of them is in the chain.
var (
	// ErrAltered means that a record or its time is not what the leaf in the proof was made of.
	ErrAltered = errors.New("the record was altered")
	// ErrPlace means that the leaf does not stand at its index in the checkpoint's tree.
	ErrPlace = errors.New("it does not stand there in the book")
	// ErrForeign means that the records do not belong together, or do not belong to the checkpoint's installation.
	ErrForeign = errors.New("the records do not belong together")
)

// Proven is what a proof shows.
type Proven struct {
	Entry       audit.Entry
	RecordedAt  time.Time // database clock, UTC
	Checkpoints []Checkpoint
	Checkpoint  Checkpoint // the one that covers the entry
	Index       int64      // of the entry
	Leaf        tlog.Hash
	Outcomes    []ProvenOutcome
}

// ProvenOutcome is one outcome of the entry.
type ProvenOutcome struct {
	Outcome    audit.Outcome
	RecordedAt time.Time
	Checkpoint Checkpoint
	Index      int64
	Leaf       tlog.Hash
}

// Check is Open for whoever wants to know only whether the proof holds.
func (p Proof) Check(keys note.Verifiers) error {
	_, err := p.Open(keys)
	return err
}

// Open checks the proof with nothing but the public keys and returns what it shows. It demands that every checkpoint is
// signed by one of keys and that all are of one installation; that every record is canonical, has its leaf, and stands at
// its index in its checkpoint's tree; that every outcome names the entry; and that no place is named twice. The error
// names the record and says what is wrong.
func (p Proof) Open(keys note.Verifiers) (Proven, error) {
	if p.V != ProofVersion {
		return Proven{}, fmt.Errorf("checking a proof: %w: its version is %d, this program reads %d", ErrProof, p.V, ProofVersion)
	}
	out := Proven{}
	for i, text := range p.Checkpoints {
		c, err := OpenCheckpoint([]byte(text), keys)
		if err != nil {
			return Proven{}, fmt.Errorf("checking a proof, checkpoint %d: %w", i, err)
		}
		if i > 0 && c.Installation != out.Checkpoints[0].Installation {
			return Proven{}, fmt.Errorf("checking a proof: %w: its checkpoints are of several installations", ErrForeign)
		}
		out.Checkpoints = append(out.Checkpoints, c)
	}
	type place struct {
		origin string
		index  int64
	}
	taken := map[place]int{}
	ids := map[uuid.UUID]int{}
	for i, in := range append([]Inclusion{p.Entry}, p.Outcomes...) {
		at, err := in.open(out.Checkpoints)
		if err != nil {
			return Proven{}, fmt.Errorf("checking a proof, %s: %w", which(i), err)
		}
		c := out.Checkpoints[in.Checkpoint]
		var id uuid.UUID
		if i == 0 {
			out.RecordedAt, out.Checkpoint, out.Index, out.Leaf = at, c, in.Index, in.Leaf
			out.Entry, err = audit.ParseEntry([]byte(in.Record))
			id = out.Entry.ID
		} else {
			o := ProvenOutcome{RecordedAt: at, Checkpoint: c, Index: in.Index, Leaf: in.Leaf}
			o.Outcome, err = audit.ParseOutcome([]byte(in.Record))
			if err == nil && o.Outcome.EntryID != out.Entry.ID {
				err = fmt.Errorf("%w: it names entry %s, not %s", ErrForeign, o.Outcome.EntryID, out.Entry.ID)
			}
			id = o.Outcome.ID
			out.Outcomes = append(out.Outcomes, o)
		}
		if err != nil {
			return Proven{}, fmt.Errorf("checking a proof, %s: %w", which(i), err)
		}
		here := place{c.Origin, in.Index}
		other, again := taken[here]
		if !again {
			other, again = ids[id]
		}
		if again {
			return Proven{}, fmt.Errorf("checking a proof, %s: %w: it is %s again", which(i), ErrForeign, which(other))
		}
		taken[here], ids[id] = i, i
	}
	return out, nil
}

// open checks that the record stands where it says, and returns its time.
func (in Inclusion) open(checkpoints []Checkpoint) (time.Time, error) {
	at, err := time.Parse(timeFormat, in.RecordedAt)
	if err != nil || at.UTC().Format(timeFormat) != in.RecordedAt {
		return time.Time{}, fmt.Errorf("%w: recorded_at is not RFC 3339 in UTC with six decimals", ErrProof)
	}
	at = at.UTC()
	if in.Checkpoint < 0 || in.Checkpoint >= len(checkpoints) {
		return time.Time{}, fmt.Errorf("%w: there is no checkpoint %d", ErrProof, in.Checkpoint)
	}
	if audit.Leaf([]byte(in.Record), at) != in.Leaf {
		return time.Time{}, fmt.Errorf("%w: record and time do not make the leaf in the proof", ErrAltered)
	}
	c := checkpoints[in.Checkpoint]
	if in.Index < 0 || in.Index >= c.Size {
		return time.Time{}, fmt.Errorf("%w: index %d is not under a checkpoint of %d leaves", ErrPlace, in.Index, c.Size)
	}
	if want := pathLength(c.Size, in.Index); len(in.Path) != want {
		return time.Time{}, fmt.Errorf("%w: the path has %d hashes, from index %d to the root of %d leaves it has %d: it was made for another index or size",
			ErrPlace, len(in.Path), in.Index, c.Size, want)
	}
	if err := tlog.CheckRecord(in.Path, c.Size, c.Root, in.Index, in.Leaf); err != nil {
		return time.Time{}, fmt.Errorf("%w: from the leaf at index %d the path does not lead to the root of %d leaves: the record and its leaf, the index or the path were altered",
			ErrPlace, in.Index, c.Size)
	}
	return at, nil
}

// pathLength is how many hashes lead from the leaf at index to the root of size leaves.
func pathLength(size, index int64) int {
	n := 0
	for size > 1 {
		left := int64(1) << (bits.Len64(uint64(size-1)) - 1) // the largest power of two below size
		if index < left {
			size = left
		} else {
			size, index = size-left, index-left
		}
		n++
	}
	return n
}
