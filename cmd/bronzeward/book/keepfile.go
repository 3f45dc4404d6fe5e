package book

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"bronzeward/cmd/bronzeward/cli"
)

// keepFile puts text in the place of a file: a crash leaves the old one or the new one, whole and
// durable. A link is not followed. Others may read it: a checkpoint is no secret.
func keepFile(path string, text []byte) (err error) {
	if seen, err := os.Lstat(path); err == nil && !seen.Mode().IsRegular() {
		return cli.Usage(fmt.Errorf("%s is not a regular file, and is left alone", path))
	}
	folder := filepath.Dir(path)
	temp, err := os.CreateTemp(folder, "."+filepath.Base(path)+".*")
	if err != nil {
		return cli.Usage(fmt.Errorf("writing beside %s: %w", path, err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp.Name()))
		}
	}()
	_, err = temp.Write(text)
	err = errors.Join(err, temp.Chmod(0o644), temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if f, opened := os.Open(folder); opened == nil { // some file systems cannot, and the file is in place
		_ = f.Sync()
		_ = f.Close()
	}
	return nil
}
