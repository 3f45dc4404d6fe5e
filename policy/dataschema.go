package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// dataSchemas are the schemas of the shipped data files, by the file without its ending. They are
// the binary's own: a law cannot loosen what its data are checked by.
var dataSchemas = map[string]string{
	"bronzeward/data":         "law",
	"bronzeward/config/data":  "config",
	"bronzeward/oracle/data":  "oracle",
	"bronzeward/methods/data": "methods",
	"bronzeward/api/data":     "api",
}

// compiledDataSchemas compiles them once.
var compiledDataSchemas = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	out := map[string]*jsonschema.Schema{}
	for _, file := range slices.Sorted(maps.Keys(dataSchemas)) {
		name := "bundle/schema/data/" + dataSchemas[file] + "/schema.json"
		text, err := fs.ReadFile(shipped, name)
		if err != nil {
			return nil, fmt.Errorf("reading the schema of %s: %w", file, err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("reading the schema of %s: %w", file, err)
		}
		if err := c.AddResource(name, doc); err != nil {
			return nil, fmt.Errorf("reading the schema of %s: %w", file, err)
		}
		if out[file], err = c.Compile(name); err != nil {
			return nil, fmt.Errorf("compiling the schema of %s: %w", file, err)
		}
	}
	return out, nil
})

// dataFaults holds the data files against their schemas, each fault at its line.
func dataFaults(b *Bundle) ([]Fault, error) {
	schemas, err := compiledDataSchemas()
	if err != nil {
		return nil, err
	}
	var out []Fault
	for _, f := range b.files {
		schema := schemas[strings.TrimSuffix(f.Path, extension(f.Path))]
		if !isData(f.Path) || schema == nil {
			continue
		}
		m, err := decodeData(f.Path, f.Body)
		if err != nil {
			continue // a fault of its own
		}
		var doc yaml.Node
		_ = yaml.Unmarshal(f.Body, &doc) // JSON is YAML; without nodes every fault is on line 1
		var invalid *jsonschema.ValidationError
		if err := schema.Validate(m); err != nil && !errors.As(err, &invalid) {
			return nil, fmt.Errorf("checking %s: %w", f.Path, err)
		}
		if invalid != nil {
			out = append(out, schemaFaults(f.Path, &doc, invalid)...)
		}
	}
	return out, nil
}

func extension(p string) string { return p[strings.LastIndex(p, "."):] }

var english = message.NewPrinter(language.English)

// schemaFaults are the leaves of what a schema says is wrong.
func schemaFaults(file string, doc *yaml.Node, e *jsonschema.ValidationError) []Fault {
	if len(e.Causes) > 0 {
		var out []Fault
		for _, c := range e.Causes {
			out = append(out, schemaFaults(file, doc, c)...)
		}
		return out
	}
	where := strings.Join(e.InstanceLocation, ".")
	if where == "" {
		where = "the file"
	}
	return []Fault{{
		File: file, Line: lineOf(doc, e.InstanceLocation, e.ErrorKind.LocalizedString(english)),
		Message: fmt.Sprintf("data: %s: %s", where, e.ErrorKind.LocalizedString(english)),
		Hint:    file + "'s schema is schema/data/" + dataSchemas[strings.TrimSuffix(file, extension(file))] + "/schema.json; data of your own go into a data.yaml beside your rules",
	}}
}

// lineOf is the line of a place in a document: of the key that the message names, or of the value.
func lineOf(doc *yaml.Node, place []string, text string) int {
	at := doc
	if at.Kind == yaml.DocumentNode && len(at.Content) > 0 {
		at = at.Content[0]
	}
	line := max(at.Line, 1)
	for _, step := range place {
		var next *yaml.Node
		switch at.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(at.Content); i += 2 {
				if at.Content[i].Value == step {
					next, line = at.Content[i+1], at.Content[i].Line
				}
			}
		case yaml.SequenceNode:
			if n, err := strconv.Atoi(step); err == nil && n < len(at.Content) {
				next, line = at.Content[n], at.Content[n].Line
			}
		}
		if next == nil {
			return line
		}
		at = next
	}
	for i := 0; at.Kind == yaml.MappingNode && i+1 < len(at.Content); i += 2 {
		if strings.Contains(text, "'"+at.Content[i].Value+"'") {
			return at.Content[i].Line
		}
	}
	return line
}
