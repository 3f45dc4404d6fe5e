package policy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// mostUnpacked bounds an archive's bytes once it is unpacked, with what is no part of the law.
const mostUnpacked = 8 * MaxBundleBytes

// bounded reads no further than so many bytes, and says so.
type bounded struct {
	from io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the archive has more than %d bytes", mostUnpacked)
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// maxMembers bounds an archive's members that are no part of the law.
const maxMembers = 10 * MaxBundleFiles

// LoadArchive reads a bundle as OPA packs one: a gzipped tar of a directory, with its signature and
// manifest. It takes what Load takes of a directory, within the same limits, which hold before
// anything is read whole.
func LoadArchive(r io.Reader) (*Bundle, error) {
	packed, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("reading bundle: it is no gzipped tar: %w", err)
	}
	defer packed.Close()
	var g gathering
	members := tar.NewReader(&bounded{packed, mostUnpacked})
	for n := 0; ; n++ {
		h, err := members.Next()
		if errors.Is(err, io.EOF) {
			return g.bundle()
		}
		if err != nil {
			return nil, fmt.Errorf("reading bundle: %w", err)
		}
		if n >= maxMembers {
			return nil, fmt.Errorf("reading bundle: the archive has more than %d members", maxMembers)
		}
		name := path.Clean(strings.TrimPrefix(h.Name, "/"))
		switch {
		case h.Typeflag == tar.TypeDir || h.Typeflag == tar.TypeXGlobalHeader:
			continue
		case !g.wants(name):
			if h.Size > MaxBundleBytes {
				return nil, beyond(name)
			}
			continue
		case name == SignaturesFile && g.proof.Signatures != nil, name == ManifestFile && g.proof.Manifest != nil:
			return nil, fmt.Errorf("reading bundle: %s is there twice", name)
		case h.Typeflag != tar.TypeReg:
			return nil, fmt.Errorf("reading bundle: %q is not a file", name)
		}
		if err := g.room(name, h.Size); err != nil {
			return nil, err
		}
		body, err := io.ReadAll(members)
		if err != nil {
			return nil, fmt.Errorf("reading bundle: %s: %w", name, err)
		}
		g.add(name, body)
	}
}

// Archive is the bundle with what proves it as a plain tar, which LoadArchive takes gzipped.
func (b *Bundle) Archive() ([]byte, error) {
	files := slices.Clone(b.files)
	if len(b.proof.Signatures) > 0 {
		files = append(files, File{Path: SignaturesFile, Body: b.proof.Signatures})
	}
	if len(b.proof.Manifest) > 0 {
		files = append(files, File{Path: ManifestFile, Body: b.proof.Manifest})
	}
	return pack(files)
}

// Packed is the bundle with what proves it as OPA packs one, which LoadArchive takes.
func (b *Bundle) Packed() ([]byte, error) {
	archive, err := b.Archive()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	if _, err := zipped.Write(archive); err != nil {
		return nil, fmt.Errorf("packing bundle: %w", err)
	}
	if err := zipped.Close(); err != nil { // before the bytes are taken
		return nil, fmt.Errorf("packing bundle: %w", err)
	}
	return out.Bytes(), nil
}

// gathering is a bundle that is being read.
type gathering struct {
	files []File
	proof Proof
	total int64
}

// wants tells whether a file is part of a bundle, or proves it.
func (g *gathering) wants(name string) bool {
	return name == SignaturesFile || name == ManifestFile || belongs(name) && !hidden(name)
}

// room refuses a file that the bundle has no room for, before it is read.
func (g *gathering) room(name string, size int64) error {
	switch name {
	case SignaturesFile:
		if size > maxSignatures {
			return fmt.Errorf("%s: it has %d bytes, more than %d", name, size, maxSignatures)
		}
		return nil
	case ManifestFile:
		if size > maxManifest {
			return fmt.Errorf("%s: it has %d bytes, more than %d", name, size, maxManifest)
		}
		return nil
	}
	g.total += size
	if size > MaxFileBytes || g.total > MaxBundleBytes || len(g.files) >= MaxBundleFiles {
		return beyond(name)
	}
	return nil
}

func beyond(name string) error {
	return fmt.Errorf("%s: bundle is beyond its limits (%d files, %d bytes each, %d bytes in all): keep large data out of the law", name, MaxBundleFiles, MaxFileBytes, MaxBundleBytes)
}

func (g *gathering) add(name string, body []byte) {
	switch name {
	case SignaturesFile:
		g.proof.Signatures = body
	case ManifestFile:
		g.proof.Manifest = body
	default:
		g.files = append(g.files, File{Path: name, Body: body})
	}
}

// bundle is what was gathered, with its proof.
func (g *gathering) bundle() (*Bundle, error) {
	m, err := readManifest(g.proof.Manifest)
	b, bad := newBundle(g.files)
	if bad == nil {
		bad = m.within(b.parsed)
	}
	if err := errors.Join(err, bad); err != nil {
		return nil, err
	}
	b.proof = g.proof
	return b, nil
}
