package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/note"

	"bronzeward/audit/tree"
)

// headPage is how many checkpoints are read at once.
const headPage = 1024

// head is a checkpoint, stored or kept, and what is to be told of it.
type head struct {
	size   int64
	root   hash
	stored bool
	name   string // of a kept file
	reader *headReader
	signed time.Time
	told   bool // that it differs
}

// agrees is called when the leaves give the root.
func (h *head) agrees() {
	if h.stored {
		h.reader.agreed++
	} else {
		h.reader.keptAgreed++
	}
}

// differs is called when they give another, or, if not known, when too many leaves are not here to say.
func (h *head) differs(known bool) {
	f := h.finding(Checkpoint, "the first leaves of the tree do not give the root of this checkpoint")
	f.Differs = []string{"root"}
	if !h.stored {
		f.Kind = Forked
		f.Text = "the book was forked: the leaves that the kept checkpoint covers are not those it was signed over"
	}
	if known {
		h.told = true
		h.reader.found.add(f)
		return
	}
	h.reader.unknown++
	if !h.stored { // the auditor asked for this one
		h.told = true
		f.Text = "the kept checkpoint cannot be compared: leaves that it covers are not here"
		h.reader.found.add(f)
	}
}

func (h *head) finding(kind Kind, text string) Finding {
	f := Finding{Kind: kind, Table: "checkpoints", Tree: h.reader.tree.tree, Indexes: &[2]int64{0, h.size - 1}, RecordedAt: h.signed, Text: text}
	if !h.stored {
		f.Table = h.name
	}
	return f
}

// headReader gives the checkpoints of one tree in the order of their size, the kept ones between them.
type headReader struct {
	conn  *pgx.Conn
	tree  treeRow
	keys  note.Verifiers // nil: signatures are not checked
	found *findings
	kept  []*head // sorted by size
	page  []*head
	after int64
	ended bool

	read, agreed, keptAgreed, unknown, signatures int64
}

// upTo is the next checkpoint that covers at most size leaves, nil if there is none left.
func (r *headReader) upTo(ctx context.Context, size int64) (*head, error) {
	h, list, err := r.peek(ctx)
	if err != nil || h == nil || h.size > size {
		return nil, err
	}
	*list = (*list)[1:]
	return h, nil
}

// rest passes over all checkpoints that cover more than the size leaves there are, and gives the largest stored one.
func (r *headReader) rest(ctx context.Context, size int64) (last *head, err error) {
	for {
		h, list, err := r.peek(ctx)
		if err != nil || h == nil {
			return last, err
		}
		*list = (*list)[1:]
		if h.stored {
			r.unknown++
			last = h
			continue
		}
		r.found.add(h.finding(RolledBack, fmt.Sprintf(
			"the book is shorter than the checkpoint you kept: that covers %d leaves, the book has %d; it was rolled back or its end was deleted", h.size, size)))
	}
}

func (r *headReader) peek(ctx context.Context) (*head, *[]*head, error) {
	for len(r.page) == 0 && !r.ended {
		if err := r.fill(ctx); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case len(r.page) == 0 && len(r.kept) == 0:
		return nil, nil, nil
	case len(r.page) == 0 || len(r.kept) > 0 && r.kept[0].size < r.page[0].size:
		return r.kept[0], &r.kept, nil
	}
	return r.page[0], &r.page, nil
}

func (r *headReader) fill(ctx context.Context) error {
	rows, err := r.conn.Query(ctx, "select size, root, signed_at, note from audit.checkpoints where tree = $1 and size > $2 order by size limit $3", r.tree.tree, r.after, headPage)
	if err != nil {
		return fmt.Errorf("reading checkpoints: %w", cause(err))
	}
	var n int
	var size int64
	var root []byte
	var signed time.Time
	var text string
	_, err = pgx.ForEachRow(rows, []any{&size, &root, &signed, &text}, func() error {
		n++
		r.after = size
		h := &head{size: size, stored: true, reader: r, signed: moment(signed.UnixMicro())}
		h.root, _ = hashOf(root)
		if r.read++; r.look(h, text) {
			r.page = append(r.page, h)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading checkpoints: %w", cause(err))
	}
	r.ended = n < headPage
	return nil
}

// look holds a stored note to its columns and its signature to the keys. It is false when the size is not the one that was
// signed: then there is nothing to compare the leaves with.
func (r *headReader) look(h *head, text string) bool {
	if r.keys != nil {
		r.signatures++
		if _, err := tree.OpenCheckpoint([]byte(text), r.keys); errors.Is(err, tree.ErrKey) || errors.Is(err, tree.ErrSignature) {
			f := h.finding(Signature, plainKeyError(err))
			f.Differs = []string{"note"}
			r.found.add(f)
		}
	}
	c, err := tree.ReadUnverified([]byte(text))
	if err != nil {
		f := h.finding(Checkpoint, "its note is no signed checkpoint")
		f.Differs = []string{"note"}
		r.found.add(f)
		return true
	}
	var differs []string
	if c.Size != h.size {
		differs = append(differs, "size")
	}
	if c.Root != h.root {
		differs = append(differs, "root")
	}
	if r.tree.known && c.Origin != r.tree.origin {
		differs = append(differs, "origin")
	}
	if differs != nil {
		f := h.finding(Checkpoint, "its note does not say what its columns and its tree say")
		f.Differs = differs
		r.found.add(f)
	}
	h.root = c.Root
	return c.Size == h.size
}

// plainKeyError is an error of tree.OpenCheckpoint in words for a finding.
func plainKeyError(err error) string {
	if errors.Is(err, tree.ErrKey) {
		return err.Error() + ": either the public key is not this installation's, or lacks a newer version of its key, or somebody else signed"
	}
	return err.Error()
}
