package policy

import (
	"strings"
	"testing"
)

// A rule about a fact that does not exist never holds, and would be silent for ever.
func TestAMisspelledFactIsFoundAtAnyDepth(t *testing.T) {
	const calls, acts = "bronzeward.rules.x", "bronzeward.api.x"
	for name, row := range map[string]struct {
		pkg        string
		expression string
		good       bool
	}{
		"control: a fact of the machine":  {calls, "input.machine.labels.env == \"prod\"", true},
		"control: a fact of the evidence": {calls, "input.evidence.stage == \"running\"", true},
		"control: a fact of a change":     {calls, "some c in input.config.changes\n\tc.path == \"x\"", true},
		"a name of the machine":           {calls, "input.machine.lables.env == \"prod\"", false},
		"a name of the evidence":          {calls, "input.evidence.stadge == \"running\"", false},
		"a name of a config change":       {calls, "some c in input.config.changes\n\tc.pathh == \"x\"", false},
		"a name of an approval":           {calls, "some a in input.change.approvals\n\ta.approvr.subject == \"x\"", false},
		"a name at the top":               {calls, "input.machin.name == \"x\"", false},
		"a name of the call":              {calls, "input.call.resource.typ == \"x\"", false},
		"control: a change of an act":     {acts, "input.change.requester.subject == \"x\"", true},
		"a name of a change of an act":    {acts, "input.change.requestor.subject == \"x\"", false},
		"a name of an approval of an act": {acts, "some a in input.change.approvals\n\ta.groups_then == null", false},
		"a fact of calls alone":           {acts, "input.evidence.stage == \"running\"", false},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := Load(files(map[string]string{"x.rego": "package " + row.pkg + "\n\ndeny contains 1 if {\n\t" + row.expression + "\n}\n"}))
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
