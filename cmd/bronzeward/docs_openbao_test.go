package main

import (
	"strings"
	"testing"

	policies "bronzeward/deploy/openbao"
	"bronzeward/gateway/vault"
)

// The page about OpenBao names every reason class, every state and everything the gateway's
// policy is for.
func TestThePageAboutOpenBaoIsWhole(t *testing.T) {
	text := page(t, "openbao.md")
	classes := found(`Kind = "([a-z_]+)"`, sources(t, ".go", "gateway/vault"))
	same(t, "reason classes", classes, cells(between(t, text, "## Reason classes", "## Backups")))
	same(t, "states", []string{
		string(vault.StateGood), string(vault.StateMissing), string(vault.StateDiffers), string(vault.StateWrong), string(vault.StateUnknown),
	}, cells(between(t, text, "## Setting up", "## Logging in")))
	held := between(t, text, "## What it holds", "## Setting up")
	for _, path := range found(`path "(?:bronzeward/data|transit/keys)/([^/"]+)`, policies.Gateway) {
		if !strings.Contains(held, "`"+path+"`") && !strings.Contains(held, "`"+path+"/") {
			t.Errorf("it does not say what %s is", path)
		}
	}
}
