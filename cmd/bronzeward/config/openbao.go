package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/vault"
)

// OpenBaoConfig says where OpenBao is, which holds the Talos credentials and the keys.
type OpenBaoConfig struct {
	// Address is https://HOST:PORT; http for a loopback address only.
	Address string `yaml:"address"`
	// CA is a PEM file that verifies OpenBao; default the system's.
	CA string `yaml:"ca"`
	// Namespace is OpenBao's; default the root's.
	Namespace string `yaml:"namespace"`
	// KVMount is a KV v2 mount, default bronzeward; TransitMount a Transit mount, default transit.
	KVMount      string `yaml:"kv_mount"`
	TransitMount string `yaml:"transit_mount"`
	// Timeout of one question, its retries included; default 5s.
	Timeout time.Duration `yaml:"timeout"`
	// Refresh is how often credentials, digest keys and the authority are read anew; default 30s, at most
	// vault.MostRefresh: a new digest key is used two minutes after it was made.
	Refresh time.Duration `yaml:"refresh"`
	// CredentialMaxAge is how long a Talos credential is used after OpenBao last confirmed it; default 1h.
	CredentialMaxAge time.Duration     `yaml:"credential_max_age"`
	Auth             OpenBaoAuthConfig `yaml:"auth"`
}

// OpenBaoAuthConfig is how the gateway logs in.
type OpenBaoAuthConfig struct {
	// Method is approle (default), kubernetes or token.
	Method string `yaml:"method"`
	// Mount of the method; default its name.
	Mount string `yaml:"mount"`
	// RoleIDFile and SecretIDFile are for approle; setup writes them.
	RoleIDFile   string `yaml:"role_id_file"`
	SecretIDFile string `yaml:"secret_id_file"`
	// Role is kubernetes's; JWTFile the service account's token, default where Kubernetes puts it.
	Role    string `yaml:"role"`
	JWTFile string `yaml:"jwt_file"`
	// TokenFile is for token: one that somebody else keeps fresh.
	TokenFile string `yaml:"token_file"`
}

const (
	DefaultCredentialMaxAge = time.Hour
	methodAppRole           = "approle"
	methodKubernetes        = "kubernetes"
	methodToken             = "token"
)

// Configured is whether OpenBao holds credentials and keys; without it they are files, for
// development.
func (c OpenBaoConfig) Configured() bool { return c != (OpenBaoConfig{}) }

// openBaoProblems are what is wrong with these keys, and with files beside them.
func (c *Config) openBaoProblems(bad func(key, format string, args ...any), file func(key, path string, required bool)) {
	b := c.OpenBao
	if !b.Configured() {
		// Files are for development; a production whose openbao was mistyped is to read that first.
		if c.Talos == (TalosConfig{}) && c.Digest.KeysFile == "" {
			bad("openbao.address", "is required: configure openbao; or, for development, files (talos.certificate, talos.key, talos.ca, digest.keys_file)")
			return
		}
		file("talos.certificate", c.Talos.Certificate, true)
		file("talos.key", c.Talos.Key, true)
		file("talos.ca", c.Talos.CA, true)
		return
	}
	for _, f := range []struct{ key, value string }{
		{"talos.certificate", c.Talos.Certificate},
		{"talos.key", c.Talos.Key},
		{"talos.ca", c.Talos.CA},
		{"digest.keys_file", c.Digest.KeysFile},
		{"seal.keys_file", c.Seal.KeysFile},
	} {
		if f.value != "" {
			bad(f.key, "is not used with openbao, which holds it; leave it out")
		}
	}
	if err := vault.CheckAddress(b.Address); err != nil {
		bad("openbao.address", "is required: https://HOST:PORT, or http on a loopback address")
	}
	file("openbao.ca", b.CA, false)
	for _, d := range []struct {
		key         string
		value, most time.Duration
	}{
		{"openbao.timeout", b.Timeout, time.Minute},
		{"openbao.refresh", b.Refresh, vault.MostRefresh},
		{"openbao.credential_max_age", b.CredentialMaxAge, 30 * 24 * time.Hour},
	} {
		if d.value < 0 || d.value > d.most {
			bad(d.key, "%s is not between 0s and %s; 0s takes the default", d.value, d.most)
		}
	}
	switch b.Auth.Method {
	case "", methodAppRole:
		for key, value := range map[string]string{"openbao.auth.role_id_file": b.Auth.RoleIDFile, "openbao.auth.secret_id_file": b.Auth.SecretIDFile} {
			if value == "" {
				bad(key, "is required with method approle; bronzeward openbao setup writes it")
			}
		}
	case methodKubernetes:
		if b.Auth.Role == "" {
			bad("openbao.auth.role", "is required with method kubernetes")
		}
	case methodToken:
		file("openbao.auth.token_file", b.Auth.TokenFile, true)
	default:
		// What it is instead is not repeated: secrets are set beside it.
		bad("openbao.auth.method", "is not approle, kubernetes or token")
	}
}

