package policy

import (
	"fmt"
	"slices"
	"strings"
)

// RuleEntry is what the METADATA of a rule with a code says of it.
type RuleEntry struct {
	Code string `json:"code"`
	// Area is the last part of the rule's package.
	Area        string `json:"area"`
	Title       string `json:"title"`
	Description string `json:"description"`
	// Hint is what the refusal says to do next; braces are filled in then.
	Hint string `json:"hint"`
	// Step is the ladder's: shadow, warn or deny.
	Step string `json:"step"`
	File string `json:"file"`
	Line int    `json:"line"`
}

// Catalogue is every rule of a law that has a code, in the order of areas and codes.
func Catalogue(b *Bundle) []RuleEntry {
	root, _ := b.parsed.data["bronzeward"].(map[string]any)
	ladder, _ := root["ladder"].(map[string]any)
	var out []RuleEntry
	for _, name := range sortedNames(b.parsed.law) {
		m := b.parsed.law[name]
		pkg := strings.Split(m.Package.Path.String(), ".")
		for _, a := range m.Annotations {
			code, ok := a.Custom["code"].(string)
			r := ruleOf(m, a)
			if !ok || r == nil {
				continue
			}
			e := RuleEntry{
				Code: code, Area: pkg[len(pkg)-1], Title: oneLine(a.Title), Description: oneLine(a.Description), Step: "deny",
				File: name, Line: r.Location.Row,
			}
			e.Hint, _ = a.Custom["hint"].(string)
			if step := fmt.Sprint(ladder[code]); step == "warn" || step == "shadow" {
				e.Step = step
			}
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b RuleEntry) int {
		if n := strings.Compare(a.Area, b.Area); n != 0 {
			return n
		}
		return strings.Compare(a.Code, b.Code)
	})
	return out
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
