package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestADifferenceNamesFilesRulesAndData(t *testing.T) {
	shipped, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	same, err := Diff(shipped, shipped)
	if err != nil || !same.Empty() || len(same.Rules)+len(same.Data) > 0 {
		t.Fatalf("with itself: %+v, %v", same, err)
	}
	const rule = `package bronzeward.rules.site

# METADATA
# title: a rule
# description: d
# custom: {code: BW-SITE-001, hint: ""}
deny contains {"code": "BW-SITE-001", "message": "m", "hint": ""} if input.call.class == "apply"
`
	const data = `bronzeward: {ladder: {BW-SITE-001: shadow, "odd key": 1}, list: [1, 2], same: {}}`
	load := func(m map[string]string) *Bundle {
		t.Helper()
		b, err := Load(files(m))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	a := load(map[string]string{"data.yaml": data, "bronzeward/rules/site/site.rego": rule, "x.rego": "package x\n"})
	spaced := load(map[string]string{"data.yaml": data, "bronzeward/rules/site/site.rego": "# moved\n" + rule, "x.rego": "package x\n"})
	if d, err := Diff(a, spaced); err != nil || len(d.Files) != 1 || len(d.Rules)+len(d.Data) > 0 {
		t.Errorf("a comment changes no rule: %+v, %v", d, err)
	}
	b := load(map[string]string{
		"data.yaml":                       `bronzeward: {ladder: {BW-SITE-001: deny, BW-SITE-002: warn}, list: [1], same: {}}`,
		"bronzeward/rules/site/site.rego": rule[:len(rule)-len(`== "apply"`+"\n")] + `== "read"` + "\n",
		"bronzeward/rules/site/more.rego": `package bronzeward.rules.site

# METADATA
# title: another
# custom: {code: BW-SITE-002, hint: ""}
deny contains {"code": "BW-SITE-002", "message": "m", "hint": ""}
`,
	})
	d, err := Diff(a, b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.Files {
		d.Files[i].Before, d.Files[i].After = nil, nil
	}
	want := Difference{
		From: a.Revision(), To: b.Revision(),
		Files: []FileDifference{
			{Path: "bronzeward/rules/site/more.rego", How: DiffAdded},
			{Path: "bronzeward/rules/site/site.rego", How: DiffChanged},
			{Path: "data.yaml", How: DiffChanged},
			{Path: "x.rego", How: DiffRemoved},
		},
		Rules: []RuleDifference{
			{Code: "BW-SITE-001", Title: "a rule", How: DiffChanged, File: "bronzeward/rules/site/site.rego"},
			{Code: "BW-SITE-002", Title: "another", How: DiffAdded, File: "bronzeward/rules/site/more.rego"},
		},
		Data: []DataDifference{
			{Key: "bronzeward.ladder.BW-SITE-001", How: DiffChanged, Before: []byte(`"shadow"`), After: []byte(`"deny"`)},
			{Key: "bronzeward.ladder.BW-SITE-002", How: DiffAdded, After: []byte(`"warn"`)},
			{Key: `bronzeward.ladder["odd key"]`, How: DiffRemoved, Before: []byte(`1`)},
			{Key: "bronzeward.list", How: DiffChanged, Before: []byte(`[1,2]`), After: []byte(`[1]`)},
		},
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
