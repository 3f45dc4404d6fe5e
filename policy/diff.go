package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
)

// How a part of one bundle is in another.
const (
	DiffAdded   = "added"
	DiffRemoved = "removed"
	DiffChanged = "changed"
)

// Difference is how a bundle differs from another.
type Difference struct {
	From string `json:"from"` // revision
	To   string `json:"to"`
	// Files are in order of their paths.
	Files []FileDifference `json:"files"`
	// Rules are those with a code, in order of it. A rule is changed when its meaning, title or hint
	// is; a rule that only moved, or whose comments or spaces differ, is the same.
	Rules []RuleDifference `json:"rules"`
	// Data are in order of their keys. A list is one value.
	Data []DataDifference `json:"data"`
}

// FileDifference is one file. Before and After are what is in it, empty where it is not there.
type FileDifference struct {
	Path   string `json:"path"`
	How    string `json:"how"`
	Before []byte `json:"-"`
	After  []byte `json:"-"`
}

// RuleDifference is one rule.
type RuleDifference struct {
	Code  string `json:"code"`
	Title string `json:"title"`
	How   string `json:"how"`
	// File is where it stands, in the bundle that has it; in both, in the second.
	File string `json:"file"`
}

// DataDifference is one value of the data, as JSON; null where it is not there.
type DataDifference struct {
	Key    string          `json:"key"`
	How    string          `json:"how"`
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// Empty is true when the two have the same files, and so the same revision.
func (d Difference) Empty() bool { return len(d.Files) == 0 }

// Diff says how bundle b differs from bundle a.
func Diff(a, b *Bundle) (Difference, error) {
	out := Difference{From: a.revision, To: b.revision, Files: []FileDifference{}, Rules: []RuleDifference{}, Data: []DataDifference{}}
	before, after := map[string][]byte{}, map[string][]byte{}
	for _, f := range a.files {
		before[f.Path] = f.Body
	}
	for _, f := range b.files {
		after[f.Path] = f.Body
	}
	each(before, after, func(x, y []byte) bool { return bytes.Equal(x, y) }, func(path, how string, x, y []byte) {
		out.Files = append(out.Files, FileDifference{Path: path, How: how, Before: bytes.Clone(x), After: bytes.Clone(y)})
	})
	each(rulesByCode(a), rulesByCode(b), func(x, y ruleText) bool { return x.meaning == y.meaning }, func(code, how string, x, y ruleText) {
		if how == DiffRemoved {
			y = x
		}
		out.Rules = append(out.Rules, RuleDifference{Code: code, Title: y.title, How: how, File: y.file})
	})
	dataBefore, dataAfter := map[string]any{}, map[string]any{}
	leaves(a.parsed.data, "", dataBefore)
	leaves(b.parsed.data, "", dataAfter)
	var failed error
	each(dataBefore, dataAfter, reflect.DeepEqual, func(key, how string, x, y any) {
		d := DataDifference{Key: key, How: how}
		var err error
		if how != DiffAdded {
			d.Before, err = json.Marshal(x)
		}
		if how != DiffRemoved && err == nil {
			d.After, err = json.Marshal(y)
		}
		if err != nil {
			failed = fmt.Errorf("comparing %s: %w", key, err)
		}
		out.Data = append(out.Data, d)
	})
	return out, failed
}

// each tells of the keys whose values differ, in order.
func each[T any](a, b map[string]T, same func(x, y T) bool, tell func(key, how string, x, y T)) {
	keys := maps.Clone(a)
	maps.Copy(keys, b)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		x, inA := a[k]
		y, inB := b[k]
		switch {
		case !inA:
			tell(k, DiffAdded, x, y)
		case !inB:
			tell(k, DiffRemoved, x, y)
		case !same(x, y):
			tell(k, DiffChanged, x, y)
		}
	}
}

// ruleText is a rule with a code.
type ruleText struct {
	title, file string
	// meaning is all of it, but for where it stands and how it is spaced.
	meaning string
}

func rulesByCode(b *Bundle) map[string]ruleText {
	out := map[string]ruleText{}
	for name, m := range b.parsed.law {
		for _, a := range m.Annotations {
			code, ok := a.Custom["code"].(string)
			r := ruleOf(m, a)
			if !ok || r == nil {
				continue
			}
			hint, _ := a.Custom["hint"].(string)
			out[code] = ruleText{title: a.Title, file: name, meaning: fmt.Sprintf("%s\n%s\n%s\n%s", a.Title, hint, m.Package.Path, r)}
		}
	}
	return out
}

var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// leaves lays nested maps flat, by their paths. An empty map is a leaf.
func leaves(m map[string]any, at string, out map[string]any) {
	for k, v := range m {
		path := at + "." + k
		switch {
		case !plainKey.MatchString(k):
			path = fmt.Sprintf("%s[%q]", at, k)
		case at == "":
			path = k
		}
		if inner, ok := v.(map[string]any); ok && len(inner) > 0 {
			leaves(inner, path, out)
			continue
		}
		out[path] = v
	}
}
