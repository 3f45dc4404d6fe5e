package policy

import (
	"context"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"
)

// with is the shipped directory with one file's text changed.
func with(t *testing.T, file, old, new string) fs.FS {
	t.Helper()
	out := fstest.MapFS{}
	for _, f := range mustShipped(t).Files() {
		body := string(f.Body)
		if f.Path == file {
			if !strings.Contains(body, old) {
				t.Fatalf("%s has no %q", file, old)
			}
			body = strings.Replace(body, old, new, 1)
		}
		out[f.Path] = &fstest.MapFile{Data: []byte(body)}
	}
	return out
}

func mustShipped(t *testing.T) *Bundle {
	t.Helper()
	b, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Every data file names its schema for editors, and fits it.
func TestShippedDataFitTheirSchemas(t *testing.T) {
	faults, err := dataFaults(mustShipped(t))
	if err != nil || len(faults) > 0 {
		t.Fatalf("%v, %v", faults, err)
	}
	left := maps.Clone(dataSchemas)
	for _, f := range mustShipped(t).Files() {
		if !isData(f.Path) {
			continue
		}
		name := strings.TrimSuffix(f.Path, ".yaml")
		up := strings.Repeat("../", strings.Count(f.Path, "/"))
		want := "# yaml-language-server: $schema=" + up + "schema/data/" + dataSchemas[name] + "/schema.json\n"
		if !strings.HasPrefix(string(f.Body), want) {
			t.Errorf("%s does not begin with %s", f.Path, want)
		}
		delete(left, name)
	}
	if len(left) > 0 {
		t.Errorf("schemas of files that are not there: %v", left)
	}
}

// A house may have roles of its own; one that nothing is given to is misspelt.
func TestABoundRoleThatIsGivenNothingIsNamed(t *testing.T) {
	const file, own = "bronzeward/data.yaml", "viewers: [janitor]"
	check := func(fsys fs.FS) (out []Fault) {
		faults, err := Check(context.Background(), fsys)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range faults {
			if strings.Contains(f.Message, "is given nothing") {
				out = append(out, f)
			}
		}
		return out
	}
	got := check(with(t, file, "viewers: [viewer]", own))
	text, err := fs.ReadFile(with(t, file, "viewers: [viewer]", own), file)
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(text), own)
	if len(got) != 1 || got[0].File != file || got[0].Line != 1+strings.Count(before, "\n") || !strings.Contains(got[0].Hint, "operator") {
		t.Errorf("faults %+v", got)
	}
	given := string(text)
	given = strings.Replace(given, "permissions:\n", "permissions:\n  janitor: {classes: [], methods: [/machine.MachineService/Version], see_secrets: false}\n", 1)
	if got := check(with(t, file, "", "")); len(got) > 0 {
		t.Errorf("the shipped law: %+v", got)
	}
	fsys := with(t, file, "", "").(fstest.MapFS)
	fsys[file] = &fstest.MapFile{Data: []byte(given)}
	faults, err := Check(context.Background(), fsys)
	if err != nil || len(faults) > 0 {
		t.Errorf("a role of the house's own: %+v, %v", faults, err)
	}
}

func TestDataThatDoNotFitAreNamedAtTheirLine(t *testing.T) {
	for _, c := range []struct{ file, old, new, says string }{
		{"bronzeward/data.yaml", "quorum:\n", "quorom:\n", "additional properties 'quorom' not allowed"},
		{"bronzeward/data.yaml", "required: 1\n", "required: one\n", "quorum.required: got string, want integer"},
		{"bronzeward/data.yaml", "viewers: [viewer]", "viewers: [Viewer]", "role_bindings.viewers.0: 'Viewer' does not match pattern"},
		{"bronzeward/data.yaml", "BW-CONFIG-036: shadow", "BW-CONFIG-036: shadwo", "ladder.BW-CONFIG-036: value must be one of"},
		{"bronzeward/data.yaml", `minors: ["1.13"]`, `minors: [1.13]`, "supported.minors.0: got number, want string"},
		{"bronzeward/config/data.yaml", "new_entries: 500", "new_entries: 0", "limits.new_entries: minimum: got 0, want 1"},
		{"bronzeward/config/data.yaml", "effects: [NoSchedule,", "effects: [NoShedule,", "taints.effects.0: value must be one of"},
		{"bronzeward/oracle/data.yaml", "cluster: live", "cluster: alive", "1.13.fields.cluster: value must be one of"},
		{"bronzeward/methods/data.yaml", "read: [os:reader]", "read: [reader]", "roles.read.0: 'reader' does not match pattern"},
		{"bronzeward/api/data.yaml", "certificates: {hours: 8}", "certificates: {hours: 25}", "certificates.hours: maximum: got 25, want 24"},
	} {
		changed := with(t, c.file, c.old, c.new)
		faults, err := Check(context.Background(), changed)
		if err != nil {
			t.Fatal(err)
		}
		text, err := fs.ReadFile(changed, c.file)
		if err != nil {
			t.Fatal(err)
		}
		before, _, _ := strings.Cut(string(text), strings.TrimSuffix(c.new, "\n"))
		line := 1 + strings.Count(before, "\n")
		found := false
		for _, f := range faults {
			found = found || f.File == c.file && f.Line == line && strings.Contains(f.Message, c.says) && strings.Contains(f.Hint, "schema/data/")
		}
		if !found {
			t.Errorf("%s: want %s:%d with %q, got %+v", c.new, c.file, line, c.says, faults)
		}
	}
}

// What a site keeps beside its own rules is its own.
func TestDataBesideOwnRulesAreNotHeldAgainstASchema(t *testing.T) {
	dir, _ := with(t, "bronzeward/data.yaml", "quorum:", "quorum:").(fstest.MapFS)
	dir["bronzeward/rules/site/data.yaml"] = &fstest.MapFile{Data: []byte("anything: {at: all}\n")}
	faults, err := Check(context.Background(), dir)
	if err != nil || len(faults) > 0 {
		t.Errorf("%v, %v", faults, err)
	}
}

// Every kind of fault has advice of its own.
func TestEveryFaultHasAHint(t *testing.T) {
	const mode, site = "bronzeward/rules/mode/mode.rego", "package bronzeward.rules.mode\n"
	for _, c := range []struct{ name, old, new, hint string }{
		{"a misspelt fact", `input.call.class == "apply"`, `input.call.clas == "apply"`, "misspelt"},
		{"no Rego", site, site + "}\n", "no Rego v1"},
		{"an unsafe variable", site, site + "\nlonely := nobody\n", "variable"},
		{"not formatted", site, site + "\n\n\n\nx  :=  1\n", "policy fmt"},
		{"no METADATA", site, site + "\ndeny contains 7 if input.call.size > 7\n", "METADATA"},
		{"a taken code", "code: BW-MODE-002", "code: BW-MODE-001", "policy docs"},
		{"a code of nobody's", "code: BW-MODE-002", "code: MODE", "BW-SITE-001"},
	} {
		faults, err := Check(context.Background(), with(t, mode, c.old, c.new))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range faults {
			found = found || strings.Contains(f.Hint, c.hint)
		}
		if !found {
			t.Errorf("%s: no hint with %q: %+v", c.name, c.hint, faults)
		}
	}
}
