package verify

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// read sums audit.terms. The table is read as it lies: its index is in the order of terms, and would be read at random.
func (s *termSums) read(ctx context.Context, conn *pgx.Conn) error {
	var space []byte
	return s.each(ctx, conn, func(chunk int, t term, at int64, id uuid.UUID) error {
		var h hash
		h, space = s.hash(t, at, id, space)
		s.stored[chunk].add(h)
		return nil
	})
}

// each gives the rows of audit.terms that lie in a chunk.
func (s *termSums) each(ctx context.Context, conn *pgx.Conn, call func(chunk int, t term, at int64, id uuid.UUID) error) error {
	if _, err := conn.Exec(ctx, "set local enable_seqscan = on"); err != nil {
		return fmt.Errorf("reading terms: %w", cause(err))
	}
	all := chunk{from: s.chunks[0].from, to: s.chunks[len(s.chunks)-1].to}
	err := copyOut(ctx, conn, "select field, term, recorded_at, id, machine_name, caller_subject from audit.terms"+all.where(), 6, func(fields [][]byte) error {
		at, ok := micros(fields[2])
		id, is := uuidOf(fields[3])
		if !ok || !is || fields[0] == nil || fields[1] == nil {
			return errCopy
		}
		if chunk, in := s.chunkOf(at); in {
			return call(chunk, term{bounded(fields[0]), bounded(fields[1]), columnText(fields[4]), columnText(fields[5])}, at, id)
		}
		return nil
	})
	if err == nil {
		_, err = conn.Exec(ctx, "set local enable_seqscan = off")
	}
	if err != nil {
		return fmt.Errorf("reading terms: %w", err)
	}
	return nil
}

// localise tells which terms make the sums of a chunk differ. It reads the chunks that differ once more, and looks up what
// each entry gives, then audit.terms once more, and looks up which entry gives what is there: a difference is a term that
// is not there, is there twice, or that no entry gives. An entry that is there twice is told of for that.
func (s *termSums) localise(ctx context.Context, conn *pgx.Conn, look *lookups, found *findings) error {
	bad := s.differ()
	if len(bad) == 0 {
		return nil
	}
	t := &termFaults{look: look, found: found}
	r := &rowReader{conn: conn, values: make([]member, len(entries.columns))}
	for i, c := range s.chunks {
		if !bad[i] {
			continue
		}
		err := copyOut(ctx, conn, entries.query+c.where(), len(entries.columns), func(fields [][]byte) error {
			x, err := r.parse(entries, fields)
			if err != nil || x.differs&badRecord != 0 {
				return err
			}
			for _, w := range termsOf(fields[columnRecord], r.values) {
				t.given = append(t.given, termOf{key: key{x.at, x.id}, term: w, hash: x.hash, row: true})
			}
			if len(t.given) >= lookBatch {
				return t.lookUpGiven(ctx)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("reading entries for their terms: %w", err)
		}
	}
	if err := t.lookUpGiven(ctx); err != nil {
		return err
	}
	err := s.each(ctx, conn, func(chunk int, x term, at int64, id uuid.UUID) error {
		if !bad[chunk] {
			return nil
		}
		t.stored = append(t.stored, termOf{key: key{at, id}, term: x})
		if len(t.stored) >= lookBatch {
			return t.lookUpStored(ctx)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return t.lookUpStored(ctx)
}

// bounded is a text of audit.terms. One that is too long to be given by any entry stays so, and takes little memory.
func bounded(text []byte) string {
	const longest = 4 * maxTerm // bytes
	if len(text) > longest {
		return strings.ToValidUTF8(string(text[:longest]), "") + "…[cut here]"
	}
	return string(text)
}
