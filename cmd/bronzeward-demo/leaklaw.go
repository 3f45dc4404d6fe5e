package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// permissive makes a law live that lets every configuration through with one approval, and
// writes the whole of what it sees into its warnings: that is what the author of a policy can
// make it say at worst.
func (l *leak) permissive(ctx context.Context) error {
	folder := filepath.Join(l.w.PolicyDir(), "bronzeward")
	rules := ""
	for _, name := range []string{"config.rego", "effects.rego", "keys.rego", "meanings.rego"} {
		text, err := os.ReadFile(filepath.Join(folder, "rules", "config", name))
		if err != nil {
			return err
		}
		rules += string(text)
	}
	data, err := os.ReadFile(filepath.Join(folder, "data.yaml"))
	if err != nil {
		return err
	}
	ladder := "ladder:\n  BW-MODE-009: warn\n  BW-SAY-001: warn\n"
	for _, code := range lawCode.FindAllStringSubmatch(rules, -1) {
		if code[1] > "BW-CONFIG-004" { // the first ones are about what cannot be read; no law may let that through
			ladder += "  " + code[1] + ": warn\n"
		}
	}
	if strings.Count(ladder, "\n") < 20 {
		return errors.New("the shipped law has another shape than this story edits: no codes of configurations")
	}
	data = []byte(oldLadder.ReplaceAllLiteralString(string(data), ladder))
	for path, text := range map[string]string{"data.yaml": string(data), "rules/say/say.rego": sayingLaw} {
		path = filepath.Join(folder, filepath.FromSlash(path))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			return err
		}
	}
	// Tests of the shipped law do not expect it.
	for _, test := range []string{"admission/decision_test.rego", "rules/config/config_test.rego", "rules/config/effects_test.rego", "rules/config/keys_test.rego"} {
		if err := os.Remove(filepath.Join(folder, filepath.FromSlash(test))); err != nil {
			return err
		}
	}
	_, err = l.w.Bronzeward(ctx, "sven", "policy", "activate", l.w.PolicyDir())
	return err
}

var (
	lawCode   = regexp.MustCompile(`code: (BW-CONFIG-[0-9]+)`)
	oldLadder = regexp.MustCompile(`(?m)^ladder:\n(  .*\n)*`)
)

const sayingLaw = `package bronzeward.rules.say

# METADATA
# title: say
# description: The whole input, in pieces as long as a message may be.
# custom:
#   code: BW-SAY-001
#   hint: ""
deny contains {"code": "BW-SAY-001", "message": substring(text, part * 1500, 1500), "hint": ""} if {
	input.call.class == "apply"
	text := json.marshal(input)
	some part in numbers.range(0, min({99, floor(count(text) / 1500)}))
}
`
