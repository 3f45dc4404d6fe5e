package policy

import (
	"strings"
	"testing"
)

// A rule about a fact that does not exist never holds, and would be silent for ever.
func TestAMisspelledFactIsFoundAtAnyDepth(t *testing.T) {
	for name, row := range map[string]struct {
		expression string
		good       bool
	}{
		"control: a fact of the machine":  {"input.machine.labels.env == \"prod\"", true},
		"control: a fact of the evidence": {"input.evidence.stage == \"running\"", true},
		"control: a fact of a change":     {"some c in input.config.changes\n\tc.path == \"x\"", true},
		"a name of the machine":           {"input.machine.lables.env == \"prod\"", false},
		"a name of the evidence":          {"input.evidence.stadge == \"running\"", false},
		"a name of a config change":       {"some c in input.config.changes\n\tc.pathh == \"x\"", false},
		"a name of an approval":           {"some a in input.change.approvals\n\ta.approvr.subject == \"x\"", false},
		"a name at the top":               {"input.machin.name == \"x\"", false},
		"a name of the call":              {"input.call.resource.typ == \"x\"", false},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := Load(files(map[string]string{"x.rego": "package bronzeward.rules.x\n\ndeny contains 1 if {\n\t" + row.expression + "\n}\n"}))
			if err != nil {
				t.Fatal(err)
			}
			err = b.parsed.typeCheck()
			if row.good && err != nil {
				t.Errorf("got %v", err)
			}
			if !row.good && (err == nil || !strings.Contains(err.Error(), "undefined ref")) {
				t.Errorf("got %v", err)
			}
		})
	}
}
