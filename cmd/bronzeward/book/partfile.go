package book

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"bronzeward/cmd/bronzeward/cli"
)

// mostLine is the longest line of a file that is continued, in bytes.
const mostLine = 64 << 20

// partFile is a file that is written under another name until it is whole.
type partFile struct {
	file         *os.File
	target, path string
	// last is its last whole line, nil when it is new.
	last []byte
}

// openPart begins target, or continues what was begun: whatever stands behind the last whole line
// is cut off. A target that is there already is left alone.
func openPart(target string) (*partFile, error) {
	if _, err := os.Lstat(target); err == nil {
		return nil, cli.Usage(fmt.Errorf("%s is there already: name another file, or remove it", target))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Usage(fmt.Errorf("looking for %s: %w", target, err))
	}
	p := &partFile{target: target, path: target + ".part"}
	file, err := os.OpenFile(p.path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, syscall.ELOOP) {
		return nil, cli.Usage(fmt.Errorf("%s is a link, and is left alone: name another file, or remove it", p.path))
	}
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("opening the file to write: %w", err))
	}
	p.file = file
	if err := p.hold(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if p.last, err = lastLine(file); err != nil {
		return nil, errors.Join(fmt.Errorf("reading what %s holds so far: %w", p.path, err), file.Close())
	}
	return p, nil
}

// hold keeps every other export from this file until it is closed: two that write to it leave holes. One that had ended the
// file meanwhile gave it its other name.
func (p *partFile) hold() error {
	err := syscall.Flock(int(p.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return cli.Usage(fmt.Errorf("another export writes to %s: wait for it, or name another file", p.path))
	}
	if err != nil && !errors.Is(err, syscall.ENOTSUP) && !errors.Is(err, syscall.ENOLCK) { // some file systems cannot
		return fmt.Errorf("locking %s: %w", p.path, err)
	}
	mine, err := p.file.Stat()
	if err != nil {
		return fmt.Errorf("looking at %s: %w", p.path, err)
	}
	if there, err := os.Lstat(p.path); err != nil || !os.SameFile(mine, there) {
		return cli.Usage(fmt.Errorf("another export ended %s a moment ago: look for %s", p.path, p.target))
	}
	return nil
}

// lastLine cuts a file behind its last line end, stands there, and gives the line before it.
func lastLine(file *os.File) ([]byte, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	const step = 1 << 16
	var tail []byte
	at := info.Size()
	for at > 0 && bytes.Count(tail, []byte{'\n'}) < 2 {
		n := min(at, step)
		at -= n
		before := make([]byte, n, int(n)+len(tail))
		if _, err := file.ReadAt(before, at); err != nil {
			return nil, err
		}
		if tail = append(before, tail...); len(tail) > mostLine {
			return nil, fmt.Errorf("its last line is longer than %d bytes", mostLine)
		}
	}
	end := bytes.LastIndexByte(tail, '\n')
	whole := at + int64(end) + 1
	if err := file.Truncate(whole); err != nil {
		return nil, err
	}
	if _, err := file.Seek(whole, io.SeekStart); err != nil || end < 0 {
		return nil, err
	}
	return tail[bytes.LastIndexByte(tail[:end], '\n')+1 : end], nil
}

// finish closes the file, and when nothing failed gives it its name: it is durable first.
func (p *partFile) finish(failed error) error {
	err := errors.Join(p.file.Sync(), p.file.Close())
	if failed != nil || err != nil {
		return err
	}
	// A hard link takes no name that somebody else took meanwhile, as a rename would.
	if err := os.Link(p.path, p.target); err != nil {
		return fmt.Errorf("naming the whole file: %w", err)
	}
	if err := os.Remove(p.path); err != nil {
		return fmt.Errorf("removing the other name of the whole file: %w", err)
	}
	folder, err := os.Open(filepath.Dir(p.target))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
