package policy

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed all:bundle
var shipped embed.FS

// Shipped is the law that comes with Bronzeward.
func Shipped() (*Bundle, error) {
	sub, err := fs.Sub(shipped, "bundle")
	if err != nil {
		return nil, fmt.Errorf("opening the shipped bundle: %w", err)
	}
	return Load(sub)
}

// Template is the shipped law as files to edit: what Shipped loads, and besides it the README and
// Regal's configuration.
func Template() (fs.FS, error) { return fs.Sub(shipped, "bundle") }

// Load reads a directory: every *.rego file, data.json, data.yaml and data.yml, and
// *.json under schema/. Other files, and files and folders whose name begins with a
// dot, are not part of the bundle; but .signatures.json and .manifest at the top are its
// Proof. All problems are in the error, joined, each with file and line.
func Load(fsys fs.FS) (*Bundle, error) {
	g, err := collect(fsys)
	if err != nil {
		return nil, err
	}
	return g.bundle()
}

// Open takes a bundle's canonical archive, as Bytes gives it. An archive that differs
// from the canonical one in a single byte is refused with ErrNotCanonical.
func Open(archive []byte) (*Bundle, error) {
	files, err := unpack(archive)
	if err != nil {
		return nil, err
	}
	b, err := newBundle(files)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(b.archive, archive) {
		return nil, ErrNotCanonical
	}
	for _, f := range b.files {
		if !belongs(f.Path) {
			return nil, fmt.Errorf("%s: file is no part of a bundle", f.Path)
		}
	}
	return b, nil
}

// Overlay is the bundle with the files of a directory laid over it. A Rego or schema
// file replaces the one of the same path; a data file is merged into the data at its
// place: maps are merged key by key, every other value is replaced. The result is a
// bundle of its own with its own revision.
func Overlay(b *Bundle, fsys fs.FS) (*Bundle, error) {
	over, err := collect(fsys)
	if err != nil {
		return nil, err
	}
	return overlay(b, over.files)
}

// OverlayFiles is Overlay with the files given.
func OverlayFiles(b *Bundle, files ...File) (*Bundle, error) { return overlay(b, files) }

func collect(fsys fs.FS) (*gathering, error) {
	var (
		g    gathering
		errs []error
	)
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("walking bundle: %w", err)
		}
		if d.IsDir() {
			if p != "." && strings.HasPrefix(path.Base(p), ".") {
				return fs.SkipDir
			}
			return nil
		}
		if !g.wants(p) {
			return nil
		}
		info, err := fs.Stat(fsys, p) // of what a link points to
		if err != nil {
			return fmt.Errorf("reading bundle: %w", err)
		}
		if err := g.room(p, info.Size()); err != nil {
			return err
		}
		body, err := fs.ReadFile(fsys, p)
		if err != nil {
			errs = append(errs, fmt.Errorf("reading bundle: %w", err))
			return nil
		}
		g.add(p, body)
		return nil
	})
	return &g, errors.Join(append(errs, err)...)
}

// Belongs tells whether a path of a law's directory is part of the bundle.
func Belongs(p string) bool { return belongs(p) && !hidden(p) }

// belongs is Belongs of a path without names that begin with a dot.
func belongs(p string) bool {
	return path.Ext(p) == ".rego" || isData(p) || isSchema(p)
}

func isData(p string) bool {
	return slices.Contains([]string{"data.json", "data.yaml", "data.yml"}, path.Base(p))
}

func isSchema(p string) bool {
	return strings.HasPrefix(p, "schema/") && path.Ext(p) == ".json"
}

func isTest(p string) bool { return strings.HasSuffix(p, "_test.rego") }
