package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// maxDataDepth bounds the nesting of a data file.
const maxDataDepth = 64

// decodeData reads one data file into plain JSON values. The top must be a map.
func decodeData(name string, body []byte) (map[string]any, error) {
	var (
		v   any
		err error
	)
	if path.Ext(name) == ".json" {
		v, err = decodeJSON(body)
	} else {
		v, err = decodeYAML(body)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if v == nil {
		return map[string]any{}, nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s:1: data must be a map at the top", name)
	}
	return m, nil
}

func decodeYAML(body []byte) (any, error) {
	if err := checkAliases(body); err != nil {
		return nil, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(body))
	var v any
	if err := dec.Decode(&v); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	var more any
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("data must be one YAML document")
	}
	return plain(v, 0)
}

// plain turns what a YAML decoder gives into JSON's types.
func plain(v any, depth int) (any, error) {
	if depth > maxDataDepth {
		return nil, fmt.Errorf("data is nested deeper than %d", maxDataDepth)
	}
	switch x := v.(type) {
	case nil, bool, string:
		return x, nil
	case map[string]any:
		for k, e := range x {
			p, err := plain(e, depth+1)
			if err != nil {
				return nil, err
			}
			x[k] = p
		}
		return x, nil
	case []any:
		for i, e := range x {
			p, err := plain(e, depth+1)
			if err != nil {
				return nil, err
			}
			x[i] = p
		}
		return x, nil
	case time.Time:
		return x.UTC().Format(time.RFC3339Nano), nil
	case int:
		return json.Number(fmt.Sprint(x)), nil
	case int64:
		return json.Number(fmt.Sprint(x)), nil
	case uint64:
		return json.Number(fmt.Sprint(x)), nil
	case float64:
		b, err := json.Marshal(x)
		if err != nil {
			return nil, errors.New("a number of the data is not finite")
		}
		return json.Number(b), nil
	default:
		return nil, fmt.Errorf("data holds a value of type %T; quote it to make it a string", v)
	}
}

// decodeJSON reads one JSON value and, unlike encoding/json, refuses a key that is
// there twice.
func decodeJSON(body []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	v, err := jsonValue(dec, 0)
	if err != nil {
		line := 1 + bytes.Count(body[:min(int(dec.InputOffset()), len(body))], []byte("\n"))
		return nil, fmt.Errorf("line %d: %w", line, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("data must be one JSON value")
	}
	return v, nil
}

func jsonValue(dec *json.Decoder, depth int) (any, error) {
	if depth > maxDataDepth {
		return nil, fmt.Errorf("data is nested deeper than %d", maxDataDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch tok {
	case json.Delim('{'):
		m := map[string]any{}
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			k, ok := key.(string)
			if !ok {
				return nil, errors.New("a key is no string")
			}
			if _, twice := m[k]; twice {
				return nil, fmt.Errorf("key %q is there twice", k)
			}
			if m[k], err = jsonValue(dec, depth+1); err != nil {
				return nil, err
			}
		}
		_, err := dec.Token()
		return m, err
	case json.Delim('['):
		s := []any{}
		for dec.More() {
			e, err := jsonValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			s = append(s, e)
		}
		_, err := dec.Token()
		return s, err
	}
	if n, ok := tok.(json.Number); ok {
		if _, err := n.Float64(); err != nil {
			return nil, fmt.Errorf("the number %.40s is too large", n)
		}
	}
	return tok, nil
}

// mount lays a data file's map at the place its folder names. A key that another file
// has already given is an error.
func mount(root map[string]any, name string, m map[string]any) error {
	at := root
	if dir := path.Dir(name); dir != "." {
		for _, part := range strings.Split(dir, "/") {
			next, ok := at[part]
			if !ok {
				next = map[string]any{}
				at[part] = next
			}
			sub, ok := next.(map[string]any)
			if !ok {
				return fmt.Errorf("%s: another file gives %q a value that is no map", name, part)
			}
			at = sub
		}
	}
	return join(at, m, name)
}

func join(dst, src map[string]any, name string) error {
	for _, k := range slices.Sorted(maps.Keys(src)) {
		have, ok := dst[k]
		if !ok {
			dst[k] = src[k]
			continue
		}
		a, aok := have.(map[string]any)
		b, bok := src[k].(map[string]any)
		if !aok || !bok {
			return fmt.Errorf("%s: key %q is given by another data file too", name, k)
		}
		if err := join(a, b, name); err != nil {
			return err
		}
	}
	return nil
}

// merge lays src over dst: maps key by key, everything else replaced.
func merge(dst, src map[string]any) {
	for k, v := range src {
		a, aok := dst[k].(map[string]any)
		b, bok := v.(map[string]any)
		if aok && bok {
			merge(a, b)
			continue
		}
		dst[k] = v
	}
}

// lay lays a map over the data of a folder. What the bundle keeps in a file of a folder
// below is laid over there: the two must not both give a key.
func lay(data map[string]map[string]any, dir string, m map[string]any) {
	for k, v := range m {
		below := path.Join(dir, k)
		inner, ok := v.(map[string]any)
		if _, there := data[below]; there && ok {
			lay(data, below, inner)
			continue
		}
		merge(data[dir], map[string]any{k: v})
	}
}

// overlay merges data per folder into one data.json there and replaces other files.
func overlay(b *Bundle, over []File) (*Bundle, error) {
	byPath := map[string]File{}
	data := map[string]map[string]any{}
	add := func(f File, laid bool) error {
		if !isData(f.Path) {
			byPath[f.Path] = f
			return nil
		}
		m, err := decodeData(f.Path, f.Body)
		if err != nil {
			return err
		}
		dir := path.Dir(f.Path)
		if data[dir] == nil {
			data[dir] = map[string]any{}
		}
		if laid {
			lay(data, dir, m)
			return nil
		}
		return join(data[dir], m, f.Path)
	}
	for _, f := range b.files {
		if err := add(f, false); err != nil {
			return nil, err
		}
	}
	for _, f := range over {
		if err := add(f, true); err != nil {
			return nil, err
		}
	}
	files := slices.Collect(maps.Values(byPath))
	for dir, m := range data {
		body, err := json.MarshalIndent(m, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("merging data: %w", err)
		}
		files = append(files, File{Path: path.Join(dir, "data.json"), Body: append(body, '\n')})
	}
	return newBundle(files)
}
