package gateway

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"bronzeward/gateway/upstream"
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

// patient lets large configurations be read and read back on a slow machine.
func patient(s *setup) {
	s.upstream = func(c *upstream.Config) { c.ReadTimeout = 2 * time.Minute }
	s.gateway = func(c *Config) { c.TransportDeadline, c.VerifyDeadline = 2*time.Minute, 2*time.Minute }
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
			h := newHouse(t, patient)
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
	h := newHouse(t, patient)
	a := h.as(t, "olga").apply(t, "w1", padded(t, 17<<20))
	refusedWith(t, a, codes.PermissionDenied, "BW-INVARIANT-018")
	if len(h.applies("w1")) != 0 {
		t.Fatalf("it was sent, attempts are %v", h.attempts(t))
	}
}

// filled is a well-formed message of exactly so many bytes, most of them in one field.
func filled(t testing.TB, number protowire.Number, size int, rest ...byte) []byte {
	t.Helper()
	for head := 1; head < 10; head++ {
		tag := protowire.AppendTag(nil, number, protowire.BytesType)
		inner := size - len(rest) - len(tag) - head
		if n := protowire.AppendVarint(tag, uint64(inner)); len(n) == len(tag)+head {
			return append(append(n, make([]byte, inner)...), rest...)
		}
	}
	t.Fatalf("no message has %d bytes", size)
	return nil
}

// An apply's message of 32 MiB is read whole and judged, one of a read of 64 KiB passes;
// one byte more is refused in both, with an entry and no call to a node.
func TestTheLargestMessages(t *testing.T) {
	t.Parallel()
	h := newHouse(t, patient)
	c := h.as(t, "olga")
	noRebootMode := field(4, protowire.VarintType, 2)

	refusedWith(t, c.apply(t, "w1", filled(t, 1, MaxMessage, noRebootMode...)), codes.PermissionDenied, "DENIED BW-CONFIG")
	if a := c.apply(t, "w1", filled(t, 1, MaxMessage+1, noRebootMode...)); a.code() != codes.ResourceExhausted {
		t.Errorf("an apply of one byte more got %v", a.err)
	}
	// gRPC answers for itself when a message is too large; the refusal is in the book all the same.
	eventually(t, "the refusal's entry", func() bool {
		return h.count(t, "select count(*) from audit.entries where verdict = 'refuse' and codes = '{BW-REQUEST-001}'") == 1
	})

	known := len(h.nodes["w1"].Log().Of(methodVersion))
	request := filled(t, 1000, maxRequest)
	succeeded(t, c.call(bounded(t), methodVersion, to("w1"), request))
	calls := h.nodes["w1"].Log().Of(methodVersion)[known:]
	if len(calls) != 1 || !bytes.Equal(calls[0].Requests[0].Bytes, request) {
		t.Fatalf("the node was sent %d calls, or other bytes", len(calls))
	}
	a := c.call(bounded(t), methodVersion, to("w1"), filled(t, 1000, maxRequest+1))
	if a.code() != codes.ResourceExhausted || len(a.decisions()) != 1 {
		t.Errorf("a read of one byte more got %v", a.err)
	}
	if n := len(h.nodes["w1"].Log().Of(methodVersion)); n != known+1 || len(h.applies("w1")) != 0 {
		t.Errorf("the node was sent %d reads, %d applies", n, len(h.applies("w1")))
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
	//lint:ignore SA1019 a compressor of this client only: the registry is the whole process's
	c := h.as(t, "olga", grpc.WithCompressor(squeeze{}))
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
