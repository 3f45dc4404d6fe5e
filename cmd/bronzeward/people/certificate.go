package people

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"bronzeward/cmd/bronzeward/cli"
)

const (
	// mostChain is the longest certificate chain taken, in bytes and in certificates.
	mostChain             = 64 << 10
	mostChainCertificates = 8
	// mostSkew is how far two clocks may be apart without a word.
	mostSkew = time.Minute
)

// newKey makes a person's key and a request for a certificate over it. The names in the
// certificate come from the token, so the request has none. The key does not leave this
// process but into the person's own files.
func newKey() (key *ecdsa.PrivateKey, keyPEM, csrPEM []byte, err error) {
	key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("making your key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("writing your key: %w", err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "bronzeward login"}}, key)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("asking for a certificate: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}), nil
}

// certificatePerson is whom a certificate names.
type certificatePerson struct{ issuer, subject string }

// personOf reads the name bronzeward://identity?issuer=…&kind=…&subject=… of which a
// person's certificate has exactly one.
func personOf(certificate *x509.Certificate) (certificatePerson, error) {
	var found []url.Values
	for _, uri := range certificate.URIs {
		if uri.Scheme == "bronzeward" && uri.Host == "identity" {
			values, err := url.ParseQuery(uri.RawQuery)
			if err != nil {
				return certificatePerson{}, errors.New("its name is not understood")
			}
			found = append(found, values)
		}
	}
	if len(found) != 1 || len(found[0]["issuer"]) != 1 || len(found[0]["subject"]) != 1 {
		return certificatePerson{}, errors.New("it does not name one person")
	}
	return certificatePerson{found[0].Get("issuer"), found[0].Get("subject")}, nil
}

// checkChain reads what a gateway gave for a key, and takes it only if it is that: a
// certificate of this key, for this person, for a TLS client, good at the gateway's own time
// now, and signed by what follows it.
func checkChain(chainPEM []byte, key crypto.PublicKey, who certificatePerson, now time.Time) ([]*x509.Certificate, error) {
	chain, err := readChain(chainPEM)
	if err != nil {
		return nil, err
	}
	leaf := chain[0]
	own, ok := key.(interface{ Equal(crypto.PublicKey) bool })
	named, err := personOf(leaf)
	switch {
	case !ok || !own.Equal(leaf.PublicKey):
		return nil, errors.New("it is of another key than yours")
	case err != nil:
		return nil, err
	case named != who:
		return nil, fmt.Errorf("it names somebody else: %s of %s", cli.ASCII(cli.Clip(named.subject, mostQuoted)), cli.ASCII(cli.Clip(named.issuer, mostQuoted)))
	case leaf.IsCA || !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth):
		return nil, errors.New("it is not for a TLS client")
	case now.Add(mostSkew).Before(leaf.NotBefore):
		return nil, fmt.Errorf("it is not good before %s, and the gateway's clock says %s", cli.Stamp(&leaf.NotBefore), cli.Stamp(&now))
	case !now.Before(leaf.NotAfter):
		return nil, fmt.Errorf("it was good until %s, and the gateway's clock says %s", cli.Stamp(&leaf.NotAfter), cli.Stamp(&now))
	}
	for i, parent := range chain[1:] {
		if err := chain[i].CheckSignatureFrom(parent); err != nil {
			return nil, fmt.Errorf("number %d of its chain did not sign number %d", i+2, i+1)
		}
	}
	return chain, nil
}

// readChain reads certificates and nothing else, leaf first.
func readChain(raw []byte) ([]*x509.Certificate, error) {
	if len(raw) > mostChain {
		return nil, fmt.Errorf("it has more than %d bytes", mostChain)
	}
	var chain []*x509.Certificate
	for rest := bytes.TrimSpace(raw); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		var block *pem.Block
		if !bytes.HasPrefix(rest, []byte("-----BEGIN CERTIFICATE-----")) {
			return nil, errors.New("it holds something else than PEM certificates")
		}
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
			return nil, errors.New("it holds something else than PEM certificates")
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("number %d of its chain cannot be read", len(chain)+1)
		}
		if chain = append(chain, certificate); len(chain) > mostChainCertificates {
			return nil, fmt.Errorf("its chain has more than %d certificates", mostChainCertificates)
		}
	}
	if len(chain) == 0 {
		return nil, errors.New("there is none")
	}
	return chain, nil
}

// encodeChain writes what was read, and nothing that was passed over.
func encodeChain(chain []*x509.Certificate) []byte {
	var out []byte
	for _, one := range chain {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: one.Raw})...)
	}
	return out
}
