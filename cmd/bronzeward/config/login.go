package config

import (
	"fmt"
	"net"
	"strconv"

	"bronzeward/gateway/httpapi"
	"bronzeward/gateway/identity"
)

// LoginConfig is what people are told who log in.
type LoginConfig struct {
	// TalosEndpoints are where people point talosctl, HOST:PORT; what a login writes into their
	// talosconfig. There is no default: how a gateway is reached is not known to it.
	TalosEndpoints []string `yaml:"talos_endpoints"`
}

// LoginOffer is how people log in here. An issuer of programs alone is none of theirs.
func (c *Config) LoginOffer() httpapi.Login {
	out := httpapi.Login{TalosEndpoints: c.Login.TalosEndpoints}
	for _, i := range c.Identity.Issuers {
		if i.Kind == string(identity.KindAutomation) {
			continue
		}
		one := httpapi.LoginIssuer{Issuer: i.Issuer, ClientID: i.ClientID, Audience: i.Audience}
		if one.ClientID == "" && len(i.Audience) > 0 {
			one.ClientID = i.Audience[0]
		}
		out.Issuers = append(out.Issuers, one)
	}
	return out
}

// loginProblems are what is wrong with these keys.
func (c *Config) loginProblems(bad func(key, format string, args ...any)) {
	if d := c.Identity.CertificateLifetime; d != 0 && (d < identity.MinCertificateLifetime || d > identity.MaxCertificateLifetime) {
		bad("identity.certificate_lifetime", "%s is not between %s and %s", d, identity.MinCertificateLifetime, identity.MaxCertificateLifetime)
	}
	for i, endpoint := range c.Login.TalosEndpoints {
		key := fmt.Sprintf("login.talos_endpoints[%d]", i)
		host, port, err := net.SplitHostPort(endpoint)
		if err != nil || host == "" {
			bad(key, "%q is not HOST:PORT", endpoint)
			continue
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			bad(key, "%q is not a port between 1 and 65535", port)
		}
	}
}
