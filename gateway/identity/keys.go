package identity

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"

	"github.com/lestrrat-go/jwx/v2/jwa"
	"github.com/lestrrat-go/jwx/v2/jwk"
	"github.com/lestrrat-go/jwx/v2/jws"
)

const (
	// maxKeys bounds a key set; issuers publish two to ten.
	maxKeys = 100
	// minRSABits and maxRSABits bound RSA keys: below is breakable, above makes each verification a burden.
	minRSABits, maxRSABits = 2048, 8192
)

// verifyKey is one usable public key of an issuer.
type verifyKey struct {
	kid string
	// algorithms are those the key can verify, narrowed by its own `alg` if it names one.
	algorithms []string
	public     any
}

// keySet is an immutable set of usable keys. Two fetches that bring the same keys share one *keySet, so that
// a cached token can be tied to the set it was verified with by comparing pointers.
type keySet struct {
	keys        []verifyKey
	fingerprint [sha256.Size]byte
	// skipped counts keys left out: unreadable, private, symmetric, weak, or not for signatures.
	skipped int
}

// asymmetricAlgorithms lists every signature algorithm that can be configured; there is no HMAC and no "none".
func asymmetricAlgorithms() []string {
	return []string{
		"ES256", "ES384", "ES512", "EdDSA",
		"PS256", "PS384", "PS512", "RS256", "RS384", "RS512",
	}
}

// parseKeySet reads a JWKS document. Keys that cannot be used are left out and counted: one strange key must not
// take the others along. It errs when the document is not a key set or no usable key is left.
func parseKeySet(document []byte) (*keySet, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	// The parser's own error may quote the document, which can hold a private key by mistake.
	if err := json.Unmarshal(document, &set); err != nil {
		return nil, errors.New("reading key set: not a JSON object with a list of keys")
	}
	if len(set.Keys) > maxKeys {
		return nil, errors.New("reading key set: more than 100 keys")
	}
	result := &keySet{}
	var prints [][]byte
	for _, raw := range set.Keys {
		key, print, ok := parseKey(raw)
		if !ok {
			result.skipped++
			continue
		}
		result.keys = append(result.keys, key)
		prints = append(prints, print)
	}
	if len(result.keys) == 0 {
		return nil, errors.New("reading key set: no usable key in it")
	}
	slices.SortFunc(prints, bytes.Compare)
	result.fingerprint = sha256.Sum256(bytes.Join(prints, nil))
	return result, nil
}

// parseKey reads one JWK; ok is false when it is not a public key for signatures.
func parseKey(raw json.RawMessage) (key verifyKey, print []byte, ok bool) {
	parsed, err := jwk.ParseKey(raw)
	if err != nil {
		return verifyKey{}, nil, false
	}
	// A published private key signs for whoever read it.
	if private, err := jwk.IsPrivateKey(parsed); err != nil || private {
		return verifyKey{}, nil, false
	}
	if use := parsed.KeyUsage(); use != "" && use != string(jwk.ForSignature) {
		return verifyKey{}, nil, false
	}
	if ops := parsed.KeyOps(); len(ops) > 0 && !slices.Contains(ops, jwk.KeyOpVerify) {
		return verifyKey{}, nil, false
	}
	var public any
	if err := parsed.Raw(&public); err != nil {
		return verifyKey{}, nil, false
	}
	algorithms := algorithmsOf(public)
	own := ""
	if alg := parsed.Algorithm(); alg != nil {
		own = alg.String()
	}
	if own != "" {
		if !slices.Contains(algorithms, own) {
			return verifyKey{}, nil, false
		}
		algorithms = []string{own}
	}
	if len(algorithms) == 0 {
		return verifyKey{}, nil, false
	}
	thumbprint, err := parsed.Thumbprint(crypto.SHA256)
	if err != nil {
		return verifyKey{}, nil, false
	}
	kid := parsed.KeyID()
	print = slices.Concat(thumbprint, sum(kid), sum(own))
	return verifyKey{kid: kid, algorithms: algorithms, public: public}, print, true
}

func sum(s string) []byte {
	digest := sha256.Sum256([]byte(s))
	return digest[:]
}

// algorithmsOf lists what a public key can verify; none for a key that is weak or of another kind.
func algorithmsOf(public any) []string {
	switch key := public.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return nil
		}
		return []string{"PS256", "PS384", "PS512", "RS256", "RS384", "RS512"}
	case *ecdsa.PublicKey:
		// ECDH refuses points that are not on the curve.
		if _, err := key.ECDH(); err != nil {
			return nil
		}
		switch key.Curve.Params().Name {
		case "P-256":
			return []string{"ES256"}
		case "P-384":
			return []string{"ES384"}
		case "P-521":
			return []string{"ES512"}
		}
	case ed25519.PublicKey:
		if len(key) == ed25519.PublicKeySize {
			return []string{"EdDSA"}
		}
	}
	return nil
}

// find returns the keys named by kid, or the only key when kid is empty.
func (s *keySet) find(kid string) []verifyKey {
	if kid == "" {
		if len(s.keys) == 1 {
			return s.keys
		}
		return nil
	}
	var found []verifyKey
	for _, key := range s.keys {
		if key.kid == kid {
			found = append(found, key)
		}
	}
	return found
}

// verify reports whether one of the keys verifies the compact token under alg, and whether any fits alg.
func verify(keys []verifyKey, alg, token string) (verified, fits bool) {
	for _, key := range keys {
		if !slices.Contains(key.algorithms, alg) {
			continue
		}
		fits = true
		_, err := jws.Verify([]byte(token), jws.WithKey(jwa.SignatureAlgorithm(alg), key.public))
		if err == nil {
			return true, true
		}
	}
	return false, fits
}
