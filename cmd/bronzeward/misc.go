package main

import (
	"fmt"
	"runtime/debug"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/facts"
	"bronzeward/policy"
)

type configCmd struct {
	Check configCheckCmd `cmd:"" help:"Read the configuration file and name every problem."`
}

type configCheckCmd struct{}

func (c *configCheckCmd) Run(g *cli.Globals) error {
	if _, err := loadConfig(g.ConfigFile); err != nil {
		return err
	}
	fmt.Fprintln(g.Out, "the configuration is fine")
	return nil
}

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