// VaultConfig is how OpenBao is asked.
func (c *Config) VaultConfig(log *slog.Logger) (vault.Config, error) {
	b := c.OpenBao
	if !b.Configured() {
		return vault.Config{}, cli.Usage(errors.New("openbao is not configured: openbao.address, and how the gateway logs in (openbao.auth)"))
	}
	out := vault.Config{
		Address: b.Address, Namespace: b.Namespace, KVMount: b.KVMount, TransitMount: b.TransitMount, Timeout: b.Timeout, Logger: log,
	}
	switch b.Auth.Method {
	case methodKubernetes:
		out.Auth = vault.Kubernetes{Mount: b.Auth.Mount, Role: b.Auth.Role, TokenFile: c.Path(b.Auth.JWTFile)}
	case methodToken:
		out.Auth = vault.TokenFile{Path: c.Path(b.Auth.TokenFile)}
	default:
		out.Auth = *c.AppRole()
	}
	if b.CA == "" {
		return out, nil
	}
	var err error
	if out.CA, err = c.ReadCertificates(b.CA); err != nil {
		return out, cli.Usage(fmt.Errorf("reading openbao.ca: %w", err))
	}
	return out, nil
}

// OpenBaoRefresh is how soon running gateways know what changed in OpenBao.
func (c *Config) OpenBaoRefresh() time.Duration {
	return cmp.Or(c.OpenBao.Refresh, vault.DefaultRefresh)
}

// AppRole is the login by AppRole; null with another method.
func (c *Config) AppRole() *vault.AppRole {
	a := c.OpenBao.Auth
	if a.Method != "" && a.Method != methodAppRole {
		return nil
	}
	return &vault.AppRole{Mount: a.Mount, RoleIDFile: c.Path(a.RoleIDFile), SecretIDFile: c.Path(a.SecretIDFile)}
}

// OpenBaoLoginFile is the first file that the login needs.
func (c *Config) OpenBaoLoginFile() string {
	switch a := c.OpenBao.Auth; a.Method {
	case methodKubernetes:
		return cmp.Or(c.Path(a.JWTFile), vault.ServiceAccountToken)
	case methodToken:
		return c.Path(a.TokenFile)
	default:
		return c.Path(a.SecretIDFile)
	}
}

// OpenBaoLoginHint is what to do about a login that OpenBao does not take; empty when it is not that.
func (c *Config) OpenBaoLoginHint(err error) string {
	var known *vault.Error
	if !errors.As(err, &known) || known.Kind != vault.KindForbidden {
		return ""
	}
	if a := c.AppRole(); a != nil {
		return fmt.Sprintf(": remove %s (and %s, if it is another role's) and run bronzeward openbao setup", a.SecretIDFile, a.RoleIDFile)
	}
	return ": see openbao.auth, and the role or token in OpenBao"
}
