package config

import (
	"fmt"

	"bronzeward/cmd/bronzeward/cli"
)

// Commands are the commands about the configuration file.
type Commands struct {
	Check configCheckCmd `cmd:"" help:"Read the configuration file and name every problem."`
}

type configCheckCmd struct{}

func (c *configCheckCmd) Run(g *cli.Globals) error {
	if _, err := Load(g.ConfigFile); err != nil {
		return err
	}
	fmt.Fprintln(g.Out, "the configuration is fine")
	return nil
}
