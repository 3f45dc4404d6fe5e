package policy

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/open-policy-agent/opa/v1/ast"
	opa "github.com/open-policy-agent/opa/v1/bundle"
)

// ourRoot is the part of the document that a law for Bronzeward owns.
const ourRoot = "bronzeward"

// manifest is what a bundle's .manifest says to us.
type manifest struct {
	roots   []string // none: everything
	counter int64    // zero when it says none
}

// readManifest reads OPA's .manifest. One that is empty says nothing.
func readManifest(raw []byte) (manifest, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return manifest{}, nil
	}
	bad := func(format string, args ...any) (manifest, error) {
		return manifest{}, fmt.Errorf(ManifestFile+": "+format, args...)
	}
	if len(raw) > maxManifest {
		return bad("it has %d bytes, more than %d", len(raw), maxManifest)
	}
	var m opa.Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return bad("it is not a manifest of OPA: %v", err)
	}
	if m.RegoVersion != nil && *m.RegoVersion != 1 || slices.ContainsFunc(valuesOf(m.FileRegoVersions), func(v int) bool { return v != 1 }) {
		return bad("it says Rego v0, and the law is Rego v1: opa fmt --write --v0-v1 rewrites the files")
	}
	if len(m.WasmResolvers) > 0 {
		return bad("it has Wasm modules, and the law is Rego: leave wasm out")
	}
	out := manifest{}
	if m.Roots != nil {
		for _, r := range *m.Roots {
			r = strings.Trim(r, "/")
			if r != "" && r != ourRoot && !strings.HasPrefix(r, ourRoot+"/") {
				return bad("the root %q is outside the law's: a law has the root %q, or names none", r, ourRoot)
			}
			out.roots = append(out.roots, r)
		}
	}
	if ours, ok := m.Metadata["bronzeward"].(map[string]any); ok {
		if said, has := ours["counter"]; has {
			n, whole := said.(float64)
			if !whole || n != float64(int64(n)) || n < 1 || n > 1<<53 {
				return bad("metadata.bronzeward.counter is %v, and not a whole number from 1 on", said)
			}
			out.counter = int64(n)
		}
	}
	return out, nil
}

func valuesOf(m map[string]int) []int {
	var out []int
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// within says what of a law lies outside the roots its own manifest names.
func (m manifest) within(p *parsed) error {
	if len(m.roots) == 0 || slices.Contains(m.roots, "") {
		return nil
	}
	var errs []error
	for _, group := range []map[string]*ast.Module{p.law, p.tests} {
		for _, name := range sortedNames(group) {
			at := strings.Split(strings.ReplaceAll(strings.TrimPrefix(group[name].Package.Path.String(), "data."), ".", "/"), "/")
			if !opa.RootPathsContain(m.roots, strings.Join(at, "/")) {
				errs = append(errs, placed{name, group[name].Package.Location.Row, fmt.Sprintf("package %s is outside the roots that %s names (%s)", strings.Join(at, "."), ManifestFile, strings.Join(m.roots, ", "))})
			}
		}
	}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		if at != "" && opa.RootPathsContain(m.roots, at) {
			return
		}
		inner, ok := v.(map[string]any)
		if !ok {
			errs = append(errs, fmt.Errorf("data at %s is outside the roots that %s names (%s)", at, ManifestFile, strings.Join(m.roots, ", ")))
			return
		}
		for k, e := range inner {
			walk(strings.TrimPrefix(at+"/"+k, "/"), e)
		}
	}
	walk("", p.data)
	return errors.Join(errs...)
}

// claimedKey is the key that a signature names in its header or its claims, for people; nothing is decided by it.
func claimedKey(token string) string {
	parts := strings.Split(token, ".")
	for i, name := range []string{"kid", "keyid"} {
		var said map[string]any
		if len(parts) < 2 {
			return ""
		}
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(raw, &said) != nil {
			continue
		}
		if id, ok := said[name].(string); ok && id != "" && len(id) <= 100 && !strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return id
		}
	}
	return ""
}
