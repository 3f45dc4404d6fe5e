package cli

// Globals are flags every command takes.
type Globals struct {
	ConfigFile string `name:"config" env:"BRONZEWARD_CONFIG" placeholder:"FILE" help:"The gateway's configuration file; default ~/.config/bronzeward/config.yaml, then /etc/bronzeward/config.yaml."`
	Output     string `short:"o" enum:"table,json,yaml,csv,wide" default:"table" help:"Output format: table, json or yaml; some lists also csv and wide."`

	Console `kong:"-"`
}
