package config

import "bronzeward/policy"

// DeniedPeople are the people whom the deny list names by issuer and subject. What it names by token
// or key is nobody's name.
func (c *Config) DeniedPeople() []policy.Person {
	var out []policy.Person
	for _, d := range c.Identity.Deny {
		if d.Issuer != "" && d.Subject != "" {
			out = append(out, policy.Person{Issuer: d.Issuer, Subject: d.Subject})
		}
	}
	return out
}
