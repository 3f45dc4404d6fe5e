package book

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/mod/sumdb/note"

	"bronzeward/audit/tree"
	"bronzeward/cmd/bronzeward/cli"
)

// mostRead is the longest file of keys, checkpoints or a proof that is read, in bytes.
const mostRead = 64 << 20

// readOwn reads a file that a flag or argument names, standard input for -.
func readOwn(g *cli.Globals, what, file string) ([]byte, error) {
	in := g.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("reading %s: %w", what, err))
		}
		defer f.Close()
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, mostRead+1))
	switch {
	case err != nil:
		return nil, cli.Usage(fmt.Errorf("reading %s: %w", what, err))
	case len(raw) > mostRead:
		return nil, cli.Usage(fmt.Errorf("reading %s: %s has more than %d bytes", what, file, mostRead))
	}
	return raw, nil
}

// publicKeys reads the file of --public-key; without one it gives null.
func publicKeys(g *cli.Globals, file string) (note.Verifiers, error) {
	if file == "" {
		return nil, nil
	}
	raw, err := readOwn(g, "the public key (--public-key)", file)
	if err != nil {
		return nil, err
	}
	keys, err := tree.ParseKeys(raw)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("%s: %w; `bronzeward openbao checkpoint-key --public-key` prints the file that is wanted", file, err))
	}
	return keys, nil
}

// keyErrors puts what is to be done beside an error of a signature.
func keyErrors(err error) error {
	if errors.Is(err, tree.ErrKey) {
		return fmt.Errorf("%w: either the file of --public-key is not this installation's, or lacks a newer version of its key, or somebody else signed", err)
	}
	return err
}

// signedBy names the key of a note's first signature that was checked, bronzeward+hash.
func signedBy(text string, keys note.Verifiers) string {
	n, err := note.Open([]byte(text), keys)
	if err != nil || len(n.Sigs) == 0 {
		return ""
	}
	return fmt.Sprintf("%s+%08x", n.Sigs[0].Name, n.Sigs[0].Hash)
}

// everyone believes every signature: for reading a proof whose signatures are not checked.
type everyone struct{}

// Verifier gives one for any key.
func (everyone) Verifier(name string, hash uint32) (note.Verifier, error) {
	return believed{name, hash}, nil
}

type believed struct {
	name string
	hash uint32
}

func (b believed) Name() string          { return b.name }
func (b believed) KeyHash() uint32       { return b.hash }
func (believed) Verify(_, _ []byte) bool { return true }

// openNote reads a checkpoint, and checks its signature when there are keys.
func openNote(text []byte, keys note.Verifiers) (tree.Checkpoint, error) {
	if keys == nil {
		return tree.ReadUnverified(text)
	}
	return tree.OpenCheckpoint(text, keys)
}
