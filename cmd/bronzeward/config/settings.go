package config

import "bronzeward/cmd/bronzeward/cli"

// Settings is the configuration file as other packages of commands see it. It is read when it is
// asked, after the flags are.
type Settings struct{ *cli.Globals }

// AuditorURL is database.auditor_url; empty when there is no file, or none in it.
func (s Settings) AuditorURL() (string, error) {
	if s.ConfigFile == "" {
		if _, err := findFile(""); err != nil {
			return "", nil // an auditor needs no gateway's configuration
		}
	}
	cfg, err := Load(s.ConfigFile)
	if err != nil {
		return "", err
	}
	return cfg.Database.AuditorURL, nil
}
