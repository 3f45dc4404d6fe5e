package policy

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"
	"github.com/open-policy-agent/opa/v1/ast"
)

//go:embed bundle/schema/facts/schema.json
var factsSchema []byte

//go:embed bundle/schema/act/schema.json
var actSchema []byte

// FactsSchema is the JSON schema of Facts, the input of an admission decision. It is
// generated from the Go type; a test keeps the committed file current.
func FactsSchema() []byte { return append([]byte(nil), factsSchema...) }

// ActSchema is the JSON schema of an Act, the input of an API decision.
func ActSchema() []byte { return append([]byte(nil), actSchema...) }

// GenerateSchema makes the schema of Facts or Act anew.
func GenerateSchema(v any) ([]byte, error) {
	r := jsonschema.Reflector{Anonymous: true}
	s, err := json.Marshal(r.Reflect(v))
	if err != nil {
		return nil, fmt.Errorf("generating schema: %w", err)
	}
	var doc map[string]any
	if err := json.Unmarshal(s, &doc); err != nil {
		return nil, fmt.Errorf("generating schema: %w", err)
	}
	// OPA reads draft 7 keywords; everything used here means the same in both.
	doc["$schema"] = "http://json-schema.org/draft-07/schema#"
	defs, _ := doc["$defs"].(map[string]any)
	doc["definitions"] = defs
	delete(doc, "$defs")
	nullable(reflect.TypeOf(v), defs, map[reflect.Type]bool{})
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("generating schema: %w", err)
	}
	return append([]byte(strings.ReplaceAll(string(out), "#/$defs/", "#/definitions/")), '\n'), nil
}

// nullable lets every pointer, slice and map be null, as encoding/json writes a nil one.
func nullable(t reflect.Type, defs map[string]any, seen map[reflect.Type]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	def, ok := defs[t.Name()].(map[string]any)
	if t.Kind() != reflect.Struct || seen[t] || !ok {
		return
	}
	seen[t] = true
	props, _ := def["properties"].(map[string]any)
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch f.Type.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			props[name] = map[string]any{"anyOf": []any{map[string]any{"type": "null"}, props[name]}}
		}
		nullable(f.Type, defs, seen)
	}
}

// typeCheck holds every reference to the input against the schema of Facts, and in the
// package bronzeward.api against that of an Act: a misspelled name is an error there,
// and not a rule that never holds.
func (p *parsed) typeCheck() error {
	var errs []error
	for _, c := range []struct {
		schema []byte
		api    bool
	}{{factsSchema, false}, {actSchema, true}} {
		var schema any
		if err := json.Unmarshal(c.schema, &schema); err != nil {
			return fmt.Errorf("reading schema: %w", err)
		}
		schema = present(schema)
		set := ast.NewSchemaSet()
		set.Put(ast.SchemaRootRef, schema)
		mods := map[string]*ast.Module{}
		for name, m := range p.law {
			if isAPI(m) == c.api {
				mods[name] = m.Copy()
			}
		}
		compiler := newCompiler(p).WithSchemas(set).WithAllowUndefinedFunctionCalls(true)
		if compiler.Compile(mods); compiler.Failed() {
			errs = append(errs, located(compiler.Errors)...)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("checking types: %w", err)
	}
	return nil
}

// present takes "or null" off every object and list of objects: a reference below what
// may be null is otherwise not looked at, and a misspelled name there would be a rule
// that never holds. Lists of plain values keep it, because rules ask whether they are null.
func present(schema any) any {
	switch s := schema.(type) {
	case map[string]any:
		if either, ok := s["anyOf"].([]any); ok && len(either) == 2 {
			inner, _ := either[1].(map[string]any)
			items, _ := inner["items"].(map[string]any)
			if inner["$ref"] != nil || items["$ref"] != nil {
				return present(inner)
			}
		}
		for key, value := range s {
			s[key] = present(value)
		}
	case []any:
		for i, value := range s {
			s[i] = present(value)
		}
	}
	return schema
}

// isAPI tells whether a module judges acts on Bronzeward itself.
func isAPI(m *ast.Module) bool {
	return strings.HasPrefix(m.Package.Path.String()+".", "data.bronzeward.api.")
}
