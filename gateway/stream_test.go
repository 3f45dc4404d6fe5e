package gateway

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/api/common"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	"bronzeward/fixtures/talosd"
)

// A stream ends when the credential that opened it does, with the word for it, and ends at
// the node too.
func TestAStreamEndsWithItsProof(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	c := h.with(t, h.shortLived(t, "vera", 2*time.Second))
	s := must(c.openEvents(bounded(t), "w1"))(t)
	h.streams(t, "w1", 1)
	refusedWith(t, finishCall(s), codes.Unauthenticated, "BW-CREDENTIAL-004")
	h.streams(t, "w1", 0)
}

// What the caller cancels ends at the node.
func TestACancelledStreamEndsAtTheNode(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	ctx, cancel := context.WithCancel(bounded(t))
	s := must(h.as(t, "vera").openEvents(ctx, "w1"))(t)
	h.streams(t, "w1", 1)
	cancel()
	_ = finishCall(s)
	h.streams(t, "w1", 0)
	eventually(t, "the call to be over", func() bool { return h.gw.sessions.count() == 0 })
}

// What the node ends, ends with the node's own word, and its outcome is in the book.
func TestAStreamTheNodeEndsHasTheNodesStatus(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	ok(t, h.nodes["w1"].Fault(talosd.Fault{Kind: talosd.ErrorBefore, Method: methodEvents, Code: uint32(codes.OutOfRange), Message: "no such event"}))
	s := must(h.as(t, "vera").openEvents(bounded(t), "w1"))(t)
	a := finishCall(s)
	if a.code() != codes.OutOfRange || a.text() != "no such event" {
		t.Errorf("got %v", a.err)
	}
	eventually(t, "the outcome", func() bool {
		return h.count(t, "select count(*) from audit.outcomes where entry_id::text = any ($1) and code = 'OutOfRange'", a.decisions()) == 1
	})
}

// A call that the caller's deadline ends is over at the node too.
func TestTheCallersDeadlineEndsTheCallAtTheNode(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	ok(t, h.nodes["w1"].Fault(talosd.Fault{Kind: talosd.Pause, Method: methodVersion, Times: -1}))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	a := h.as(t, "vera").call(ctx, methodVersion, to("w1"), nil)
	if a.code() != codes.DeadlineExceeded {
		t.Fatalf("got %v", a.err)
	}
	ok(t, h.nodes["w1"].Log().Wait(bounded(t), func(calls []talosd.Call) bool {
		for _, c := range calls {
			// Its own deadline, or ours, whichever it saw first: the call is over.
			if c.Method == methodVersion && c.Done && c.Code != codes.OK.String() {
				return true
			}
		}
		return false
	}))
	h.nodes["w1"].Resume()
	// No deadline: none at the node either.
	succeeded(t, h.as(t, "vera").version(t, "w1"))
}

// An idle stream may be pinged as talosctl's tracker pings it; a client that pings without
// pause is told to go away. The gateway enforces a least time below talosctl's 10 s.
func TestPingsOfAnIdleStream(t *testing.T) {
	t.Parallel()
	if minPing >= 10*time.Second {
		t.Errorf("pings every 10 s are answered with GOAWAY: the least time is %s", minPing)
	}
	h := newHouse(t, nil)
	for _, row := range []struct {
		name  string
		pings int
		away  bool
	}{
		// gRPC counts a ping that comes too early as a strike, and goes away after two;
		// the first ping is never early.
		{"a few", 2, false},
		{"without pause", 12, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := h.goneAfter(t, row.pings); got != row.away {
				t.Errorf("the connection ended after %d pings: %t, want %t", row.pings, got, row.away)
			}
		})
	}
	// gRPC's own client with talosctl's settings keeps its stream.
	c := h.as(t, "vera", grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}))
	must(c.openEvents(bounded(t), "w1"))(t)
	h.streams(t, "w1", 1)
}

// goneAfter pings an open connection so often and says whether the gateway sent GOAWAY
// before it answered a last question.
func (h *house) goneAfter(t testing.TB, pings int) bool {
	t.Helper()
	conn := h.dialHTTP2(t, "vera")
	defer conn.Close()
	f := http2.NewFramer(conn, conn)
	ok(t, f.WriteSettings())
	for i := range pings {
		if err := f.WritePing(false, [8]byte{byte(i)}); err != nil {
			return true
		}
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return true
		}
		switch frame := frame.(type) {
		case *http2.GoAwayFrame:
			return frame.ErrCode == http2.ErrCodeEnhanceYourCalm
		case *http2.PingFrame:
			if frame.IsAck() && frame.Data[0] == byte(pings-1) {
				return false
			}
		}
	}
}

// Streams through the gateway lose nothing and keep their order at full rate.
func TestAStreamArrivesWholeAndInOrder(t *testing.T) {
	t.Parallel()
	const logs = "/machine.MachineService/Logs"
	h := newHouse(t, nil)
	for i := range 2000 {
		h.nodes["w1"].AppendLog("cri", "line "+itoa(i))
	}
	request := must(proto.Marshal(&machine.LogsRequest{Id: "cri", TailLines: -1}))(t)
	a := succeeded(t, h.as(t, "vera").call(bounded(t), logs, to("w1"), request))
	var all []byte
	for _, m := range a.messages {
		var d common.Data
		ok(t, proto.Unmarshal(m, &d))
		all = append(all, d.GetBytes()...)
	}
	var want []byte
	for i := range 2000 {
		want = append(want, "line "+itoa(i)+"\n"...)
	}
	if !bytes.HasSuffix(all, want) {
		t.Errorf("%d bytes in %d messages arrived, and do not end with the %d written", len(all), len(a.messages), len(want))
	}
}
