package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"bronzeward/fixtures/oracle"
	"bronzeward/fixtures/talosd"
)

// field is one field of a message, in the encoding a test wants.
func field(number protowire.Number, kind protowire.Type, value ...byte) []byte {
	return append(protowire.AppendTag(nil, number, kind), value...)
}

func dataField(text []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), text)
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// I8: what is judged is what arrives, however oddly it is encoded.
func TestTheBytesAtTheNodeAreTheBytesSent(t *testing.T) {
	t.Parallel()
	text := labelled("one")
	length := protowire.AppendVarint(nil, uint64(len(text)))
	length[len(length)-1] |= 0x80
	for _, row := range []struct {
		name    string
		request []byte
	}{
		{"as machinery encodes it", noReboot(t, text)},
		{"the mode before the text", join(field(4, protowire.VarintType, 2), dataField(text))},
		{"a mode in more bytes than it needs", join(dataField(text), field(4, protowire.VarintType, 0x82, 0x80, 0x00))},
		{"a length in more bytes than it needs", join(field(1, protowire.BytesType, append(append(length, 0x00), text...)...), field(4, protowire.VarintType, 2))},
		{"dry_run said to be false", join(dataField(text), field(4, protowire.VarintType, 2), field(5, protowire.VarintType, 0))},
		{"a text without a last newline", noReboot(t, bytes.TrimRight(text, "\n"))},
		{"a text with many last newlines", noReboot(t, append(bytes.Clone(text), "\n\n\n\n"...))},
		{"a text with CRLF comments", noReboot(t, append(bytes.Clone(text), "# odd\r\n"...))},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, nil)
			succeeded(t, h.as(t, "olga").apply(t, "w1", row.request))
			applies := h.applies("w1")
			if len(applies) != 1 || !bytes.Equal(applies[0].Requests[0].Bytes, row.request) {
				t.Errorf("the node was sent %d applies, or other bytes", len(applies))
			}
		})
	}
}

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

// I8: what is not one well-formed message and its end is refused with an entry, and
// nothing of it reaches the node.
func TestRequestsThatAreNotOneMessageAreRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	c := h.as(t, "olga")
	text := labelled("one")
	good := noReboot(t, text)
	for _, row := range []struct {
		name     string
		method   string
		messages [][]byte
		words    string
	}{
		{"two messages", talosd.MethodApply, [][]byte{good, good}, "one message"},
		{"a second message that is empty", talosd.MethodApply, [][]byte{good, {}}, "one message"},
		{"two messages to a read", methodVersion, [][]byte{nil, nil}, "one message"},
		{"no message", talosd.MethodApply, nil, "no message"},
		{"no message to a stream", methodEvents, nil, "no message"},
		{"an unknown field", talosd.MethodApply, [][]byte{join(good, field(99, protowire.VarintType, 1))}, "field"},
		{"a removed field", talosd.MethodApply, [][]byte{join(good, field(2, protowire.VarintType, 1))}, "field"},
		{"the text twice", talosd.MethodApply, [][]byte{join(dataField(text), good)}, "twice"},
		{"the mode twice", talosd.MethodApply, [][]byte{join(good, field(4, protowire.VarintType, 0))}, "twice"},
		{"a mode that does not exist", talosd.MethodApply, [][]byte{join(dataField(text), field(4, protowire.VarintType, 9))}, "mode 9"},
		{"a truncated message", talosd.MethodApply, [][]byte{good[:len(good)-3]}, ""},
		{"random bytes", talosd.MethodApply, [][]byte{{0xff, 0xfe, 0x00, 0x17, 0x80}}, ""},
		{"a group that does not end", talosd.MethodApply, [][]byte{field(1, protowire.StartGroupType)}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := c.call(bounded(t), row.method, to("w1"), row.messages...)
			if a.code() != codes.InvalidArgument || !strings.HasPrefix(a.text(), "REFUSED BW-REQUEST-00") || !strings.Contains(a.text(), row.words) {
				t.Errorf("got %v", a.err)
			}
			if n := h.count(t, "select count(*) from audit.entries where id::text = any ($1) and verdict = 'refuse'", a.decisions()); n != 1 {
				t.Errorf("%d entries", n)
			}
		})
	}
	h.untouched(t, "w1")
}

// An absent mode means REBOOT to Talos and is refused by name, as every mode but
// no-reboot is; nothing touches the node.
func TestOnlyModeNoRebootIsAppliedWith(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	c := h.as(t, "olga")
	text := labelled("one")
	for _, row := range []struct {
		name    string
		request []byte
	}{
		{"absent", dataField(text)},
		{"reboot, said", join(dataField(text), field(4, protowire.VarintType, 0))},
		{"auto", applyRequest(t, text, machine.ApplyConfigurationRequest_AUTO, false)},
		{"staged", applyRequest(t, text, machine.ApplyConfigurationRequest_STAGED, false)},
		{"try", applyRequest(t, text, machine.ApplyConfigurationRequest_TRY, false)},
		{"a dry run of try", applyRequest(t, text, machine.ApplyConfigurationRequest_TRY, true)},
		{"a dry run of staged", applyRequest(t, text, machine.ApplyConfigurationRequest_STAGED, true)},
	} {
		t.Run(row.name, func(t *testing.T) {
			refusedWith(t, c.apply(t, "w1", row.request), codes.PermissionDenied, "DENIED BW-MODE-")
		})
	}
	h.untouched(t, "w1")
}

// A caller who never sends its message, or never ends it, is not waited for without end.
func TestAHalfOpenCallIsEnded(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.gateway = func(c *Config) { c.ReceiveWithin = 100 * time.Millisecond } })
	c := h.as(t, "olga")
	for _, row := range []struct {
		name     string
		messages int
	}{{"no message", 0}, {"no end", 1}} {
		t.Run(row.name, func(t *testing.T) {
			s := must(c.open(bounded(t), talosd.MethodApply, to("w1")))(t)
			for range row.messages {
				ok(t, s.SendMsg(&message{bytes: noReboot(t, labelled("one"))}))
			}
			refusedWith(t, finishCall(s), codes.InvalidArgument, "BW-REQUEST-001")
		})
	}
	h.untouched(t, "w1")
}

// A half-open call ends with its caller, and leaves nothing behind.
func TestAHalfOpenCallEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	ctx, cancel := context.WithCancel(bounded(t))
	s := must(h.as(t, "olga").open(ctx, talosd.MethodApply, to("w1")))(t)
	eventually(t, "the call to be open", func() bool { return h.gw.sessions.count() == 1 })
	cancel()
	_ = finishCall(s)
	eventually(t, "the call to be over", func() bool { return h.gw.sessions.count() == 0 })
	h.untouched(t, "w1")
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

// Dry runs are sent like applies, without an attempt, and nothing lands.
func TestADryRunIsWrittenAndLandsNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	request := applyRequest(t, labelled("one"), machine.ApplyConfigurationRequest_NO_REBOOT, true)
	succeeded(t, h.as(t, "olga").apply(t, "w1", request))
	calls := h.nodes["w1"].Log().Of(talosd.MethodApply)
	if len(calls) != 1 || !bytes.Equal(calls[0].Requests[0].Bytes, request) || calls[0].Landed {
		t.Fatalf("the node was sent %d calls", len(calls))
	}
	if active, _ := h.nodes["w1"].Active(); !bytes.Equal(active, oracle.Base()) || len(h.attempts(t)) != 0 {
		t.Error("a dry run changed something")
	}
}
