package house

import (
	"crypto/ed25519"
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"bronzeward/audit/tree"
)

// noteSigner signs checkpoints for tests.
type noteSigner struct {
	note.Verifier
	key ed25519.PrivateKey
}

func (s noteSigner) Sign(message []byte) ([]byte, error) { return ed25519.Sign(s.key, message), nil }

func newNoteSigner(t *testing.T) noteSigner {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	line, err := tree.VerifierKey(public)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := note.NewVerifier(line)
	if err != nil {
		t.Fatal(err)
	}
	return noteSigner{verifier, private}
}

// stored is a checkpoint of a tree's size; fork tells roots of one size apart.
func (s noteSigner) stored(t *testing.T, number int32, origin string, size int64, fork byte) tree.Stored {
	t.Helper()
	c := tree.Checkpoint{Origin: origin, Size: size, Root: tlog.Hash{byte(size), fork}}
	signed, err := note.Sign(&note.Note{Text: c.Text()}, s)
	if err != nil {
		t.Fatal(err)
	}
	c.Note = signed
	return tree.Stored{Tree: number, Checkpoint: c}
}

func holds(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestEachCheckpointIsAFileOfTheAuditors(t *testing.T) {
	dir := t.TempDir()
	f, by := checkpointFolder{dir}, newNoteSigner(t)
	first, second := tree.Origin(uuid.New(), uuid.New()), tree.Origin(uuid.New(), uuid.New())
	seven, nine := by.stored(t, 1, first, 7, 0), by.stored(t, 1, first, 9, 0)
	for _, s := range []tree.Stored{seven, nine, nine, seven} { // the last ones again, as a new holder does, or late
		if err := f.Publish(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	latest := filepath.Join(dir, "latest.checkpoint")
	if holds(t, latest) != string(nine.Note) {
		t.Error("latest went back to a smaller one")
	}
	// An epoch begins again at small sizes, in files of its own.
	other := by.stored(t, 2, second, 7, 0)
	if err := f.Publish(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if holds(t, latest) != string(other.Note) {
		t.Error("latest is not of the present epoch")
	}
	for name, s := range map[string]tree.Stored{
		"0001-0000000000000000007.checkpoint": seven, "0001-0000000000000000009.checkpoint": nine, "0002-0000000000000000007.checkpoint": other,
	} {
		path := filepath.Join(dir, name)
		if holds(t, path) != string(s.Note) {
			t.Errorf("%s holds another checkpoint", name)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s cannot be read by the auditors: %v", name, info.Mode())
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 4 {
		t.Errorf("%d files, %v", len(entries), err)
	}
}

// A book that was forked, or a file that was altered, leaves the file as it is, and says so.
func TestACheckpointIsNeverWrittenOverAnother(t *testing.T) {
	dir := t.TempDir()
	f, by := checkpointFolder{dir}, newNoteSigner(t)
	origin := tree.Origin(uuid.New(), uuid.New())
	kept := by.stored(t, 1, origin, 7, 0)
	if err := f.Publish(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	err := f.Publish(t.Context(), by.stored(t, 1, origin, 7, 1))
	if err == nil || !strings.Contains(err.Error(), "holds another checkpoint of that size") {
		t.Errorf("got %v", err)
	}
	for _, name := range []string{"0001-0000000000000000007.checkpoint", "latest.checkpoint"} {
		if holds(t, filepath.Join(dir, name)) != string(kept.Note) {
			t.Errorf("%s was written over", name)
		}
	}
}

// What is in the way is named, nothing is half written, and the next call succeeds once it is gone.
func TestWhatKeepsACheckpointOutOfItsFolder(t *testing.T) {
	by := newNoteSigner(t)
	s := by.stored(t, 1, tree.Origin(uuid.New(), uuid.New()), 7, 0)
	for name, row := range map[string]struct {
		block, mend func(dir string) error
		says        string
	}{
		"no folder": {
			func(dir string) error { return os.Remove(dir) }, func(dir string) error { return os.Mkdir(dir, 0o755) }, "no such file or directory",
		},
		"a folder by its name": {
			func(dir string) error {
				return os.Mkdir(filepath.Join(dir, "0001-0000000000000000007.checkpoint"), 0o755)
			},
			func(dir string) error { return os.Remove(filepath.Join(dir, "0001-0000000000000000007.checkpoint")) }, "is no checkpoint",
		},
		"a link out of the folder": {
			func(dir string) error {
				return os.Symlink("/etc/hostname", filepath.Join(dir, "0001-0000000000000000007.checkpoint"))
			},
			func(dir string) error { return os.Remove(filepath.Join(dir, "0001-0000000000000000007.checkpoint")) }, "is no checkpoint",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "kept")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := row.block(dir); err != nil {
				t.Fatal(err)
			}
			err := checkpointFolder{dir}.Publish(t.Context(), s)
			if row.says == "" && err != nil || row.says != "" && (err == nil || !strings.Contains(err.Error(), row.says)) {
				t.Errorf("got %v", err)
			}
			if err := row.mend(dir); err != nil {
				t.Fatal(err)
			}
			if err := (checkpointFolder{dir}).Publish(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			entries, err := os.ReadDir(dir)
			if err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }) {
				t.Errorf("something is left: %v, %v", entries, err)
			}
		})
	}
}
