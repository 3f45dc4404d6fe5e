package facts

import (
	"context"
	"slices"
	"strings"
	"testing"

	"bronzeward/fixtures/oracle"
	"bronzeward/policy"
)

// stricter are the cases a node takes and Bronzeward does not, and why.
func stricter() map[string]string {
	return map[string]string{
		"odd-custom-tag": "unsafe", // a tag of its own: YAML libraries differ on what it makes of a value
	}
}

// What the node refuses has a Problem or needs a reboot; what it takes has neither,
// but for the listed cases.
func TestEveryOracleCaseIsJudgedAsTheNodeJudgesIt(t *testing.T) {
	base, d := oracle.Base(), testKeys(t)
	cases := oracle.Cases()
	if len(cases) < 80 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			got := ReadConfig(context.Background(), c.Text, base, base, d)
			reboot := slices.ContainsFunc(got.Changes, func(c policy.ConfigChange) bool { return c.Reboot })
			refused := len(got.Problems) > 0 || reboot
			kind, strict := stricter()[c.Name]
			switch {
			case strict:
				if len(got.Problems) != 1 || got.Problems[0].Kind != kind {
					t.Fatalf("want one problem %q, got %+v", kind, got.Problems)
				}
			case c.Real.Code == "OK" && refused:
				t.Fatalf("the node takes it; problems %+v, changes %+v", got.Problems, got.Changes)
			case c.Real.Code != "OK" && !refused:
				t.Fatalf("the node says %s: %s", c.Real.Code, c.Real.Message)
			}
			// A diff of the node means that something changed, and no diff that nothing did.
			if c.DryRun.Code == "OK" && !strict {
				if silent := strings.Contains(c.DryRun.AnswerDetails, "No changes."); silent != (len(got.Changes) == 0) {
					t.Fatalf("the node's dry run says %q, changes are %+v", c.DryRun.AnswerDetails, got.Changes)
				}
			}
			if immediate := strings.HasPrefix(c.Real.Message, "this config change can't be applied in immediate mode"); immediate != reboot && len(got.Problems) == 0 {
				t.Fatalf("the node's refusal for a reboot is %t, ours %t", immediate, reboot)
			}
		})
	}
}

func TestProblemsOfOracleCases(t *testing.T) {
	base := oracle.Base()
	lines := strings.Count(string(base), "\n")
	tests := []struct {
		name, kind string
		line       int
	}{
		{"bad-apiversion-only", "unknown-key", 60},
		{"bad-control-char", "syntax", 59},
		{"bad-duplicate-nested", "duplicate", 7},
		{"bad-empty", "missing", 0},
		{"bad-garbage", "syntax", 1},
		{"bad-list", "syntax", 1},
		{"bad-no-v1alpha1", "missing", 0},
		{"bad-nonutf8", "unsafe", 59},
		{"bad-nonutf8-value", "unsafe", 6},
		{"bad-nul", "unsafe", 59},
		{"bad-only-marker", "missing", 0},
		{"bad-scalar", "syntax", 1},
		{"bad-two-v1alpha1", "duplicate", 60},
		{"bad-unknown-apiversion", "unknown-document", 60},
		{"bad-unknown-key", "unknown-key", 5},
		{"bad-unknown-kind", "unknown-document", 60},
		{"doc-discovery", "unknown-document", 60},
		{"doc-resolver", "invalid", 0},
		{"live-api-access", "invalid", 0},
		{"odd-deep", "invalid", 5},
		{"odd-directive", "unsafe", 1},
		{"odd-nel", "syntax", 60},
		{"odd-string-bool", "invalid", 21},
		{"reboot-persist", "invalid", 0},
		{"reboot-type-flip", "invalid", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, ok := oracle.Find(test.name)
			if !ok {
				t.Fatal("no such case")
			}
			got := ReadConfig(context.Background(), c.Text, base, base, testKeys(t)).Problems
			if len(got) == 0 || got[0].Kind != test.kind || got[0].Line != test.line {
				t.Fatalf("got %+v, want %s at %d (the base has %d lines)", got, test.kind, test.line, lines)
			}
		})
	}
}
