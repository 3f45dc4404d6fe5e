package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"bronzeward/gateway/vault"
)

// readCertificates reads a PEM file named in the configuration that holds certificates and nothing
// else, one at least.
func (c *Config) readCertificates(path string) ([]*x509.Certificate, error) {
	raw, err := os.ReadFile(c.path(path))
	if err != nil {
		return nil, err
	}
	out, err := vault.ParseCertificates(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// readAllCertificates reads several such files, and names every problem.
func (c *Config) readAllCertificates(paths []string) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	var problems []error
	for _, p := range paths {
		certs, err := c.readCertificates(p)
		problems = append(problems, err)
		out = append(out, certs...)
	}
	return out, errors.Join(problems...)
}
