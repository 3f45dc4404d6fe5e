package law

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/policy"
)

// shown is a record as decisions show prints it, as JSON and as YAML.
func shown(t *testing.T, record []byte) map[string][]byte {
	t.Helper()
	whole := map[string]any{"decision": map[string]any{"id": "x"}, "leaf": "00", "place": nil, "record": json.RawMessage(record), "outcomes": []any{}}
	asJSON, err := json.MarshalIndent(whole, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	if err := yaml.Load(asJSON, &plain); err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Dump(plain)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"json": asJSON, "yaml": asYAML}
}

// What decisions show prints is judged as explain judges the decision, whether it is a call or an act,
// or lacks facts.
func TestWhatDecisionsShowPrintsIsEvaluated(t *testing.T) {
	w, old := newWorld(t), oldLaw(t)
	w.save(t, old)
	law := draftDir(t, old)
	lacking := judged(t, old, call("human", "operators"))
	lacking.Facts = []byte(strings.Replace(string(lacking.Facts), `"changes_known":false,`, "", 1))
	act := judged(t, old, call("human", "operators"))
	act.Kind, act.Facts = audit.KindHTTP, []byte(`{"version":1,"act":"machines.add","caller":{"issuer":"i","subject":"s","kind":"human","groups":["operators"],"proof":"token","proof_ends":"2030-01-01T00:00:00Z","revoked":false},"subject":"worker-1","change":null,"now":"2026-03-02T10:00:00Z"}`)
	for name, e := range map[string]audit.Entry{
		"allowed": judged(t, old, call("automation", "automation")), "denied": judged(t, old, call("human", "viewers")), "lacking": lacking, "act": act,
	} {
		id := w.write(t, e)
		var record []byte
		if err := w.owner.QueryRow(t.Context(), "select record from audit.entries where id = $1", id).Scan(&record); err != nil {
			t.Fatal(err)
		}
		var then explained
		if err := json.Unmarshal([]byte(w.run(t, "explain", id, "-o", "json").out), &then); err != nil {
			t.Fatal(err)
		}
		for format, text := range shown(t, record) {
			file := filepath.Join(t.TempDir(), "shown")
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			var now evaluated
			if err := json.Unmarshal([]byte(w.run(t, "eval", file, "-b", law, "-o", "json").out), &now); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(then.Again, now.Explanation); diff != "" {
				t.Errorf("%s as %s: explain (-) and eval (+) differ:\n%s", name, format, diff)
			}
			if name == "lacking" && !cmp.Equal(now.Lacks, []string{"config.changes_known"}) || len(now.Assumed) > 0 {
				t.Errorf("%s: lacks %v, assumed %v", name, now.Lacks, now.Assumed)
			}
		}
	}
}

