package config

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"bronzeward/gateway/vault"
)

// ReadCertificates reads a PEM file named in the configuration that holds certificates and nothing
// else, one at least.
func (c *Config) ReadCertificates(path string) ([]*x509.Certificate, error) {
	raw, err := os.ReadFile(c.Path(path))
	if err != nil {
		return nil, err
	}
	out, err := vault.ParseCertificates(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// ReadAllCertificates reads several such files, and names every problem.
func (c *Config) ReadAllCertificates(paths []string) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	var problems []error
	for _, p := range paths {
		certs, err := c.ReadCertificates(p)
		problems = append(problems, err)
		out = append(out, certs...)
	}
	return out, errors.Join(problems...)
}
