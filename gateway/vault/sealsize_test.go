package vault

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"testing"

	"bronzeward/fixtures/openbao/baotest"
)

// A wrapped key of another size than the ones that seal is none of them, whatever it opens.
func TestAShorterDataKeyOpensNothing(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	s := NewSealer(h.gateway(t))
	for size, opens := range map[int]bool{16: false, 24: false, 32: true} {
		key := bytes.Repeat([]byte{7}, size)
		answer := h.root(t, "POST", h.transit+"/encrypt/"+SealKey, map[string]any{"plaintext": base64.StdEncoding.EncodeToString(key)})
		wrapped := answer["data"].(map[string]any)["ciphertext"].(string)
		envelope := binary.BigEndian.AppendUint64([]byte{formatTransit}, uint64(h.key(t, SealKey).made[1]))
		envelope = binary.BigEndian.AppendUint16(envelope, uint16(len(wrapped)))
		envelope = append(envelope, wrapped...)
		gcm, err := gcmOf(key)
		if err != nil {
			t.Fatal(err)
		}
		text, err := s.Open(t.Context(), gcm.Seal(envelope, nil, []byte("text"), bind(envelope, []byte("change"))), []byte("change"))
		if opens {
			if err != nil || string(text) != "text" {
				t.Errorf("control: %q, %v", text, err)
			}
			continue
		}
		wantError(t, err, ErrAltered, KindAltered, SealKey+" v1", "another size")
	}
}
