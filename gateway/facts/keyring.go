package facts

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"bronzeward/gateway/keyfile"
)

// minKey is the shortest key in bytes: the strength of SHA-256.
const minKey = 32

// KeyRing is the default scheme hmac-sha256 with one current and any number of older
// key versions. It is immutable; printing it shows no key.
type KeyRing struct {
	current string
	keys    map[string]ringKey
}

type ringKey struct {
	digest, fingerprint []byte
}

// NewKeyRing makes a ring. Keys are named k1, k2, … and have at least 32 random bytes;
// current names the one new digests and fingerprints are made with.
func NewKeyRing(current string, keys map[string][]byte) (*KeyRing, error) {
	ring := &KeyRing{current: current, keys: make(map[string]ringKey, len(keys))}
	var errs []error
	for _, version := range slices.Sorted(maps.Keys(keys)) {
		secret := keys[version]
		if !validVersion(version) {
			errs = append(errs, fmt.Errorf("key version %s is not k1, k2, …", escape(version)))
			continue
		}
		if len(secret) < minKey {
			errs = append(errs, fmt.Errorf("key %s is shorter than %d bytes", version, minKey))
			continue
		}
		digest, err := derive(secret, "digest")
		errs = append(errs, err)
		print, err := derive(secret, "fingerprint")
		errs = append(errs, err)
		ring.keys[version] = ringKey{digest: digest, fingerprint: print}
	}
	if _, ok := keys[current]; !ok {
		errs = append(errs, fmt.Errorf("current key %s is not among the keys", escape(current)))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("making key ring: %w", err)
	}
	return ring, nil
}

// Digest implements Digester, under the current key.
func (r *KeyRing) Digest(text []byte) string {
	return r.format(r.current, r.sum(r.keys[r.current], text))
}

// DigestUnder is the digest under a named key version: a text read from a machine is
// digested under every version a stored digest still uses.
func (r *KeyRing) DigestUnder(version string, text []byte) (string, error) {
	key, ok := r.keys[version]
	if !ok {
		return "", &SchemeError{Scheme: SchemeHMAC, Version: version}
	}
	return r.format(version, r.sum(key, text)), nil
}

// Versions are the key versions of the ring, sorted.
func (r *KeyRing) Versions() []string { return slices.Sorted(maps.Keys(r.keys)) }

// Fingerprint implements Digester, under the current key.
func (r *KeyRing) Fingerprint(value []byte) string {
	return fingerprint(r.keys[r.current].fingerprint, value)
}

// Same implements Digester: it recomputes under the version the digest names and
// compares in constant time.
func (r *KeyRing) Same(text []byte, digest string) (bool, error) {
	parts, err := parseDigest(digest)
	if err != nil {
		return false, err
	}
	if parts.scheme != SchemeHMAC {
		return false, &SchemeError{Scheme: parts.scheme}
	}
	key, ok := r.keys[parts.version]
	if !ok {
		return false, &SchemeError{Scheme: parts.scheme, Version: parts.version}
	}
	return hmac.Equal(r.sum(key, text), parts.sum), nil
}

// Under implements Digester.
func (r *KeyRing) Under(text []byte, digest string) (string, error) {
	parts, err := parseDigest(digest)
	if err != nil {
		return "", err
	}
	if parts.scheme != SchemeHMAC {
		return "", &SchemeError{Scheme: parts.scheme}
	}
	return r.DigestUnder(parts.version, text)
}

// String shows the versions and no key.
func (r *KeyRing) String() string {
	return fmt.Sprintf("key ring %s, current %s", strings.Join(r.Versions(), " "), r.current)
}

// GoString shows what String shows.
func (r *KeyRing) GoString() string { return r.String() }

func (r *KeyRing) sum(key ringKey, text []byte) []byte {
	mac := hmac.New(sha256.New, key.digest)
	writeNormal(mac, text)
	return mac.Sum(nil)
}

func (r *KeyRing) format(version string, sum []byte) string {
	return SchemeHMAC + ":" + version + ":" + hex.EncodeToString(sum)
}

// maxKeyFile is the largest key file in bytes.
const maxKeyFile = keyfile.MaxSize

// LoadDevelopmentKeys reads a ring from a file of keys for development (package keyfile).
// No error text holds a key.
func LoadDevelopmentKeys(path string) (*KeyRing, error) {
	current, keys, err := keyfile.Read(path)
	if err != nil {
		return nil, fmt.Errorf("reading digest keys: %w", err)
	}
	ring, err := NewKeyRing(current, keys)
	if err != nil {
		return nil, fmt.Errorf("reading digest keys from %s: %w", path, err)
	}
	return ring, nil
}
