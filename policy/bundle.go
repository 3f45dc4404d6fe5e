package policy

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of a bundle. They are far above any law a person would write and far below
// what would hurt the process that opens one.
const (
	MaxBundleBytes = 8 << 20
	MaxFileBytes   = 1 << 20
	MaxBundleFiles = 1000
	maxPathBytes   = 99 // what a plain tar header holds
)

// ErrNotCanonical is the cause when an archive is not the one Bytes would produce.
var ErrNotCanonical = errors.New("archive is not canonical")

// Bundle is one revision of the law. It is immutable and safe for concurrent use.
type Bundle struct {
	files    []File
	archive  []byte
	revision string
	parsed   *parsed
	proof    Proof
}

// File is one file of a Bundle.
type File struct {
	// Path is slash-separated and relative to the bundle's root.
	Path string
	Body []byte
}

// Revision is the SHA-256 of the canonical archive in lower-case hex.
func (b *Bundle) Revision() string { return b.revision }

// Bytes is the canonical archive: an uncompressed tar of the files in order of their
// paths, with no times and no owners. Open takes it back.
func (b *Bundle) Bytes() []byte { return bytes.Clone(b.archive) }

// Files are the bundle's files in order of their paths.
func (b *Bundle) Files() []File {
	out := make([]File, len(b.files))
	for i, f := range b.files {
		out[i] = File{Path: f.Path, Body: bytes.Clone(f.Body)}
	}
	return out
}

// newBundle checks, orders and archives the files, and parses them. All problems are
// in the error, joined.
func newBundle(files []File) (*Bundle, error) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	if err := checkFiles(files); err != nil {
		return nil, err
	}
	archive, err := pack(files)
	if err != nil {
		return nil, err
	}
	p, err := parse(files)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(archive)
	return &Bundle{files: files, archive: archive, revision: hex.EncodeToString(sum[:]), parsed: p}, nil
}

func checkFiles(files []File) error {
	var errs []error
	if len(files) > MaxBundleFiles {
		errs = append(errs, fmt.Errorf("bundle has %d files, more than %d", len(files), MaxBundleFiles))
	}
	total := 0
	for i, f := range files {
		total += len(f.Body)
		if err := checkPath(f.Path); err != nil {
			errs = append(errs, err)
		}
		if len(f.Body) > MaxFileBytes {
			errs = append(errs, fmt.Errorf("%s: file has %d bytes, more than %d", f.Path, len(f.Body), MaxFileBytes))
		}
		if i > 0 && files[i-1].Path == f.Path {
			errs = append(errs, fmt.Errorf("%s: file is there twice", f.Path))
		}
	}
	if total > MaxBundleBytes {
		errs = append(errs, fmt.Errorf("bundle has %d bytes, more than %d", total, MaxBundleBytes))
	}
	return errors.Join(errs...)
}

func checkPath(p string) error {
	switch {
	case p == "" || len(p) > maxPathBytes:
		return fmt.Errorf("%q: path must have 1 to %d bytes", p, maxPathBytes)
	case !utf8.ValidString(p) || strings.ContainsAny(p, "\x00\\"):
		return fmt.Errorf("%q: path must be plain text with forward slashes", p)
	case path.IsAbs(p) || path.Clean(p) != p || p == "." || p == ".." || strings.HasPrefix(p, "../"):
		return fmt.Errorf("%q: path must be relative, clean and without \"..\"", p)
	}
	return nil
}

// pack writes the canonical archive of ordered files.
func pack(files []File) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Size: int64(len(f.Body)), Mode: 0o644, Format: tar.FormatPAX}
		if isPlainASCII(f.Path) {
			h.Format = tar.FormatUSTAR
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("archiving %s: %w", f.Path, err)
		}
		if _, err := w.Write(f.Body); err != nil {
			return nil, fmt.Errorf("archiving %s: %w", f.Path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("closing archive: %w", err)
	}
	return buf.Bytes(), nil
}

// unpack reads an archive's files. It does not judge whether it is canonical.
func unpack(archive []byte) ([]File, error) {
	if len(archive) > MaxBundleBytes+MaxBundleFiles*2048 {
		return nil, fmt.Errorf("archive has %d bytes, more than a bundle may have", len(archive))
	}
	var files []File
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading archive: %w", err)
		}
		if h.Typeflag != tar.TypeReg {
			return nil, fmt.Errorf("%q: archive holds something that is not a file", h.Name)
		}
		if h.Size > MaxFileBytes || len(files) >= MaxBundleFiles {
			return nil, fmt.Errorf("%q: archive is beyond the limits of a bundle", h.Name)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			return nil, fmt.Errorf("reading archive: %w", err)
		}
		files = append(files, File{Path: h.Name, Body: body})
	}
}

func isPlainASCII(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}
