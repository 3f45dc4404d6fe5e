package main

import (
	"runtime/debug"
	"strings"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/facts"
	"bronzeward/policy"
)

type versionCmd struct{}

func (v *versionCmd) Run(g *cli.Globals) error {
	built := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		built = info.GoVersion
	}
	return g.Print(map[string]string{
		"bronzeward": buildVersion(), "talos": facts.SupportedMinor, "opa": policy.OPAVersion(), "go": built,
	}, []string{"PART", "VERSION"}, func(row func(...string)) {
		row("bronzeward", buildVersion())
		row("talos served", facts.SupportedMinor)
		row("opa", policy.OPAVersion())
		row("go", built)
	})
}

// buildVersion is what `version` prints about this binary.
func buildVersion() string { return strings.TrimSpace(version) }

// version is set by the build.
var version = "development"
