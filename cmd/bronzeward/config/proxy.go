package config

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// ProxyConfig is about load balancers in front of both listeners.
type ProxyConfig struct {
	// Sources are the addresses and prefixes of load balancers that send a PROXY protocol
	// header of version 2. From them it is required, from anybody else it is never read.
	Sources []string `yaml:"sources"`
}

// ProxySources are the configured load balancers.
func (c *Config) ProxySources() []netip.Prefix {
	var out []netip.Prefix
	for _, text := range c.ProxyProtocol.Sources {
		if p, err := sourcePrefix(text); err == nil { // problems says so otherwise
			out = append(out, p)
		}
	}
	return out
}

// proxyProblems are what is wrong with these keys.
func (c *Config) proxyProblems(bad func(key, format string, args ...any)) {
	for i, text := range c.ProxyProtocol.Sources {
		if _, err := sourcePrefix(text); err != nil {
			bad(fmt.Sprintf("proxy_protocol.sources[%d]", i), "%v", err)
		}
	}
}

// sourcePrefix reads an address or a prefix in the form that addresses are compared in.
func sourcePrefix(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if a, notAddress := netip.ParseAddr(text); notAddress == nil {
		p, err = netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	switch {
	case err != nil:
		return p, fmt.Errorf("%q is neither an address nor a prefix such as 10.0.0.0/28", text)
	case strings.Contains(text, "%"):
		return p, fmt.Errorf("%q has a zone; leave it out", text)
	case p.Addr().Is4In6():
		return p, fmt.Errorf("%q is IPv4 written as IPv6; write the IPv4 prefix", text)
	case p.Bits() == 0:
		return p, errors.New("is everybody: whoever can connect could say to be any address. Name the load balancers")
	case p != p.Masked():
		return p, fmt.Errorf("%q has bits set beyond its prefix; write %s, or %s for that one address", text, p.Masked(), p.Addr())
	}
	return p, nil
}
