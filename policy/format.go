package policy

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/format"
)

// Format gives the Rego files of a directory that `opa fmt` would write otherwise, with what they
// are and what they should be. What cannot be read as Rego is in the error, joined, each with file
// and line; the other files come nevertheless.
func Format(fsys fs.FS) ([]FileDifference, error) {
	found, err := collect(fsys)
	if err != nil {
		return nil, err
	}
	var (
		out  []FileDifference
		errs []error
	)
	for _, f := range found.files {
		want, err := formatted(f)
		if err != nil {
			errs = append(errs, located(err)...)
		} else if !bytes.Equal(want, f.Body) {
			out = append(out, FileDifference{Path: f.Path, How: DiffChanged, Before: f.Body, After: want})
		}
	}
	return out, errors.Join(errs...)
}

// formatted is a file as OPA writes it; what is no Rego stays as it is.
func formatted(f File) ([]byte, error) {
	if !strings.HasSuffix(f.Path, ".rego") {
		return f.Body, nil
	}
	return format.SourceWithOpts(f.Path, f.Body, format.Opts{RegoVersion: ast.RegoV1})
}
