package gateway

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
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