func TestWhatIsNoCallIsSaid(t *testing.T) {
	current, label, _ := configs(t)
	dir := t.TempDir()
	file := func(text string) string {
		path := filepath.Join(dir, "file.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const cases = "base: {}\ncases:\n- {name: one, want: {verdict: allow}}\n- {name: two, want: {verdict: allow}}\n"
	for name, row := range map[string]struct {
		text string
		args []string
		want string
	}{
		"nothing":                    {"", nil, "is empty"},
		"a binary":                   {"\x7fELF\x02\x01\x01\x00", nil, "neither YAML nor JSON"},
		"a list":                     {"[1, 2]", nil, "no facts of a call"},
		"a field nobody knows":       {"call: {metod: x}\n", nil, `unknown field "metod"`},
		"one of a record":            {`{"record": {"facts": {"version": 1, "cal": {}}}}`, nil, `unknown field "cal"`},
		"one of an act's record":     {`{"record": {"facts": {"version": 1, "act": "x", "cal": {}}}}`, nil, `unknown field "cal"`},
		"one of a case":              {"base: {cal: {}}\ncases: [{name: a, want: {verdict: allow}}]\n", nil, `unknown field "cal"`},
		"no law's record":            {`{"record": {"kind": "rpc"}}`, nil, "no law decided this"},
		"facts that are none":        {`{"record": {"facts": 7}}`, nil, "are no facts"},
		"another version":            {`{"record": {"facts": {"version": 2, "phase": "final"}}}`, nil, "version 2"},
		"two documents":              {"{}\n---\n{}\n", nil, "one YAML document"},
		"several cases":              {cases, nil, "choose one with --case:\n  one\n  two"},
		"a case that is not there":   {cases, []string{"--case", "three"}, `no case "three"`},
		"a case of no cases":         {"call: {}\n", []string{"--case", "three"}, "this is none"},
		"a file and a configuration": {"call: {}\n", []string{"--proposed", label, "--as", "x"}, "give one of both"},
		"a file and a person":        {"call: {}\n", []string{"--as", "x"}, "--as is of a supposed apply"},
		"facts and case at once":     {"call: {}\n", []string{"--print-facts", "--print-case", "x"}, "give one"},
	} {
		got := (&world{}).run(t, append([]string{"eval", file(row.text)}, row.args...)...)
		var usage cli.UsageError
		if !errors.As(got.err, &usage) || !strings.Contains(got.err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", name, got.err, row.want)
		}
	}
	big := filepath.Join(dir, "big")
	if err := os.WriteFile(big, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(big, maxCallFile+1); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		args []string
		want string
	}{
		"nothing at all":          {nil, "nothing to judge"},
		"nobody":                  {[]string{"--proposed", label}, "--as says who"},
		"a case and no file":      {[]string{"--case", "x", "--proposed", label, "--as", "x"}, "--case is of a case file"},
		"a file that is not":      {[]string{filepath.Join(dir, "none")}, "no such file"},
		"a configuration not":     {[]string{"--proposed", filepath.Join(dir, "none"), "--as", "x"}, "no such file"},
		"a huge file":             {[]string{big}, "more than 67108864 bytes"},
		"a huge configuration":    {[]string{"--current", current, "--proposed", big, "--as", "x"}, "more than 33554368 bytes"},
		"both are one input":      {[]string{"--proposed", "-", "--current", "-", "--as", "x"}, "standard input is one"},
		"both cannot be read":     {[]string{"--current", "testdata/diff.txt", "--proposed", "testdata/diff.txt", "--as", "x"}, "what the machine runs cannot be read"},
		"one, and no other":       {[]string{"--proposed", "testdata/diff.txt", "--as", "x"}, "the proposed configuration cannot be read"},
		"a kind":                  {[]string{"--proposed", label, "--as", "x", "--kind", "robot"}, "human or automation"},
		"a role":                  {[]string{"--proposed", label, "--as", "x", "--role", "queen"}, "worker or controlplane"},
		"a mode":                  {[]string{"--proposed", label, "--as", "x", "--mode", "soon"}, `no mode "soon"`},
		"a version":               {[]string{"--proposed", label, "--as", "x", "--talos", "latest"}, "the version"},
		"a time":                  {[]string{"--proposed", label, "--as", "x", "--at", "noon"}, "neither a time"},
		"an approver of no group": {[]string{"--proposed", label, "--as", "x", "--approved-by", "bob"}, "bob:approvers"},
	} {
		got := (&world{}).run(t, append([]string{"eval"}, row.args...)...)
		var usage cli.UsageError
		if !errors.As(got.err, &usage) || !strings.Contains(got.err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", name, got.err, row.want)
		}
	}
}

// FuzzACallsFile: whatever a file holds, it is read or refused, and what is read is the facts that can
// be written and read again.
func FuzzACallsFile(f *testing.F) {
	facts, err := json.Marshal(call("human", "operators"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(facts, "")
	f.Add([]byte(`{"record": {"facts": `+string(facts)+`}}`), "")
	f.Add([]byte("record:\n  facts: {version: 1, act: policy.activate, caller: {subject: x}}\n"), "")
	f.Add([]byte("base: {call: {class: apply}}\ncases: [{name: a, facts: {phase: early}, want: {verdict: allow}}]\n"), "a")
	f.Add([]byte("data: {quorum: {required: 2}}\nbase: {}\ncases: [{name: a, want: {verdict: allow}}]\n"), "")
	f.Add([]byte("a: &a [x]\nb: [*a, *a]\n"), "")
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		c, err := readCall(text, name)
		if err != nil {
			return
		}
		if (c.facts == nil) == (c.recorded == nil) {
			t.Fatalf("it is both, or none: %+v", c)
		}
		raw, err := c.text()
		if err != nil {
			t.Fatal(err)
		}
		if c.recorded == nil || c.recorded.Call != nil {
			_, err = policy.DecodeFacts(raw)
		} else {
			_, err = policy.DecodeAct(raw)
		}
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
	})
}
