// Package config is the configuration file of a gateway: its keys, what is wrong with them, and the
// rooms' settings made of them.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"bronzeward/audit/tree"
	"bronzeward/cmd/bronzeward/cli"
)

// Config is the configuration file, key by key. Relative paths are relative to the
// file's folder. Unknown keys are refused, every problem at once.
type Config struct {
	// Instance names this process in entries and attempts; default the host's name.
	Instance string `yaml:"instance"`
	// Listen is where talosctl is pointed; default 0.0.0.0:50000.
	Listen string `yaml:"listen"`
	// HTTPListen serves the HTTP API, /healthz, /readyz and /metrics, over TLS with the same
	// certificate; default 0.0.0.0:9443.
	HTTPListen    string         `yaml:"http_listen"`
	TLS           TLSConfig      `yaml:"tls"`
	ProxyProtocol ProxyConfig    `yaml:"proxy_protocol"`
	Database      DatabaseConfig `yaml:"database"`
	Identity      IdentityConfig `yaml:"identity"`
	Login         LoginConfig    `yaml:"login"`
	OpenBao       OpenBaoConfig  `yaml:"openbao"`
	Talos         TalosConfig    `yaml:"talos"`
	Digest        DigestConfig   `yaml:"digest"`
	Apply         ApplyConfig    `yaml:"apply"`
	Changes       ChangesConfig  `yaml:"changes"`
	Drift         DriftConfig    `yaml:"drift"`
	Seal          SealConfig     `yaml:"seal"`
	Notify        NotifyConfig   `yaml:"notify"`
	Limits        LimitsConfig   `yaml:"limits"`
	Policy        PolicyConfig   `yaml:"policy"`
	Book          BookConfig     `yaml:"book"`
	Log           LogConfig      `yaml:"log"`

	folder string // where the file lies
}

// TLSConfig is the listener's own certificate.
type TLSConfig struct {
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
	// MinVersion is "1.3" (default) or "1.2".
	MinVersion string `yaml:"min_version"`
}

// DatabaseConfig says how PostgreSQL is reached. A password belongs into PGPASSFILE or
// the environment, not into this file.
type DatabaseConfig struct {
	// URL is for `serve`: a login in the role bronzeward_gateway.
	URL string `yaml:"url"`
	// OwnerURL is for `migrate`: a login that may create schemas and roles.
	OwnerURL string `yaml:"owner_url"`
	// AuditorURL is for `decisions`: a login in the role bronzeward_auditor.
	AuditorURL string `yaml:"auditor_url"`
	// MaxConnections of the gateway; default 16.
	MaxConnections int `yaml:"max_connections"`
}

// IdentityConfig says whom to believe.
type IdentityConfig struct {
	// CertificateAuthorities are PEM files of the CAs that sign people's certificates; at most two.
	CertificateAuthorities []string `yaml:"certificate_authorities"`
	// ForbiddenAuthorities are PEM files of CAs whose certificates get their own refusal: Talos's.
	ForbiddenAuthorities []string       `yaml:"forbidden_authorities"`
	Issuers              []IssuerConfig `yaml:"issuers"`
	// ClockSkew allowed on token times; default 60s, at most 5m.
	ClockSkew time.Duration `yaml:"clock_skew"`
	// MaxTokenLifetime a token may have from iat to exp; default 15m.
	MaxTokenLifetime time.Duration `yaml:"max_token_lifetime"`
	// CertificateLifetime is the most a certificate issued to a person may last; default 8h, at
	// most 24h. The law may grant less.
	CertificateLifetime time.Duration `yaml:"certificate_lifetime"`
	// Deny refuses people before any row is read, and survives a restore.
	Deny []DenyConfig `yaml:"deny"`
}

// IssuerConfig is one OpenID Connect issuer.
type IssuerConfig struct {
	Issuer   string   `yaml:"issuer"`
	Audience []string `yaml:"audience"`
	// ClientID is what people's logins name themselves to this issuer; default the first audience.
	ClientID string `yaml:"client_id"`
	// JWKSURL skips discovery when set.
	JWKSURL string `yaml:"jwks_url"`
	// CA is a PEM file that verifies the issuer's own certificate; default the system's.
	CA string `yaml:"ca"`
	// GroupsClaim default "groups", NameClaim default "preferred_username".
	GroupsClaim string `yaml:"groups_claim"`
	NameClaim   string `yaml:"name_claim"`
	// Kind is "human" (default) or "automation" for everybody of this issuer.
	Kind string `yaml:"kind"`
}

// DenyConfig names one person, token or key.
type DenyConfig struct {
	Issuer  string `yaml:"issuer"`
	Subject string `yaml:"subject"`
	TokenID string `yaml:"token_id"`
	SPKI    string `yaml:"spki"`
}

// TalosConfig is the credential shown to nodes, an os:impersonator certificate, in files: for
// development. OpenBao holds it else.
type TalosConfig struct {
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
	CA          string `yaml:"ca"`
}

// DigestConfig chooses the configuration digest.
type DigestConfig struct {
	// Scheme is "hmac-sha256" (default) or "sha256"; with the latter whoever can read
	// the database can test guesses of a configuration.
	Scheme string `yaml:"scheme"`
	// KeysFile holds the keys of hmac-sha256; its name must say that it is for development. OpenBao
	// holds them else.
	KeysFile string `yaml:"keys_file"`
}

