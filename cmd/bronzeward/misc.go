package main

import (
	"fmt"
	"runtime/debug"

	"bronzeward/gateway/facts"
	"bronzeward/policy"
)

type configCmd struct {
	Check configCheckCmd `cmd:"" help:"Read the configuration file and name every problem."`
}

type configCheckCmd struct{}

func (c *configCheckCmd) Run(g *globals) error {
	if _, err := loadConfig(g.ConfigFile); err != nil {
		return err
	}
	fmt.Fprintln(g.out, "the configuration is fine")
	return nil
}

type versionCmd struct{}

func (v *versionCmd) Run(g *globals) error {
	built := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		built = info.GoVersion
	}
	return g.print(map[string]string{
		"bronzeward": buildVersion(), "talos": facts.SupportedMinor, "opa": policy.OPAVersion(), "go": built,
	}, []string{"PART", "VERSION"}, func(row func(...string)) {
		row("bronzeward", buildVersion())
		row("talos served", facts.SupportedMinor)
		row("opa", policy.OPAVersion())
		row("go", built)
	})
}
