package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestTheCommittedSchemasAreCurrent writes them anew when BRONZEWARD_WRITE_SCHEMA is set.
func TestTheCommittedSchemasAreCurrent(t *testing.T) {
	for path, c := range map[string]struct {
		v    any
		have []byte
	}{
		"bundle/schema/facts/schema.json": {Facts{}, FactsSchema()},
		"bundle/schema/act/schema.json":   {Act{}, ActSchema()},
	} {
		want, err := GenerateSchema(c.v)
		if err != nil {
			t.Fatal(err)
		}
		if os.Getenv("BRONZEWARD_WRITE_SCHEMA") != "" {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if !bytes.Equal(want, c.have) {
			t.Errorf("%s is not current; run BRONZEWARD_WRITE_SCHEMA=1 go test ./policy -run Schemas", path)
		}
	}
}

func TestFactsFitTheirSchema(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(FactsSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("facts.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("facts.json")
	if err != nil {
		t.Fatal(err)
	}
	valid := func(v any) error {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		inst, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(inst)
	}
	for _, s := range samples() {
		if s.name == "facts with nothing in them" || s.name == "a caller in no group" {
			continue
		}
		if err := valid(s.facts); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
	if valid(map[string]any{"version": 1, "extra": true}) == nil {
		t.Error("the schema takes a key nobody knows")
	}
}

func TestEveryNameTheLawAsksForIsInTheSchema(t *testing.T) {
	b, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.parsed.typeCheck(); err != nil {
		t.Error(err)
	}
}

func TestAMisspelledNameIsAnError(t *testing.T) {
	for _, text := range []string{
		"package bronzeward.rules.site\n\ndeny contains \"x\" if input.caller.gruops\n",
		"package bronzeward.rules.site\n\ndeny contains \"x\" if input.call.targets == \"one\"\n",
		"package bronzeward.api.site\n\ndeny contains \"x\" if input.machine\n",
	} {
		faults, err := Check(context.Background(), files(map[string]string{"a.rego": text}))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range faults {
			found = found || strings.Contains(f.Message, "undefined ref") || strings.Contains(f.Message, "match error")
		}
		if !found {
			t.Errorf("%q passes: %v", text, faults)
		}
	}
}
