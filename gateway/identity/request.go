package identity

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// maxRequest bounds a certificate request in bytes: one with a key of maxRSABits is a few KiB.
const maxRequest = 16 << 10

// ReadRequest takes the public key out of a PEM certificate request (PKCS #10). The signature proves that whoever made it has
// the private key. Nothing else of the request counts: whom the certificate names is proven by a token. Keys are ECDSA on P-256
// or P-384, Ed25519, or RSA of 2048 to 8192 bits. An error is one lower-case sentence for the caller and repeats nothing of the
// text.
func ReadRequest(text []byte) (crypto.PublicKey, error) {
	if len(text) > maxRequest {
		return nil, fmt.Errorf("the certificate request is longer than %d bytes", maxRequest)
	}
	text = bytes.TrimSpace(text)
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return nil, errors.New("the certificate request is no PEM")
	case block.Type != "CERTIFICATE REQUEST":
		return nil, errors.New("the PEM is no CERTIFICATE REQUEST")
	case len(bytes.TrimSpace(rest)) > 0 || !bytes.HasPrefix(text, []byte("-----BEGIN ")):
		return nil, errors.New("there is something beside the certificate request")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, errors.New("the certificate request does not read as one")
	}
	if err := checkKey(request.PublicKey); err != nil {
		return nil, err
	}
	if err := request.CheckSignature(); err != nil {
		return nil, errors.New("the certificate request is not signed with its own key")
	}
	return request.PublicKey, nil
}

// checkKey refuses every kind of key that is not listed.
func checkKey(key crypto.PublicKey) error {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() || key.Curve == elliptic.P384() {
			return nil
		}
		return errors.New("the key's curve is not P-256 or P-384")
	case ed25519.PublicKey:
		return nil
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return fmt.Errorf("the RSA key has not %d to %d bits", minRSABits, maxRSABits)
		}
		return nil
	}
	return errors.New("the key is not ECDSA, Ed25519 or RSA")
}
