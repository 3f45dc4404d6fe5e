package facts

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
)

// Digest schemes.
const (
	SchemeHMAC  = "hmac-sha256"
	SchemePlain = "sha256"
)

// fingerprintBytes is the length of a fingerprint: 80 bits, enough that two values of
// one configuration do not meet by chance and few enough to read.
const fingerprintBytes = 10

// Digester makes configuration digests and value fingerprints. Implementations are safe for
// concurrent use, and immutable but for LiveRing, whose keys grow.
type Digester interface {
	// Digest is the configuration digest of a text, with scheme and key version.
	Digest(text []byte) string
	// Fingerprint stands for a value that may not be shown, "fp:" and 20 hex digits.
	// Equal values have equal fingerprints under one key; without the key a guess
	// cannot be tested.
	Fingerprint(value []byte) string
	// Same says whether digest is the digest of text, under the scheme and key version
	// that digest names. It returns a *SchemeError when this Digester does not have them.
	Same(text []byte, digest string) (bool, error)
	// Under is the digest of text under the scheme and key version that digest names, for
	// who compares one text with many. Errors are those of Same.
	Under(text []byte, digest string) (string, error)
}

// SchemeError says that a digest cannot be compared here: it is malformed, of another
// scheme, or of a key version that is not in the ring. It is never a mismatch.
type SchemeError struct {
	// Scheme and Version are what the digest names, empty when malformed.
	Scheme, Version string
}

func (e *SchemeError) Error() string {
	switch {
	case e.Scheme == "":
		return "comparing digests: the stored digest is malformed"
	case e.Version == "":
		return fmt.Sprintf("comparing digests: scheme %s is not the one configured", e.Scheme)
	default:
		return fmt.Sprintf("comparing digests: no key for %s:%s", e.Scheme, e.Version)
	}
}

// Normal is the text a digest is over: all trailing newlines replaced by exactly one.
// The result shares memory with text where it can.
func Normal(text []byte) []byte {
	trimmed := bytes.TrimRight(text, "\n")
	if len(trimmed)+1 == len(text) {
		return text
	}
	return append(trimmed[:len(trimmed):len(trimmed)], '\n')
}

// SameText says whether two texts are equal, trailing newlines aside. Its time does
// not depend on where they differ.
func SameText(a, b []byte) bool {
	return subtle.ConstantTimeCompare(bytes.TrimRight(a, "\n"), bytes.TrimRight(b, "\n")) == 1
}

// writeNormal feeds the normal form of text to a hash without copying it.
func writeNormal(h hash.Hash, text []byte) {
	h.Write(bytes.TrimRight(text, "\n"))
	h.Write([]byte{'\n'})
}

// Digest is a digest taken apart.
type digestParts struct {
	scheme, version string
	sum             []byte
}

// parseDigest takes "hmac-sha256:k1:<hex>" or "sha256:<hex>" apart.
func parseDigest(digest string) (digestParts, error) {
	var out digestParts
	scheme, rest, _ := strings.Cut(digest, ":")
	switch scheme {
	case SchemeHMAC:
		version, sum, ok := strings.Cut(rest, ":")
		if !ok || !validVersion(version) {
			return out, &SchemeError{}
		}
		out.version, rest = version, sum
	case SchemePlain:
	default:
		return out, &SchemeError{}
	}
	sum, err := hex.DecodeString(rest)
	if err != nil || len(sum) != sha256.Size || strings.ToLower(rest) != rest {
		return out, &SchemeError{}
	}
	out.scheme, out.sum = scheme, sum
	return out, nil
}

// validVersion accepts "k1", "k2" and so on.
func validVersion(version string) bool {
	digits, ok := strings.CutPrefix(version, "k")
	if !ok || digits == "" || len(digits) > 9 || digits[0] == '0' {
		return false
	}
	return strings.Trim(digits, "0123456789") == ""
}

// fingerprint is the shared form of both schemes.
func fingerprint(key, value []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write(value)
	return "fp:" + hex.EncodeToString(mac.Sum(nil)[:fingerprintBytes])
}

// derive makes a key for one purpose, so that no text a stranger can have digested
// ever yields the key of another purpose.
func derive(secret []byte, purpose string) ([]byte, error) {
	return hkdf.Key(sha256.New, secret, nil, "bronzeward/"+purpose+"/v1", sha256.Size)
}

// Plain is the opt-in scheme sha256: anybody can test a guess of a whole text, nobody
// one of a single value, because fingerprints keep a key of their own.
type Plain struct {
	fingerprints fingerprinter
}

// fingerprinter makes the fingerprints of the scheme sha256.
type fingerprinter interface {
	Fingerprint(value []byte) string
}

// printKey keys fingerprints alone. Printing it shows no key.
type printKey struct{ key []byte }

func (k printKey) Fingerprint(value []byte) string { return fingerprint(k.key, value) }

func (printKey) String() string   { return "fingerprint key" }
func (printKey) GoString() string { return "fingerprint key" }

// NewPlain makes the sha256 scheme. The secret keys the fingerprints and has at least
// 32 bytes; nil takes a random one, so that fingerprints of two processes differ. One that
// is a key of a ring gives the ring's fingerprints.
func NewPlain(secret []byte) (*Plain, error) {
	if secret == nil {
		secret = make([]byte, minKey)
		rand.Read(secret) // never fails: crypto/rand ends the process instead
	}
	if len(secret) < minKey {
		return nil, errors.New("making plain digester: the fingerprint key is shorter than 32 bytes")
	}
	key, err := derive(secret, "fingerprint")
	if err != nil {
		return nil, fmt.Errorf("making plain digester: %w", err)
	}
	return &Plain{fingerprints: printKey{key}}, nil
}

// NewPlainUnder makes the sha256 scheme with the fingerprints of a ring, so that those of all
// replicas agree. The ring's digests are not used.
func NewPlainUnder(ring Digester) *Plain { return &Plain{fingerprints: ring} }

func (p *Plain) pinned() Digester {
	if ring, ok := p.fingerprints.(Digester); ok {
		return &Plain{fingerprints: pin(ring)}
	}
	return p
}

// String shows the scheme and no key.
func (p *Plain) String() string { return SchemePlain }

// GoString shows what String shows.
func (p *Plain) GoString() string { return p.String() }

// Digest implements Digester.
func (p *Plain) Digest(text []byte) string {
	return SchemePlain + ":" + hex.EncodeToString(p.sum(text))
}

func (p *Plain) sum(text []byte) []byte {
	h := sha256.New()
	writeNormal(h, text)
	return h.Sum(nil)
}

// Fingerprint implements Digester.
func (p *Plain) Fingerprint(value []byte) string { return p.fingerprints.Fingerprint(value) }

// Under implements Digester.
func (p *Plain) Under(text []byte, digest string) (string, error) {
	parts, err := parseDigest(digest)
	if err != nil {
		return "", err
	}
	if parts.scheme != SchemePlain {
		return "", &SchemeError{Scheme: parts.scheme}
	}
	return p.Digest(text), nil
}

// Same implements Digester.
func (p *Plain) Same(text []byte, digest string) (bool, error) {
	parts, err := parseDigest(digest)
	if err != nil {
		return false, err
	}
	if parts.scheme != SchemePlain {
		return false, &SchemeError{Scheme: parts.scheme}
	}
	return subtle.ConstantTimeCompare(p.sum(text), parts.sum) == 1, nil
}
