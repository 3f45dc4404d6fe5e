package vault

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
)

// SealKey is the Transit key that wraps the data keys of changes.
const SealKey = "bronzeward-seal"

// An envelope of Sealer is
//
//	1 byte   formatTransit
//	8 bytes  when the version of the Transit key was made, Unix seconds, big endian
//	2 bytes  length of the wrapped data key, big endian
//	m bytes  the wrapped data key as OpenBao writes it, vault:v3:…
//	12 bytes nonce, random
//	n bytes  ciphertext, as long as the plaintext
//	16 bytes GCM tag
//
// All before the nonce is authenticated along with the associated data. The time tells a
// recreated key from the one that is meant: OpenBao numbers both from v1.
const (
	formatTransit byte = 2
	fixedSize          = 1 + 8 + 2
	// mostWrapped is far above what OpenBao gives for 32 bytes.
	mostWrapped = 1024
)

// Sealer seals each text under a data key of its own, which only OpenBao can unwrap: opening
// asks it each time, so that it can refuse, be sealed, or be away. Safe for concurrent use.
// The text and the data key are in this process's memory while it works, and nowhere else.
type Sealer struct {
	client *Client
	key    *transitKey
}

// NewSealer uses the client's Transit key SealKey. It asks nothing yet.
func NewSealer(c *Client) *Sealer { return &Sealer{client: c, key: newTransitKey(c, SealKey)} }

// Seal encrypts plaintext under a new data key, bound to the associated data: Open gives it
// back for the very same data and no other. It asks OpenBao once, and for the key's times when
// they are not known yet. The error is an *Error.
func (s *Sealer) Seal(ctx context.Context, plaintext, associated []byte) ([]byte, error) {
	data, err := s.client.write(ctx, sealing, s.client.transit+"/datakey/plaintext/"+s.key.name, map[string]any{"bits": 256})
	if err != nil {
		return nil, s.key.diagnose(ctx, sealing, 0, 0, err)
	}
	wrapped, _ := data["ciphertext"].(string)
	encoded, _ := data["plaintext"].(string)
	secret, decodeErr := base64.StdEncoding.DecodeString(encoded)
	version, parseErr := versionOf(wrapped)
	if decodeErr != nil || parseErr != nil || len(secret) != keySize || len(wrapped) > mostWrapped {
		return nil, refused(sealing, KindMalformed, nil, "OpenBao did not give a data key")
	}
	defer clear(secret)
	made, err := s.key.made(ctx, sealing, version)
	if err != nil {
		return nil, err
	}
	gcm, err := gcmOf(secret)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sealing, err)
	}
	envelope := make([]byte, 0, fixedSize+len(wrapped)+overhead+len(plaintext))
	envelope = append(envelope, formatTransit)
	envelope = binary.BigEndian.AppendUint64(envelope, uint64(made))
	envelope = binary.BigEndian.AppendUint16(envelope, uint16(len(wrapped)))
	envelope = append(envelope, wrapped...)
	return gcm.Seal(envelope, nil, plaintext, bind(envelope, associated)), nil
}

// Open gives the exact bytes that were sealed with the same associated data, in new memory, or
// an *Error and nothing of them. It asks OpenBao once, and once more when it refuses, to say
// why. The class is ErrAltered only when OpenBao unwrapped the data key, or its key is the very
// one that wrapped it.
func (s *Sealer) Open(ctx context.Context, sealed, associated []byte) ([]byte, error) {
	head, wrapped, rest, bad := splitTransit(sealed)
	if bad != nil {
		return nil, bad
	}
	version, err := versionOf(wrapped)
	if err != nil {
		return nil, &Error{Doing: opening, Class: ErrAltered, Kind: KindAltered, Reason: "the envelope holds no wrapped key"}
	}
	made := int64(binary.BigEndian.Uint64(head[1:]))
	secret, err := s.key.unwrap(ctx, opening, wrapped, version, made)
	if err != nil {
		return nil, err
	}
	defer clear(secret)
	gcm, err := gcmOf(secret)
	if err != nil || len(secret) != keySize {
		return nil, &Error{Doing: opening, Class: ErrAltered, Kind: KindAltered, KeyVersion: s.key.at(version), Reason: "the wrapped key has another size"}
	}
	plaintext, err := gcm.Open(nil, nil, rest, bind(head, associated))
	if err != nil {
		return nil, &Error{Doing: opening, Class: ErrAltered, Kind: KindAltered, KeyVersion: s.key.at(version), Reason: "they were altered, or sealed for something else"}
	}
	return plaintext, nil
}

// splitTransit takes an envelope apart as far as that needs no key.
func splitTransit(sealed []byte) (head []byte, wrapped string, rest []byte, err *Error) {
	switch {
	case len(sealed) == 0:
		return nil, "", nil, &Error{Doing: opening, Class: ErrAltered, Kind: KindAltered, Reason: "the envelope is empty"}
	case sealed[0] != formatTransit:
		return nil, "", nil, refused(opening, KindMalformed, nil, "the envelope has format %d, and what OpenBao's key wraps has format 2", sealed[0])
	case len(sealed) < fixedSize:
		return nil, "", nil, &Error{Doing: opening, Class: ErrAltered, Kind: KindAltered, Reason: "the envelope is cut short"}
	}
	length := int(binary.BigEndian.Uint16(sealed[9:]))
	if length > mostWrapped || len(sealed) < fixedSize+length+overhead {
		return nil, "", nil, &Error{Doing: opening, Class: ErrAltered, Kind: KindAltered, Reason: "the envelope is cut short"}
	}
	head = sealed[:fixedSize+length]
	return head, string(head[fixedSize:]), sealed[len(head):], nil
}

// versionOf is the 3 of vault:v3:…
func versionOf(wrapped string) (int, error) {
	prefix, rest, ok := bytes.Cut([]byte(wrapped), []byte(":v"))
	digits, _, whole := bytes.Cut(rest, []byte(":"))
	version, err := strconv.Atoi(string(digits))
	if !ok || !whole || err != nil || version < 1 || string(prefix) != "vault" || string(digits) != strconv.Itoa(version) {
		return 0, fmt.Errorf("not a text of Transit")
	}
	return version, nil
}

func gcmOf(secret []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// String shows no key.
func (s *Sealer) String() string { return "sealer by OpenBao's " + s.key.name }

// GoString shows what String shows.
func (s *Sealer) GoString() string { return s.String() }
