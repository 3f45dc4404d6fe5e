package vault

import (
	"bytes"
	"testing"

	"bronzeward/fixtures/openbao/baotest"
)

// The use-time check is Open: one question to OpenBao, and AES-GCM over the text.
func BenchmarkSealer(b *testing.B) {
	h := newHouse(b, baotest.Server(b))
	s := NewSealer(h.gateway(b))
	for name, size := range map[string]int{"15KiB": 15 << 10, "10.7MiB": 10_700_000} {
		text := bytes.Repeat([]byte("k"), size)
		sealed := sealWith(b, s, text)
		b.Run("Seal/"+name, func(b *testing.B) {
			for b.Loop() {
				sealWith(b, s, text)
			}
		})
		b.Run("Open/"+name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Open(b.Context(), sealed, change); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkIssue(b *testing.B) {
	h := newHouse(b, baotest.Server(b))
	a := authority(b, h.gateway(b))
	template, key := person(b, 1)
	for b.Loop() {
		if _, err := a.Issue(b.Context(), template, key.Public()); err != nil {
			b.Fatal(err)
		}
	}
}
