package policy

import "strings"

// advice says what to do about a fault, by a piece of its message. The first that fits counts.
var advice = []struct{ says, do string }{
	{"undefined ref: input.", "the fact is misspelt: docs/facts.md lists all facts, schema/facts/schema.json is their schema"},
	{"undefined ref", "the name is misspelt, or the data it names are missing"},
	{"rego_parse_error", "the file is no Rego v1: the line named is where reading stopped"},
	{"unexpected", "the file is no Rego v1: the line named is where reading stopped"},
	{"is unsafe", "give the variable a value in the rule's body, or correct the name"},
	{"unused", "take it out, or use it"},
	{"undefined function", "the function does not exist, or no law may call it: nothing reaches network, clock, chance or process"},
	{"multiply-defined", "two packages or rules claim one name: give one of them another"},
	{"conflict", "data lie where a rule stands, or two files give one value: keep one of them"},
	{"has no METADATA", "write a METADATA comment over the rule: title, description, custom.code, custom.hint"},
	{"lacks its title or description", "add title and description to the METADATA"},
	{"is none like BW-AREA-001", "give it a code of your own, as BW-SITE-001; BW-POLICY is the engine's"},
	{"lacks custom.hint", "add custom.hint, which may be \"\""},
	{"is taken by", "give the rule a code that no other has: bronzeward policy docs DIR lists them"},
	{"not formatted", "bronzeward policy fmt DIR"},
	{"windows:", "see the comment over windows in bronzeward/data.yaml"},
	{"freezes:", "see the comment over freezes in bronzeward/data.yaml"},
	{"data must be", "write a data file as one YAML document with a map at the top"},
	{"beyond its limits", "take what is no law out of the directory"},
	{"the entry point", "keep each of the two entry points in one file: bronzeward/admission and bronzeward/api have them"},
	{"to be an entry point", "take entrypoint out of the rule's METADATA"},
}

// lastAdvice is for what no entry fits.
const lastAdvice = "correct the place named, then run bronzeward policy check again"

// hinted gives every fault that has no hint one.
func hinted(faults []Fault) []Fault {
	for i, f := range faults {
		for _, a := range advice {
			if faults[i].Hint == "" && strings.Contains(f.Message, a.says) {
				faults[i].Hint = a.do
			}
		}
		if faults[i].Hint == "" {
			faults[i].Hint = lastAdvice
		}
	}
	return faults
}
