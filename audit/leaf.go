package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Leaf is the leaf hash of a record: SHA-256 over a zero byte (RFC 6962's mark of a leaf), the record, and recordedAt as
// microseconds since 1970 in eight bytes, big endian. The database computes the same in the INSERT (audit.leaf); this
// one is for whoever checks it.
func Leaf(record []byte, recordedAt time.Time) [32]byte {
	h := sha256.New()
	h.Write([]byte{0})
	h.Write(record)
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(recordedAt.UnixMicro())))
	return [32]byte(h.Sum(nil))
}
