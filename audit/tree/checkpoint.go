package tree

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// MaxSize bounds what is believed of a tree's size: 2^48 leaves are nine years of a million per second, and the
// library's arithmetic is exact up to 2^62.
const MaxSize = 1 << 48

// maxNote bounds a note that is read; one with three signatures has about 500 bytes.
const maxNote = 64 << 10

// Errors of reading a checkpoint; one of them is in the chain.
var (
	// ErrCheckpoint means that the text is no checkpoint of a book.
	ErrCheckpoint = errors.New("no checkpoint")
	// ErrKey means that none of the given keys signed it.
	ErrKey = errors.New("signed by another key")
	// ErrSignature means that a given key is named as its signer and did not sign this text.
	ErrSignature = errors.New("the signature is wrong")
)

// Checkpoint is a signed head of a tree.
type Checkpoint struct {
	Origin       string // bronzeward/<installation>/<epoch>
	Installation uuid.UUID
	Epoch        uuid.UUID
	Size         int64     // leaves that it covers: those with a lower index
	Root         tlog.Hash // RFC 6962 hash of those leaves
	Note         []byte    // the signed note, as it was read; nil if it is not signed yet
}

// Origin is the first line of the checkpoints of an epoch's tree.
func Origin(installation, epoch uuid.UUID) string {
	return KeyName + "/" + installation.String() + "/" + epoch.String()
}

// Text is what is signed: origin, size and root in base64, each with a newline (c2sp.org/tlog-checkpoint).
func (c Checkpoint) Text() string {
	return c.Origin + "\n" + strconv.FormatInt(c.Size, 10) + "\n" + c.Root.String() + "\n"
}

// OpenCheckpoint reads a signed note and checks its signature: one of keys must have signed it. Signatures by unknown keys
// beside it are of no account. The text is read strictly: three lines, nothing after them.
func OpenCheckpoint(noteText []byte, keys note.Verifiers) (Checkpoint, error) {
	if len(noteText) > maxNote {
		return Checkpoint{}, fmt.Errorf("reading a checkpoint: %w: it is longer than %d bytes", ErrCheckpoint, maxNote)
	}
	n, err := note.Open(noteText, keys)
	var unknown *note.UnverifiedNoteError
	var invalid *note.InvalidSignatureError
	switch {
	case err == nil:
	case errors.As(err, &unknown):
		return Checkpoint{}, fmt.Errorf("reading a checkpoint: %w than the given ones (by %s)", ErrKey, signers(unknown.Note.UnverifiedSigs))
	case errors.As(err, &invalid):
		return Checkpoint{}, fmt.Errorf("reading a checkpoint: %w: %s+%08x did not sign this text", ErrSignature, invalid.Name, invalid.Hash)
	default:
		return Checkpoint{}, fmt.Errorf("reading a checkpoint: %w: it is no signed note", ErrCheckpoint)
	}
	c, err := parseText(n.Text)
	if err != nil {
		return Checkpoint{}, err
	}
	c.Note = []byte(string(noteText))
	return c, nil
}

// signers names the keys of signatures, at most three.
func signers(sigs []note.Signature) string {
	var names []string
	for _, s := range sigs[:min(len(sigs), 3)] {
		names = append(names, fmt.Sprintf("%q", fmt.Sprintf("%s+%08x", s.Name, s.Hash)))
	}
	return strings.Join(names, ", ")
}

// ReadUnverified reads a note without looking at its signatures, and as strictly as OpenCheckpoint otherwise.
func ReadUnverified(noteText []byte) (Checkpoint, error) {
	_, err := note.Open(noteText, note.VerifierList())
	var unverified *note.UnverifiedNoteError
	if len(noteText) > maxNote || !errors.As(err, &unverified) {
		return Checkpoint{}, fmt.Errorf("reading a checkpoint: %w: it is no signed note", ErrCheckpoint)
	}
	c, err := parseText(unverified.Note.Text)
	if err != nil {
		return Checkpoint{}, err
	}
	c.Note = []byte(string(noteText))
	return c, nil
}

// parseText reads the three lines, and demands that they are spelled as Text spells them.
func parseText(text string) (Checkpoint, error) {
	fail := func(what string) (Checkpoint, error) {
		return Checkpoint{}, fmt.Errorf("reading a checkpoint: %w: %s", ErrCheckpoint, what)
	}
	lines := strings.Split(text, "\n")
	if len(lines) != 4 {
		return fail("it has not three lines")
	}
	c := Checkpoint{Origin: lines[0]}
	parts := strings.Split(c.Origin, "/")
	if len(parts) != 3 {
		return fail("its origin is not bronzeward/<installation>/<epoch>")
	}
	var errI, errE error
	c.Installation, errI = uuid.Parse(parts[1])
	c.Epoch, errE = uuid.Parse(parts[2])
	if errI != nil || errE != nil || Origin(c.Installation, c.Epoch) != c.Origin {
		return fail("its origin is not bronzeward/<installation>/<epoch>")
	}
	var err error
	if c.Size, err = strconv.ParseInt(lines[1], 10, 64); err != nil || c.Size < 1 || c.Size > MaxSize {
		return fail("its size is no number of leaves")
	}
	if c.Root, err = tlog.ParseHash(lines[2]); err != nil {
		return fail("its root is no hash")
	}
	if c.Text() != text {
		return fail("its lines are not in their one spelling")
	}
	return c, nil
}
