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
// dot, are not part of the bundle. All problems are in the error, joined, each with
// file and line.
func Load(fsys fs.FS) (*Bundle, error) {
	files, err := collect(fsys)
	if err != nil {
		return nil, err
	}
	return newBundle(files)
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
	return overlay(b, over)
}

// OverlayFiles is Overlay with the files given.
func OverlayFiles(b *Bundle, files ...File) (*Bundle, error) { return overlay(b, files) }

func collect(fsys fs.FS) ([]File, error) {
	var (
		files []File
		errs  []error
		total int64
	)
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("walking bundle: %w", err)
		}
		if p != "." && strings.HasPrefix(path.Base(p), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() || !belongs(p) {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return fmt.Errorf("reading bundle: %w", err)
		}
		total += info.Size()
		if info.Size() > MaxFileBytes || total > MaxBundleBytes || len(files) >= MaxBundleFiles {
			return fmt.Errorf("%s: bundle is beyond its limits (%d files, %d bytes each, %d bytes in all)", p, MaxBundleFiles, MaxFileBytes, MaxBundleBytes)
		}
		body, err := fs.ReadFile(fsys, p)
		if err != nil {
			errs = append(errs, fmt.Errorf("reading bundle: %w", err))
			return nil
		}
		files = append(files, File{Path: p, Body: body})
		return nil
	})
	return files, errors.Join(append(errs, err)...)
}

// belongs tells whether a path is part of a bundle.
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
