package gateway

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
)

// padded is a configuration whose request has exactly so many bytes.
func padded(t testing.TB, size int) []byte {
	t.Helper()
	text := labelled("one")
	for {
		request := noReboot(t, text)
		missing := size - len(request)
		if missing == 0 {
			return request
		}
		if missing < 0 {
			t.Fatalf("the configuration is %d bytes too long", -missing)
		}
		if missing > 10 {
			missing -= 8 // the length's own bytes grow
		}
		text = append(text, "# "...)
		text = append(text[:len(text)-2], padding(missing)...)
	}
}

// padding is comment lines of n bytes in all.
func padding(n int) []byte {
	const line = 4096
	var out []byte
	for n > 0 {
		take := min(n, line)
		if n-take == 1 {
			take++
		}
		if take == 1 {
			out = append(out, '\n')
		} else {
			out = append(append(out, '#'), strings.Repeat("x", take-2)...)
			out = append(out, '\n')
		}
		n -= take
	}
	return out
}

// I8 for sizes: an apply as large as a node can give back goes through whole.
func TestAppliesOfEverySizeArriveWhole(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		size int
	}{
		{"4 MiB less one", 4<<20 - 1},
		{"4 MiB", 4 << 20},
		{"4 MiB and one", 4<<20 + 1},
		{"10.7 MiB", 11_219_763},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := newHouse(t, nil)
			request := padded(t, row.size)
			succeeded(t, h.as(t, "olga").apply(t, "w1", request))
			applies := h.applies("w1")
			if len(applies) != 1 || !bytes.Equal(applies[0].Requests[0].Bytes, request) {
				t.Errorf("the node was sent %d applies, or other bytes", len(applies))
			}
			if got := h.attempts(t); got[0] != "completed" {
				t.Errorf("the attempt is %v", got)
			}
		})
	}
}

// What a node could not give back again is not applied: its attempt could never be
// completed, and would hold the machine for good.
func TestAnApplyThatCouldNotBeReadBackIsRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	c := h.as(t, "olga")
	for _, size := range []int{17 << 20, MaxMessage} {
		a := c.apply(t, "w1", padded(t, size))
		refusedWith(t, a, codes.PermissionDenied, "BW-INVARIANT-018")
		if len(h.applies("w1")) != 0 {
			t.Fatalf("%d bytes were sent, attempts are %v", size, h.attempts(t))
		}
	}
}

// A message of 32 MiB passes; one byte more is refused, with an entry and no call to a node.
func TestAMessageOf32MiBPassesAndNoLargerOne(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	c := h.as(t, "olga")
	message := func(size int) []byte {
		head := protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.BytesType), uint64(size-6))
		return append(head, make([]byte, size-len(head))...)
	}
	whole := message(MaxMessage)
	if n := protowire.ConsumeFieldValue(1000, protowire.BytesType, whole[2:]); n != len(whole)-2 {
		t.Fatalf("the test's own message is not well-formed: %d", n)
	}
	succeeded(t, c.call(bounded(t), methodVersion, to("w1"), whole))
	calls := h.nodes["w1"].Log().Of(methodVersion)
	if len(calls) != 1 || calls[0].Requests[0].Size != MaxMessage {
		t.Fatalf("the node was sent %d calls", len(calls))
	}
	a := c.call(bounded(t), methodVersion, to("w1"), message(MaxMessage+1))
	if a.code() != codes.ResourceExhausted {
		t.Errorf("one byte more got %v", a.err)
	}
	// gRPC answers for itself when a message is too large; the refusal is in the book all the same.
	eventually(t, "the refusal's entry", func() bool {
		return h.count(t, "select count(*) from audit.entries where verdict = 'refuse' and codes = '{BW-REQUEST-001}'") == 1
	})
	if n := len(h.nodes["w1"].Log().Of(methodVersion)); n != 1 {
		t.Error("one byte more reached the node")
	}
}

// squeeze is a compressor of the test's own, so that none is registered in this process.
type squeeze struct{}

func (squeeze) Do(w io.Writer, p []byte) error {
	z := gzip.NewWriter(w)
	if _, err := z.Write(p); err != nil {
		return err
	}
	return z.Close()
}
func (squeeze) Type() string { return "gzip" }

// A compressed request is judged and forwarded as what it unpacks to, and a small one that
// unpacks to more than a message may have is refused.
func TestACompressedRequestIsJudgedUnpacked(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	c := h.as(t, "olga", grpc.WithCompressor(squeeze{})) //nolint:staticcheck // the registry is global
	request := noReboot(t, labelled("one"))
	succeeded(t, c.apply(t, "w1", request))
	applies := h.applies("w1")
	if len(applies) != 1 || !bytes.Equal(applies[0].Requests[0].Bytes, request) {
		t.Fatalf("the node was sent %d applies, or other bytes", len(applies))
	}
	if a := c.call(bounded(t), methodVersion, to("w1"), make([]byte, 2*MaxMessage)); a.code() != codes.ResourceExhausted {
		t.Errorf("64 MiB of zeros, packed, got %v", a.err)
	}
}