// ApplyConfig are the clocks of an apply.
type ApplyConfig struct {
	// TransportDeadline until an answer must have come; default 30s.
	TransportDeadline time.Duration `yaml:"transport_deadline"`
	// VerifyDeadline of the read-back; default 10s.
	VerifyDeadline time.Duration `yaml:"verify_deadline"`
	// SettleFloor before a person may account an unresolved attempt; default and least 30s.
	SettleFloor time.Duration `yaml:"settle_floor"`
}

// LimitsConfig bound one caller or address; zero takes the default.
type LimitsConfig struct {
	CallsPerSecond           float64 `yaml:"calls_per_second"`
	StreamsPerCaller         int     `yaml:"streams_per_caller"`
	CallsPerSecondPerAddress float64 `yaml:"calls_per_second_per_address"`
	ConnectionsPerAddress    int     `yaml:"connections_per_address"`
}

// PolicyConfig is about the engine, not the law.
type PolicyConfig struct {
	// Budget of one decision; default 500ms. Over budget is denied.
	Budget time.Duration `yaml:"budget"`
	// WatchDirectory is activated whenever it changes; only with --development.
	WatchDirectory string `yaml:"watch_directory"`
	// Keys are the public keys of whoever signs laws, by the ids that people call them by. With any, a
	// law that none of them signed is refused.
	Keys map[string]PolicyKeyConfig `yaml:"keys"`
}

// PolicyKeyConfig is one pinned public key.
type PolicyKeyConfig struct {
	// Algorithm is what the key signs by, such as ES256.
	Algorithm string `yaml:"algorithm"`
	// File is the public key in PEM.
	File string `yaml:"file"`
}

// LogConfig is the process's own log, on standard error.
type LogConfig struct {
	// Level is debug, info (default), warn or error; Format is text (default) or json.
	Level  string `yaml:"level"`
	Format string `yaml:"format"`
}

// findFile is the file a command reads: the flag, else the first that exists of the
// user's and the system's.
func findFile(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	var tried []string
	if dir, err := os.UserConfigDir(); err == nil {
		tried = append(tried, filepath.Join(dir, "bronzeward", "config.yaml"))
	}
	tried = append(tried, "/etc/bronzeward/config.yaml")
	for _, p := range tried {
		if _, err := os.Stat(p); err == nil {
			return p, nil
		}
	}
	return "", cli.Usage(fmt.Errorf("no configuration file: give --config or BRONZEWARD_CONFIG, or write one of %s", strings.Join(tried, ", ")))
}

// Load reads and checks a configuration file; every problem is named at once,
// with its line where there is one.
func Load(flag string) (*Config, error) {
	path, err := findFile(flag)
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("reading the configuration: %w", err))
	}
	cfg := &Config{folder: filepath.Dir(path)}
	problems, readable := readYAML(raw, cfg)
	if readable {
		cfg.withDefaults()
		problems = append(problems, cfg.problems()...)
	}
	switch len(problems) {
	case 0:
		return cfg, nil
	case 1:
		return nil, cli.Usage(fmt.Errorf("%s: %w", path, problems[0]))
	}
	return nil, cli.Usage(fmt.Errorf("%s: %s:\n%w", path, cli.Plural(len(problems), "problem"), errors.Join(problems...)))
}

// readYAML fills the configuration. The file is readable when what is wrong with it is
// in single keys, so that it makes sense to look at the others.
func readYAML(raw []byte, cfg *Config) (problems []error, readable bool) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return []error{errors.New("the file is empty")}, false
	}
	err := yaml.Load(raw, cfg, yaml.WithKnownFields(true), yaml.WithUniqueKeys(true))
	var many *yaml.LoadErrors
	switch {
	case err == nil:
		return nil, true
	case !errors.As(err, &many):
		return []error{errors.New(cli.YAMLProblem(err.Error()))}, false
	}
	for _, one := range many.Errors {
		if one.Line == 0 { // about the file as a whole
			return []error{errors.New(cli.YAMLProblem(one.Err.Error()))}, false
		}
		problems = append(problems, fmt.Errorf("line %d: %s", one.Line, cli.YAMLProblem(one.Err.Error())))
	}
	return problems, true
}

func (c *Config) withDefaults() {
	if c.Instance == "" {
		c.Instance, _ = os.Hostname()
	}
	setDefault(&c.Listen, "0.0.0.0:50000")
	setDefault(&c.HTTPListen, "0.0.0.0:9443")
	setDefault(&c.TLS.MinVersion, "1.3")
	setDefault(&c.Digest.Scheme, "hmac-sha256")
	setDefault(&c.Log.Level, "info")
	setDefault(&c.Log.Format, "text")
	if c.Database.MaxConnections == 0 {
		c.Database.MaxConnections = 16
	}
	if c.Book.CheckpointEvery == 0 {
		c.Book.CheckpointEvery = tree.DefaultCheckpointEvery
	}
	if c.Apply.SettleFloor == 0 {
		c.Apply.SettleFloor = 30 * time.Second
	}
}

func setDefault(s *string, value string) {
	if *s == "" {
		*s = value
	}
}

// Path resolves a file named in the configuration.
func (c *Config) Path(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(c.folder, p)
}
