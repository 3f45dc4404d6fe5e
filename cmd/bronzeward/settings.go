package main

import "bronzeward/cmd/bronzeward/cli"

// settings is the configuration file as other packages of commands see it. It is read when it is
// asked, after the flags are.
type settings struct{ *cli.Globals }

// AuditorURL is database.auditor_url; empty when there is no file, or none in it.
func (s settings) AuditorURL() (string, error) {
	if s.ConfigFile == "" {
		if _, err := configPath(""); err != nil {
			return "", nil // an auditor needs no gateway's configuration
		}
	}
	cfg, err := loadConfig(s.ConfigFile)
	if err != nil {
		return "", err
	}
	return cfg.Database.AuditorURL, nil
}
