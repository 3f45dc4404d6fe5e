package house

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"bronzeward/audit/tree"
	"bronzeward/cmd/bronzeward/ownfile"
)

// checkpointFolder is a directory that the auditors own, with a file for every checkpoint. Whoever
// keeps it away from the database can hold the book to it later.
//
//	0001-0000000000000012345.checkpoint   the tree's number, and the size
//	latest.checkpoint                     the same bytes as the largest of the present epoch
//
// A file is written once, whole, and never over another: a book that was forked leaves the first.
// What is deleted here is not written again.
type checkpointFolder struct{ path string }

const (
	latestCheckpoint = "latest.checkpoint"
	// mostCheckpoint is the longest file read back, in bytes; a note has about 300.
	mostCheckpoint = 4096
	checkpointMode = 0o644
)

// Publish implements tree.Publisher. A crash leaves the files there were, one beside them that
// nobody reads, or the new one without latest; the next call repeats it.
func (f checkpointFolder) Publish(_ context.Context, s tree.Stored) error {
	name := filepath.Join(f.path, fmt.Sprintf("%04d-%019d.checkpoint", s.Tree, s.Size))
	switch there, err := readCheckpoint(name); {
	case err == nil && !bytes.Equal(there, s.Note):
		return fmt.Errorf("%s holds another checkpoint of that size, and stays: either it was altered or the book was; bronzeward decisions verify --checkpoint %s", name, name)
	case errors.Is(err, fs.ErrNotExist):
		if err := ownfile.Put(name, s.Note, checkpointMode); err != nil {
			return fmt.Errorf("writing a checkpoint (book.checkpoint_folder): %w", err)
		}
	case err != nil:
		return fmt.Errorf("reading a checkpoint (book.checkpoint_folder): %w", err)
	}
	latest := filepath.Join(f.path, latestCheckpoint)
	there, err := readCheckpoint(latest)
	if err == nil && laterThan(there, s) {
		return nil // another replica that went on from here was faster
	}
	if err == nil && bytes.Equal(there, s.Note) {
		return nil
	}
	if err := ownfile.Put(latest, s.Note, checkpointMode); err != nil {
		return fmt.Errorf("writing the latest checkpoint (book.checkpoint_folder): %w", err)
	}
	return nil
}

// laterThan is whether a kept note is of the same tree and larger. Its signature is not looked at: a
// file that was altered keeps at most latest from moving, and the auditors see that.
func laterThan(kept []byte, s tree.Stored) bool {
	c, err := tree.ReadUnverified(kept)
	return err == nil && c.Origin == s.Origin && c.Size > s.Size
}

// readCheckpoint reads a regular file of at most mostCheckpoint bytes.
func readCheckpoint(path string) ([]byte, error) {
	seen, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, err
	case !seen.Mode().IsRegular() || seen.Size() > mostCheckpoint:
		return nil, fmt.Errorf("%s is no checkpoint: a regular file of at most %d bytes is expected", path, mostCheckpoint)
	}
	return os.ReadFile(path)
}
