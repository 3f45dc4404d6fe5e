package tree

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// KeyName is the name in every signature line and in every verifier key. Versions of the key differ in the hash beside it.
const KeyName = "bronzeward"

// ErrKeys is in the chain of the errors of ParseKeys and VerifierKey.
var ErrKeys = errors.New("no usable public key")

// VerifierKey spells a public key as note verifiers are written: bronzeward+hash+base64. It is one line of a public key
// file.
func VerifierKey(key ed25519.PublicKey) (string, error) {
	if len(key) != ed25519.PublicKeySize {
		return "", fmt.Errorf("spelling a public key: %w: it has %d bytes, an Ed25519 key has %d", ErrKeys, len(key), ed25519.PublicKeySize)
	}
	text, err := note.NewEd25519VerifierKey(KeyName, key)
	if err != nil {
		return "", fmt.Errorf("spelling a public key: %w: %w", ErrKeys, err)
	}
	return text, nil
}

// ParseKeys reads a public key file: one verifier key per line, every version of the signing key on its own. Empty lines
// and what follows a # at the beginning of a line are left out; a line that stands twice counts once. Every other line
// must be a key by the name KeyName, and there must be one. The error names the line.
func ParseKeys(file []byte) (note.Verifiers, error) {
	var list []note.Verifier
	seen := map[string]bool{}
	hashes := map[uint32]int{}
	for i, line := range bytes.Split(file, []byte("\n")) {
		text := strings.TrimSpace(string(line))
		if text == "" || strings.HasPrefix(text, "#") || seen[text] {
			continue
		}
		v, err := note.NewVerifier(text)
		if err != nil {
			return nil, fmt.Errorf("reading public keys, line %d: %w: it is not a verifier key (%s+hash+base64)", i+1, ErrKeys, KeyName)
		}
		if v.Name() != KeyName {
			return nil, fmt.Errorf("reading public keys, line %d: %w: it is the key of %q, keys of checkpoints are named %s", i+1, ErrKeys, v.Name(), KeyName)
		}
		if first, ok := hashes[v.KeyHash()]; ok {
			return nil, fmt.Errorf("reading public keys, line %d: %w: it has the hash of the key in line %d", i+1, ErrKeys, first)
		}
		seen[text], hashes[v.KeyHash()] = true, i+1
		list = append(list, v)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("reading public keys: %w: the file has none", ErrKeys)
	}
	return note.VerifierList(list...), nil
}
