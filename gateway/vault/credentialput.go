package vault

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
)

// PutCredential writes the credential of a cluster as a new version, for operators.
func PutCredential(ctx context.Context, c *Client, cluster string, certificate, key, ca []byte, parse ParseCredential) (version int64, err error) {
	const doing = "writing a Talos credential"
	if !clusterName.MatchString(cluster) {
		return 0, refused(doing, KindMalformed, nil, "%q is no name of a cluster: 1 to 63 of a-z, 0-9, dot, dash and underscore, beginning and ending with a letter or digit", cluster)
	}
	if _, err := parse(certificate, key, ca); err != nil {
		return 0, fmt.Errorf("%s: %w", doing, err)
	}
	secret := talosSecret{Certificate: string(certificate), Key: string(key), CA: string(ca)}
	var before talosSecret
	there, err := c.get(ctx, doing, PathTalos+"/"+cluster, &before)
	switch kind := kindOf(err); {
	case err == nil && before == secret:
		return int64(there), nil
	case err != nil && kind != KindMissing && kind != KindMalformed:
		return 0, err
	}
	next, err := c.put(ctx, doing, PathTalos+"/"+cluster, secret, anyVersion)
	return int64(next), err
}

// ParseCertificates reads PEM that holds certificates and nothing else, one at least.
func ParseCertificates(text []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("it holds a %s; only certificates belong there", block.Type)
		}
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("it holds no certificate")
	}
	return out, nil
}
