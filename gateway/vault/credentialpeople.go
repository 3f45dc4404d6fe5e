package vault

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
)

// ErrPeoplesCA refuses a Talos credential whose CA has the key of an authority for people: its
// certificates would speak for nobody, and everybody would be shut out.
var ErrPeoplesCA = errors.New("the Talos CA has the key of an authority that signs people's certificates: give the CA of the cluster's machines (machine.ca of a control plane's configuration)")

// CheckPeoplesCA gives ErrPeoplesCA when one of the Talos CAs has the key of one of people's authorities.
func CheckPeoplesCA(talos, people []*x509.Certificate) error {
	for _, ca := range talos {
		for _, one := range people {
			if bytes.Equal(ca.RawSubjectPublicKeyInfo, one.RawSubjectPublicKeyInfo) {
				return ErrPeoplesCA
			}
		}
	}
	return nil
}

// PeoplesAuthorities reads the authorities at ca in KV, for operators; none when setup has not
// made one. The error is an *Error.
func PeoplesAuthorities(ctx context.Context, c *Client) ([]*x509.Certificate, error) {
	a := NewAuthority(c, nil)
	if err := a.Refresh(ctx); err != nil && kindOf(err) != KindMissing {
		return nil, err
	}
	return a.People(), nil
}

// IsClusterName is whether a cluster may be called so: its name becomes a path.
func IsClusterName(name string) bool { return clusterName.MatchString(name) }

// parse makes a credential of what KV holds, and refuses what must not be used.
func (c *Credentials) parse(secret talosSecret) (Credential, error) {
	one, err := c.cfg.Parse([]byte(secret.Certificate), []byte(secret.Key), []byte(secret.CA))
	if err == nil && c.cfg.People != nil {
		err = CheckPeoplesCA(one.CAs, c.cfg.People())
	}
	return one, err
}
