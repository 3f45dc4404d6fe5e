package httpapi

import (
	"strings"
	"testing"

	"bronzeward/gateway/httpapi/api"
)

// wrongKind is a body of the largest size whose first value is of the wrong kind, and which
// is long to walk.
func wrongKind(size int) []byte {
	const head, tail = `{"machine":[1`, `],"mode":"no-reboot"}`
	return []byte(head + strings.Repeat(",1", (size-len(head)-len(tail))/2) + tail)
}

func BenchmarkABodyOfTheWrongKind(b *testing.B) {
	text := wrongKind(largeBody)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		var into api.NewChange
		if err := decodeText(text, &into); err == nil {
			b.Fatal("it was taken")
		}
	}
}
