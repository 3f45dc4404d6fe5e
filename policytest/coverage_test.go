package policytest

import (
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bronzeward/policy"
)

// semantics says of each fact on ApplyConfiguration which cases hold what the law makes of
// it. What no law sees (S8 and S9: the node's own texts, S18 and S19: how the request is
// read) is there with what the law says beside it; the gateway's own tests hold the rest.
func semantics() map[string][]string {
	return map[string][]string{
		"S1":  {"apply: an absent mode is reboot (S1)"},
		"S2":  {"apply: reboot is refused (S2)"},
		"S3":  {"apply: auto is refused (S3 U19)", "apply: auto passes as a dry run (U19)"},
		"S4":  {"config: doc-link", "config: doc-volume", "dangers: lock-out: NetworkRuleConfig", "dangers: data loss: VolumeConfig"},
		"S5":  {"apply: staged is refused (S5)", "apply: an apply over something staged is refused (S5)"},
		"S6":  {"apply: a dry run over something staged is refused (S6)", "apply: staged is refused as a dry run (S6)"},
		"S7":  {"apply: try is refused (S7)"},
		"S8":  {"semantics: a dry run hides secrets (S8)"},
		"S9":  {"semantics: an apply hides secrets in what the node says (S9)", "config: reboot-files"},
		"S10": {"semantics: what is on disk and not active stops an apply (S10)"},
		"S11": {"semantics: a change whose base moved is past (S11)"},
		"S12": {"semantics: the same text again changes nothing (S12)"},
		"S13": {"apply: a configuration without v1alpha1 is refused (S13)"},
		"S14": {"semantics: an attempt under way holds a second apply (S14)", "semantics: and a dry run (S14)"},
		"S15": {"apply: maintenance is refused (S15 U17)", "apply: maintenance is refused as auto dry run (U17)"},
		"S16": {"semantics: a machine in agent mode has no type and takes nothing (S16)"},
		"S17": {"dangers: identity: machine.type"},
		"S18": {"semantics: a rollback time without try means nothing (S18)"},
		"S19": {"semantics: a field of an older Talos is not read (S19)"},
		"S20": {"config: bad-duplicate-nested", "config: bad-two-v1alpha1", "config: bad-unknown-key", "config: ok-null-document", "config: odd-directive"},
	}
}

// dangers are the rows of what can defeat the gateway, each with how its cases begin and
// how many there are.
func dangers() map[string]int {
	return map[string]int{
		"dangers: trust": 8, "dangers: side door": 7, "size: crash by size": 3, "size: crash by number": 1, "size: many documents": 1,
		"dangers: lock-out": 10, "dangers: silent reboot": 3, "dangers: data loss": 11, "dangers: supply chain": 11,
		"dangers: exfiltration": 4, "dangers: identity": 8, "dangers: free text": 4, "dangers: an untouched danger": 1,
	}
}

// names are the titles of all shipped cases.
func names(t *testing.T) map[string]bool {
	t.Helper()
	fsys, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	all, err := Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, f := range all {
		for _, c := range f.Cases {
			out[title(f, c)] = true
		}
	}
	return out
}

// absent are the rows of the index that the cases do not hold.
func absent(there map[string]bool) []string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(semantics())) {
		for _, name := range semantics()[id] {
			if !there[name] {
				out = append(out, id+": "+name)
			}
		}
	}
	for row, want := range dangers() {
		got := 0
		for name := range there {
			if strings.HasPrefix(name, row) {
				got++
			}
		}
		if got < want {
			out = append(out, row)
		}
	}
	return out
}

func TestTheCasesCoverEveryFactAndDanger(t *testing.T) {
	there := names(t)
	for _, row := range absent(there) {
		t.Errorf("no case holds %s", row)
	}
	if len(semantics()) != 20 {
		t.Errorf("%d facts are held", len(semantics()))
	}
	if len(there) < 350 {
		t.Errorf("only %d cases ship", len(there))
	}
	t.Run("control: a case that is gone is missed", func(t *testing.T) {
		less := maps.Clone(there)
		delete(less, "dangers: trust: machine.ca")
		delete(less, "apply: reboot is refused (S2)")
		if got := absent(less); len(got) != 2 {
			t.Errorf("missed are %v", got)
		}
	})
}

func TestACaseShipsForEveryMethod(t *testing.T) {
	there, table := names(t), methods(t)
	for _, m := range table {
		if !there["methods: "+m.Method] {
			t.Errorf("no case is about %s", m.Method)
		}
	}
}

// lawCodes are the codes of the shipped law's rules about calls, by their METADATA.
func lawCodes(t *testing.T) []string {
	t.Helper()
	law := os.DirFS("../policy/bundle/bronzeward/rules")
	var out []string
	err := fs.WalkDir(law, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.rego") {
			return err
		}
		text, err := fs.ReadFile(law, path)
		for _, m := range regexp.MustCompile(`(?m)^#   code: (BW-[A-Z]+-\d{3})$`).FindAllSubmatch(text, -1) {
			out = append(out, string(m[1]))
		}
		return err
	})
	if err != nil || len(out) < 80 {
		t.Fatalf("%d codes, %v", len(out), err)
	}
	slices.Sort(out)
	return out
}

// silent are the codes that no case can fire: 008 only hands on what others say, and a
// quorum that is missing altogether cannot be laid over data that has one. The bundle's own
// tests hold it.
var silent = []string{"BW-APPROVAL-003", "BW-CONFIG-008"}

// Whoever is refused or warned is told what to do next, with the machine's name and all else
// that belongs there, by every rule there is.
func TestEveryCodeFiresInACaseAndItsHintIsFilled(t *testing.T) {
	fsys, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	results, err := Run(t.Context(), law(t), fsys)
	if err != nil {
		t.Fatal(err)
	}
	fired := map[string]bool{}
	for _, r := range results {
		for _, reason := range r.Decision.Reasons {
			fired[reason.Code] = true
			if text := unfilled(reason); text != "" {
				t.Errorf("%s: %s: %s", r.Name, reason.Code, text)
			}
		}
	}
	for _, code := range lawCodes(t) {
		if !fired[code] && !slices.Contains(silent, code) {
			t.Errorf("no case fires %s", code)
		}
	}
}

// unfilled says what is missing in a reason's hint or message.
func unfilled(r policy.Reason) string {
	switch {
	case strings.TrimSpace(r.Hint) == "":
		return "no hint"
	case strings.ContainsAny(r.Hint, "{}"):
		return "the hint has a place nobody filled: " + r.Hint
	case strings.Contains(r.Hint, "%!") || strings.Contains(r.Message, "%!"):
		return "a value does not fit its place: " + r.Message + "; " + r.Hint
	}
	return ""
}

func TestAHintThatIsNotFilledIsFound(t *testing.T) {
	for _, hint := range []string{"", " ", "bronzeward machines show {machine}", "wait %!d(string=x)"} {
		if unfilled(policy.Reason{Hint: hint}) == "" {
			t.Errorf("%q passes", hint)
		}
	}
}
