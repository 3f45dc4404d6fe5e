package book

import (
	"context"
	"fmt"
	"io"

	"github.com/google/uuid"
)

// sheet is a page of rows and the lines they give.
type sheet struct {
	rows []row
	// lines are whole lines; written counts them, last is the row of the last.
	lines         []byte
	written, lost int64
	last          uuid.UUID
	made          chan struct{} // closed when the lines are made, or err says why not
	err           error
}

// make reads the records and makes the lines, in space.
func (s *sheet) make(ctx context.Context, from rowPages, format format, space []byte) {
	defer close(s.made)
	if s.err = from.addRecords(ctx, s.rows); s.err != nil {
		return
	}
	s.lines = space[:0]
	for i := range s.rows {
		one, begin := &s.rows[i], len(s.lines)
		var ok bool
		if s.lines, ok = format.line(s.lines, one); !ok {
			s.lost++
		}
		if len(s.lines) > begin {
			s.written++
			s.last = one.id
		}
	}
}

// copyRows writes the rows behind one place, up to another. It holds a few pages, however many
// rows there are: the records of some are read and their lines made at the same time, and they are
// written in their order. What was written ends with a whole line, unless writing itself failed.
func copyRows(ctx context.Context, from rowPages, after, last place, s span, format format, out io.Writer, lastID uuid.UUID, tell func(rows int64)) (exported, error) {
	ctx, stop := context.WithCancel(ctx)
	sheets, failed := make(chan *sheet, pagesAhead), make(chan error, 1)
	spaces := make(chan []byte, pagesAhead+1)
	go func() {
		defer close(sheets)
		for {
			page, err := from.rows(ctx, after, last, s, format.entries, exportPage)
			if err != nil {
				failed <- err
				return
			}
			if len(page) == 0 {
				return
			}
			after = page[len(page)-1].place
			var space []byte
			select {
			case space = <-spaces:
			default:
			}
			one := &sheet{rows: page, made: make(chan struct{})}
			go one.make(ctx, from, format, space)
			select {
			case sheets <- one:
			case <-ctx.Done():
				<-one.made
				failed <- context.Cause(ctx)
				return
			}
		}
	}()
	done := exported{last: lastID}
	err := writeSheets(sheets, spaces, out, &done, tell)
	stop()
	for one := range sheets { // the reader ends before this does
		<-one.made
	}
	if err == nil {
		select {
		case err = <-failed:
		default:
		}
	}
	return done, err
}

// writeSheets writes what comes, and gives the space back that the lines took.
func writeSheets(sheets <-chan *sheet, spaces chan<- []byte, out io.Writer, done *exported, tell func(rows int64)) error {
	for one := range sheets {
		<-one.made
		if one.err != nil {
			return one.err
		}
		if _, err := out.Write(one.lines); err != nil {
			return fmt.Errorf("writing the export: %w", err)
		}
		done.rows, done.written, done.lost = done.rows+int64(len(one.rows)), done.written+one.written, done.lost+one.lost
		if one.written > 0 {
			done.last = one.last
		}
		select {
		case spaces <- one.lines:
		default:
		}
		tell(done.rows)
	}
	return nil
}
