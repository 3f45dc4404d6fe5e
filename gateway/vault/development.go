package vault

import (
	"context"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"bronzeward/gateway/keyfile"
)

const (
	sealing = "sealing"
	opening = "opening sealed bytes"

	// purpose keeps the sealing key apart from every other key made of the same secret, so
	// that one file may serve for digests too.
	purpose = "bronzeward/seal/v1"
	keySize = 32
	// overhead is nonce and tag: what cipher.NewGCMWithRandomNonce adds.
	overhead = 12 + 16
)

// Development seals with keys from a file. It is immutable and safe for concurrent use, and
// prints as no more than its name. One key seals at most 2^32 texts (random nonces).
type Development struct {
	current uint32
	keys    map[uint32]cipher.AEAD
}

// LoadDevelopment reads the keys from a file of keys for development (package keyfile): new
// envelopes are under its current key, and those under its other keys open. It reads the file
// once; a key that was added is known after a restart.
func LoadDevelopment(path string) (*Development, error) {
	current, keys, err := keyfile.Read(path)
	if err != nil {
		return nil, fmt.Errorf("reading sealing keys: %w", err)
	}
	d, err := newDevelopment(current, keys)
	if err != nil {
		return nil, fmt.Errorf("reading sealing keys from %s: %w", path, err)
	}
	return d, nil
}

// newDevelopment takes keys as keyfile gives them: named k1, k2, …, and current among them.
func newDevelopment(current string, secrets map[string][]byte) (*Development, error) {
	d := &Development{keys: make(map[uint32]cipher.AEAD, len(secrets))}
	for version, secret := range secrets {
		number, err := strconv.ParseUint(strings.TrimPrefix(version, "k"), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("key version %q is not k1, k2, …", version)
		}
		if d.keys[uint32(number)], err = aead(secret); err != nil {
			return nil, fmt.Errorf("preparing key %s: %w", version, err)
		}
		if version == current {
			d.current = uint32(number)
		}
	}
	return d, nil
}

// aead is AES-256-GCM under the sealing key that is derived from the secret.
func aead(secret []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, purpose, keySize)
	if err != nil {
		return nil, err
	}
	return gcmOf(key)
}

// Seal encrypts plaintext under the current key, bound to the associated data: Open gives it
// back for the very same data and no other. The envelope is new memory, 33 bytes longer than
// the plaintext, and differs each time. The error is an *Error; here it is given only when
// the context has ended, and a vault on a network gives it whenever it has no answer.
func (d *Development) Seal(ctx context.Context, plaintext, associated []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, &Error{Doing: sealing, Class: ErrUnavailable, Reason: err.Error(), Cause: err}
	}
	envelope := make([]byte, 0, headerSize+overhead+len(plaintext))
	envelope = append(envelope, header(d.current)...)
	return d.keys[d.current].Seal(envelope, nil, plaintext, bind(envelope, associated)), nil
}

// Open gives the exact bytes that were sealed with the same associated data, in new memory,
// or an *Error and nothing of them.
func (d *Development) Open(ctx context.Context, sealed, associated []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, &Error{Doing: opening, Class: ErrUnavailable, Reason: err.Error(), Cause: err}
	}
	number, rest, bad := split(sealed)
	if bad != nil {
		return nil, bad
	}
	version := "k" + strconv.FormatUint(uint64(number), 10)
	key, ok := d.keys[number]
	if !ok {
		return nil, &Error{Doing: opening, Class: ErrRefused, KeyVersion: version, Reason: "the key file has no key of that version; bring it back to the file and restart"}
	}
	plaintext, err := key.Open(nil, nil, rest, bind(sealed[:headerSize], associated))
	if err != nil {
		// The cipher says only that authentication did not hold, and it is the same for every cause.
		return nil, &Error{Doing: opening, Class: ErrAltered, KeyVersion: version, Reason: "they were altered, or sealed for something else, or the key of that version is another one now"}
	}
	return plaintext, nil
}

// bind is what the tag is over besides the ciphertext. A head says its own length, so the two
// need nothing between them.
func bind(head, associated []byte) []byte {
	return append(append(make([]byte, 0, len(head)+len(associated)), head...), associated...)
}

// String shows no key.
func (d *Development) String() string { return "development sealer" }

// GoString shows what String shows.
func (d *Development) GoString() string { return d.String() }
