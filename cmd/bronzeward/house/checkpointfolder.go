package house

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/note"

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
		if err := writeWhole(name, s.Note); err != nil {
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
	if err := writeWhole(latest, s.Note); err != nil {
		return fmt.Errorf("writing the latest checkpoint (book.checkpoint_folder): %w", err)
	}
	return nil
}

// laterThan is whether a kept note is of the same tree and larger. Its signature is not looked at: a
// file that was altered keeps at most latest from moving, and the auditors see that.
func laterThan(kept []byte, s tree.Stored) bool {
	c, err := tree.OpenCheckpoint(kept, anyKey{})
	return err == nil && c.Origin == s.Origin && c.Size > s.Size
}

// anyKey takes every signature for good.
type anyKey struct{}

// Verifier implements note.Verifiers.
func (anyKey) Verifier(name string, hash uint32) (note.Verifier, error) {
	return unverified{name, hash}, nil
}

type unverified struct {
	name string
	hash uint32
}

func (u unverified) Name() string            { return u.name }
func (u unverified) KeyHash() uint32         { return u.hash }
func (u unverified) Verify(_, _ []byte) bool { return true }

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

// writeWhole puts a file in its place by a rename, readable for everybody.
func writeWhole(path string, text []byte) (err error) {
	folder := filepath.Dir(path)
	temp, err := os.CreateTemp(folder, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp.Name()))
		}
	}()
	_, err = temp.Write(text)
	if err == nil {
		err = temp.Chmod(checkpointMode)
	}
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return err
	}
	return ownfile.SyncFolder(folder)
}
