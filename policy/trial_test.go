package policy

import (
	"context"
	"strings"
	"testing"
)

func TestTheShippedLawIsCleanAndPassesItsTrial(t *testing.T) {
	ctx := context.Background()
	b, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range metadataFaults(b) {
		t.Error(f)
	}
	report, err := Test(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Failed {
		t.Errorf("%s:%d: %s: %s", f.File, f.Line, f.Name, f.Message)
	}
	if report.Coverage < 90 {
		t.Errorf("the Rego tests reach %.1f %% of the law, less than 90: %v", report.Coverage, report.Missed)
	}
	t.Logf("%d tests, coverage %.1f %%, missed %v", len(report.Passed), report.Coverage, report.Missed)
	if _, err := Trial(ctx, b); err != nil {
		t.Error(err)
	}
}

// The control of the trial: what must not become live does not.
func TestATrialRefusesWhatMustNotBecomeLive(t *testing.T) {
	b, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	permissive := "package bronzeward.admission\n\ndecision := {\"allow\": true, \"reasons\": [], " + rest + "}\n\ntest_it if true\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"a rule taken away", map[string]string{
			"bronzeward/rules/mode/mode.rego":      "package bronzeward.rules.mode\n",
			"bronzeward/rules/mode/mode_test.rego": "package bronzeward.rules.mode_test\n",
		}, []string{`sample "mode staged": the law allows what no law may`, `sample "mode try"`, `sample "an absent mode"`, `sample "something staged, and no change"`}},
		{"the approvals taken away", map[string]string{
			"bronzeward/rules/approvals/approvals.rego":      "package bronzeward.rules.approvals\n",
			"bronzeward/rules/approvals/approvals_test.rego": "package bronzeward.rules.approvals_test\n",
		}, []string{`sample "a change that is spent": the law allows what no law may`, `sample "a change that is revoked"`, `sample "a change of another epoch"`}},
		{"a test that fails", map[string]string{
			"bronzeward/rules/site/site_test.rego": "package bronzeward.rules.site_test\n\ntest_no if false\n",
		}, []string{"site_test.rego:3: data.bronzeward.rules.site_test.test_no"}},
		{"a rule that fails", map[string]string{
			"bronzeward/rules/site/site.rego": "package bronzeward.rules.site\n\nimport data.bronzeward.lib.finding\n\n# METADATA\n# title: t\n# description: d\n# custom:\n#   code: BW-SITE-001\n#   hint: \"\"\ndeny contains finding.because(rego.metadata.rule(), \"no\") if time.parse_rfc3339_ns(input.call.mode) > 0\n",
		}, []string{CodeEvaluation}},
		{"a rule without a code", map[string]string{
			"bronzeward/rules/site/site.rego": "package bronzeward.rules.site\n\ndeny contains \"no\" if input.call.path == \"x\"\n",
		}, []string{"rule has no METADATA"}},
		{"a fact that does not exist", map[string]string{
			"bronzeward/rules/site/site.rego": "package bronzeward.rules.site\n\ngrant contains \"os:admin\" if input.caller.boss\n",
		}, []string{"undefined ref: input.caller.boss"}},
		{"no tests", nil, []string{"bundle has no tests"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			law, err := Overlay(b, files(c.files))
			if c.files == nil {
				law, err = Load(files(map[string]string{"a.rego": permissive}))
			} else if c.want[0] != "" {
				law, err = Overlay(law, files(noQuorum))
			}
			if err != nil {
				t.Fatal(err)
			}
			_, err = Trial(context.Background(), law)
			if err == nil {
				t.Fatal("it may become live")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q lacks %q", err, w)
				}
			}
		})
	}
}

// Data that do not fit their schema refuse at the gate, with the key, its line and what to do; the very
// same law, once it is live, is loaded and judges what is past. What fits is a control of its own: it
// passes.
func TestATrialHoldsDataAgainstTheirSchemas(t *testing.T) {
	law, err := Load(with(t, "bronzeward/data.yaml", "quorum:", "quorom:"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Trial(t.Context(), law)
	for _, want := range []string{"bronzeward/data.yaml:", "data: the file: additional properties 'quorom' not allowed", "schema/data/law/schema.json"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	if err := New(EngineConfig{}).Use(t.Context(), law); err != nil {
		t.Errorf("it cannot judge what is past: %v", err)
	}
	good, err := Load(with(t, "bronzeward/data.yaml", "quorum:", "# more\nquorum:"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Trial(t.Context(), good); err != nil {
		t.Errorf("what fits: %v", err)
	}
}

// Data is a site's own: the law's tests hold whatever it says.
func TestALawWithASitesOwnDataPassesItsTrial(t *testing.T) {
	b, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"no quorum":    "quorum: {required: 0}\n",
		"other groups": "quorum: {required: 2, groups: [leads]}\n",
	} {
		law, err := Overlay(b, files(map[string]string{"bronzeward/data.yaml": data}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Trial(context.Background(), law); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
