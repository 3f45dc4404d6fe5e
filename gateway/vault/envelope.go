package vault

import (
	"encoding/binary"
	"strconv"
)

// An envelope of the development sealer (that of Sealer is in seal.go) is
//
//	1 byte   formatDevelopment
//	4 bytes  number of the key, big endian: 2 for k2
//	12 bytes nonce, random
//	n bytes  ciphertext, as long as the plaintext
//	16 bytes GCM tag
//
// The first five are authenticated along with the associated data.
const (
	formatDevelopment byte = 1
	headerSize             = 1 + 4
)

// header begins an envelope under the key.
func header(key uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{formatDevelopment}, key)
}

// split takes an envelope apart as far as that needs no key.
func split(sealed []byte) (key uint32, rest []byte, err *Error) {
	switch {
	case len(sealed) == 0:
		return 0, nil, &Error{Doing: opening, Class: ErrAltered, Reason: "the envelope is empty"}
	case sealed[0] != formatDevelopment:
		return 0, nil, &Error{Doing: opening, Class: ErrRefused, Reason: "the envelope has format " + strconv.Itoa(int(sealed[0])) +
			", and the development sealer opens only its own, format 1"}
	case len(sealed) < headerSize+overhead:
		return 0, nil, &Error{Doing: opening, Class: ErrAltered, Reason: "the envelope is cut short"}
	}
	return binary.BigEndian.Uint32(sealed[1:headerSize]), sealed[headerSize:], nil
}

// AssociatedData puts the names of what bytes belong to together, so that no other list of
// names gives the same: each is preceded by its length.
func AssociatedData(names ...string) []byte {
	var out []byte
	for _, name := range names {
		out = binary.BigEndian.AppendUint64(out, uint64(len(name)))
		out = append(out, name...)
	}
	return out
}
