// Package ownfile reads and writes files of one person's that other programs write too: whole, by one
// writer at a time, and readable for nobody else.
package ownfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/lockedfile"

	"bronzeward/cmd/bronzeward/cli"
)

const (
	// mostFile is the longest file of a person's that is rewritten, in bytes.
	mostFile = 8 << 20
	// MostRounds is how often a file that somebody else changes meanwhile is read again.
	MostRounds = 3
)

// Rewrite changes a file that belongs to a person and holds other things of theirs. edit
// gets what is in it, null when there is none, and gives what is to be in it. The file is
// replaced whole, by a rename, with mode 0600; a crash leaves the old or the new one. When
// somebody else changes it meanwhile, it is read and edited again; only what is written in
// the instant between the last look and the rename is lost. A link is not followed, because
// a key would be written to where it leads. Edited into the same bytes it is left alone.
func Rewrite(path string, edit func(old []byte) ([]byte, error)) error {
	for range MostRounds {
		old, err := Read(path)
		if err != nil {
			return err
		}
		fresh, err := edit(old)
		if err != nil || old != nil && bytes.Equal(old, fresh) {
			return err
		}
		again, err := replace(path, old, fresh)
		if err != nil || !again {
			return err
		}
	}
	return fmt.Errorf("writing %s: somebody else keeps changing it; nothing was written to it, try again", path)
}

// Read reads a regular file; null when there is none.
func Read(path string) ([]byte, error) {
	seen, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, cli.Usage(fmt.Errorf("reading %s: %w", path, err))
	case seen.Mode()&fs.ModeSymlink != 0:
		to, _ := filepath.EvalSymlinks(path) // a link to nowhere has no other name
		if to == "" {
			to = "nowhere"
		}
		return nil, cli.Usage(fmt.Errorf("%s is a link to %s, and a key would be written there: name the file itself, or remove the link", path, to))
	case !seen.Mode().IsRegular():
		return nil, cli.Usage(fmt.Errorf("%s is not a regular file", path))
	case seen.Size() > mostFile:
		return nil, cli.Usage(fmt.Errorf("%s has more than %d bytes", path, mostFile))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("reading %s: %w", path, err))
	}
	defer f.Close()
	if opened, err := f.Stat(); err != nil || !os.SameFile(seen, opened) {
		return nil, fmt.Errorf("reading %s: it was replaced at that moment; try again", path)
	}
	raw, err := io.ReadAll(io.LimitReader(f, mostFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(raw) > mostFile {
		return nil, cli.Usage(fmt.Errorf("%s has more than %d bytes", path, mostFile))
	}
	if raw == nil {
		raw = []byte{}
	}
	return raw, nil
}

// replace puts fresh in the place of old, unless the file is no longer old: then again is
// true and nothing was done.
func replace(path string, old, fresh []byte) (again bool, err error) {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return false, cli.Usage(fmt.Errorf("making the folder of %s: %w", path, err))
	}
	temp, err := beside(path, fresh, 0o600)
	if err != nil {
		return false, err
	}
	defer func() {
		if again || err != nil {
			err = errors.Join(err, os.Remove(temp))
		}
	}()
	now, err := Read(path)
	if err != nil {
		return false, err
	}
	if (now == nil) != (old == nil) || !bytes.Equal(now, old) {
		return true, nil
	}
	// A crash before the rename leaves the old file and one beside it that nobody reads.
	if err := os.Rename(temp, path); err != nil {
		return false, fmt.Errorf("writing %s: %w", path, err)
	}
	return false, SyncFolder(folder)
}

// Put puts text in the place of a file, whatever it was: a crash leaves the old one or the new one, whole and durable, or one
// beside it that nobody reads.
func Put(path string, text []byte, mode os.FileMode) error {
	temp, err := beside(path, text, mode)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, err), os.Remove(temp))
	}
	return SyncFolder(filepath.Dir(path))
}

// beside writes a file beside another one, to be renamed, and sees to it that it lasts. When it errs there is none.
func beside(path string, text []byte, mode os.FileMode) (name string, err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return "", cli.Usage(fmt.Errorf("writing beside %s: %w", path, err))
	}
	_, err = temp.Write(text)
	if err == nil {
		err = temp.Chmod(mode)
	}
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("writing %s: %w", path, err), os.Remove(temp.Name()))
	}
	return temp.Name(), nil
}

// SyncFolder makes a rename last. Some file systems cannot, and the file is in place.
func SyncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return nil //nolint:nilerr // a folder that can be written and not read
	}
	_ = f.Sync()
	return f.Close()
}

// LockFolder keeps other runs of this program from writing until unlock is called. It waits
// for them until ctx ends.
func LockFolder(ctx context.Context, folder string) (unlock func(), err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, cli.Usage(fmt.Errorf("making the folder of logins: %w", err))
	}
	path := filepath.Join(folder, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // lockedfile would let others read it
	if err == nil {
		err = errors.Join(f.Chmod(0o600), f.Close()) // an earlier version has
	}
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("making the lock of logins: %w", err))
	}
	type locked struct {
		unlock func()
		err    error
	}
	got := make(chan locked, 1)
	go func() { // a lock cannot be waited for with a context; the process ends with ctx
		unlock, err := lockedfile.MutexAt(path).Lock()
		got <- locked{unlock, err}
	}()
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for another bronzeward login to end: %w", context.Cause(ctx))
	case l := <-got:
		if l.err != nil {
			return nil, fmt.Errorf("locking %s: %w", folder, l.err)
		}
		return l.unlock, nil
	}
}
