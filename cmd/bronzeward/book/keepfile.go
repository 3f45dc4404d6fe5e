package book

import (
	"fmt"
	"os"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/ownfile"
)

// keepFile puts text in the place of a file. A link is not followed. Others may read it: a
// checkpoint is no secret.
func keepFile(path string, text []byte) error {
	if seen, err := os.Lstat(path); err == nil && !seen.Mode().IsRegular() {
		return cli.Usage(fmt.Errorf("%s is not a regular file, and is left alone", path))
	}
	return ownfile.Put(path, text, 0o644)
}
