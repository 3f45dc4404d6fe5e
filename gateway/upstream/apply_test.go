package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func TestApplySendsTheExactBytesOnce(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p, func(n *node) {
		n.apply = func(context.Context, *node, []byte) ([]byte, error) { return []byte("answer"), nil }
	})

	// No protobuf at all: nothing on the way may have an opinion.
	request := []byte{0xff, 0x00, 0xff, 0x7f, 'x'}
	a := openFor(t, p.pool(t), n.target()).Apply(ctxFor(t), request, []string{RoleAdmin}, "id", soon())

	if !a.Got || a.Code != codes.OK || string(a.Response) != "answer" || a.Err != nil {
		t.Fatalf("answer is %+v", a)
	}

	if got := n.sent(); len(got) != 1 || !bytes.Equal(got[0], request) {
		t.Fatalf("node got %x", got)
	}
}

func TestApplyGoesOutOncePerConnection(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p)
	c := openFor(t, p.pool(t), n.target())

	c.Apply(ctxFor(t), []byte("one"), []string{RoleAdmin}, "id", soon())

	if a := c.Apply(ctxFor(t), []byte("two"), []string{RoleAdmin}, "id", soon()); a.Got || !a.NotSent() {
		t.Fatalf("second apply is %+v", a)
	}

	if got := n.sent(); len(got) != 1 {
		t.Fatalf("node got %d requests", len(got))
	}
}

func TestTheNodesRefusalIsAnAnswer(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p, func(n *node) {
		n.apply = func(context.Context, *node, []byte) ([]byte, error) {
			return nil, status.Error(codes.InvalidArgument, "this config change can't be applied in immediate mode")
		}
	})

	a := openFor(t, p.pool(t), n.target()).Apply(ctxFor(t), []byte("x"), []string{RoleAdmin}, "id", soon())
	if !a.Got || a.Code != codes.InvalidArgument || !strings.HasPrefix(a.Message, "this config change") || a.Err != nil {
		t.Fatalf("answer is %+v", a)
	}
}

func TestTheNodeSeesOnlyMetadataBuiltFromNothing(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p)
	c := openFor(t, p.pool(t), n.target())

	// What a careless caller of Apply might leave in the context.
	ctx := metadata.AppendToOutgoingContext(ctxFor(t), "node", "10.0.0.9", "proxyfrom", "x", "authorization", "secret", "talos-role", "os:operator")
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("nodes", "10.0.0.9"))

	if _, err := c.Evidence(ctx); err != nil {
		t.Fatal(err)
	}

	c.Apply(ctx, []byte("x"), []string{RoleAdmin}, "decision-1", soon())

	transport := []string{":authority", "content-type", "user-agent", "grpc-accept-encoding"}
	roles := map[string][]string{}

	for _, call := range n.seen() {
		own := metadata.MD{}
		for k, v := range call.md {
			if !slices.Contains(transport, k) {
				own[k] = v
			}
		}

		roles[strings.Join(own["talos-role"], ",")] = append(roles[strings.Join(own["talos-role"], ",")], call.method)
		delete(own, "talos-role")

		want := metadata.MD{}
		if call.method == ApplyMethod {
			want = metadata.Pairs("bronzeward-decision", "decision-1")
		}

		if d := cmp.Diff(want, own); d != "" {
			t.Errorf("%s (-want +got):\n%s", call.method, d)
		}
	}

	if got := []int{len(roles), len(roles[RoleReader]), len(roles[RoleAdmin])}; !slices.Equal(got, []int{2, 6, 3}) {
		t.Errorf("calls by role are %v", roles)
	}
}

func TestSizesUpTo32MiBPassBothWays(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p, func(n *node) {
		n.apply = func(_ context.Context, _ *node, request []byte) ([]byte, error) { return request, nil }
	})
	pool := p.pool(t)

	for _, size := range []int{0, 4<<20 - 1, 4 << 20, 4<<20 + 1, 107 << 20 / 10, 32<<20 - 1, 32 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			request := bytes.Repeat([]byte{'a'}, size)

			a := openFor(t, pool, n.target()).Apply(ctxFor(t), request, []string{RoleAdmin}, "id", soon())
			if !a.Got || a.Code != codes.OK || !bytes.Equal(a.Response, request) {
				t.Fatalf("got %v, code %v, %d bytes, %v", a.Got, a.Code, len(a.Response), a.Err)
			}
		})
	}

	t.Run("a request over 32 MiB is not sent", func(t *testing.T) {
		before := len(n.sent())

		a := openFor(t, pool, n.target()).Apply(ctxFor(t), make([]byte, 32<<20+1), []string{RoleAdmin}, "id", soon())
		if !a.NotSent() || a.Code != codes.ResourceExhausted || len(n.sent()) != before {
			t.Fatalf("answer is %+v", a)
		}
	})

	t.Run("a response over 32 MiB is no answer", func(t *testing.T) {
		n.lock(func() {
			n.apply = func(context.Context, *node, []byte) ([]byte, error) { return make([]byte, 32<<20+1), nil }
		})

		a := openFor(t, pool, n.target()).Apply(ctxFor(t), []byte("x"), []string{RoleAdmin}, "id", soon())
		if a.Got || !a.Written {
			t.Fatalf("got %v, written %v, code %v", a.Got, a.Written, a.Code)
		}
	})
}

// replaying is how gRPC would be called without the guards: with its default buffer.
func replaying() []grpc.CallOption { return []grpc.CallOption{grpc.MaxRetryRPCBufferSize(256 << 10)} }

// onceOnly is replaying with the one-time credential alone.
func onceOnly() []grpc.CallOption { return append(replaying(), grpc.PerRPCCredentials(&onlyOnce{})) }

// unbuffered is the empty buffer alone.
func unbuffered() []grpc.CallOption { return []grpc.CallOption{grpc.MaxRetryRPCBufferSize(0)} }

func refuseStream(s *rawStream) { _ = s.WriteRSTStream(s.id, http2.ErrCodeRefusedStream) }

func goAway(s *rawStream) { _ = s.WriteGoAway(0, http2.ErrCodeNo, nil) }

func TestAnApplyIsNeverSentAgain(t *testing.T) {
	for _, row := range []struct {
		name     string
		bait     func(*rawStream)
		guards   func() []grpc.CallOption
		redial   bool // an ordinary dialer in the place of the one that dials once
		conns    int
		messages int
	}{
		{"refused stream", refuseStream, sendOnce, false, 1, 1},
		{"refused stream, one-time credential alone", refuseStream, onceOnly, false, 1, 1},
		{"refused stream, empty buffer alone", refuseStream, unbuffered, false, 1, 1},
		{"goaway that denies the stream", goAway, sendOnce, false, 1, 1},
		{"goaway that denies the stream, dialer alone", goAway, replaying, false, 1, 1},
		{"goaway that denies the stream, call guards alone", goAway, sendOnce, true, 1, 1},

		{"control: refused stream without guards is sent twice", refuseStream, replaying, false, 1, 2},
		{"control: goaway without guards is sent twice, over two connections", goAway, replaying, true, 2, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newPKI(t)
			n := startRaw(t, p, func(n *rawNode) { n.atEnd = row.bait })
			pool := p.pool(t)
			c := openLike(t, pool, n.target(), row.redial)
			c.guards = row.guards

			a := c.Apply(ctxFor(t), []byte("apply"), []string{RoleAdmin}, "id", soon())
			if a.Got || !a.Written {
				t.Errorf("answer is %+v", a)
			}

			must(t, pool.Close())

			if conns, _, messages := n.counts(); conns != row.conns || messages != row.messages {
				t.Errorf("node saw %d connections and %d whole requests, want %d and %d", conns, messages, row.conns, row.messages)
			}
		})
	}
}

// openLike opens a sending connection, with redial through a dialer that dials as often
// as gRPC asks.
func openLike(t *testing.T, p *Pool, target Target, redial bool) *SendingConn {
	t.Helper()

	if !redial {
		return openFor(t, p, target)
	}

	cred, err := p.credential(ctxFor(t), target.Cluster)
	must(t, err)

	dial := func(ctx context.Context) *nodeConn {
		nc, err := p.dial(ctx, target.Addresses, "", cred, dialSettings{abrupt: true, quiet: silence})
		must(t, err)

		return nc
	}

	first := dial(ctxFor(t))
	given := false

	c, err := p.attach(target, first, func(ctx context.Context, _ string) (net.Conn, error) {
		if !given {
			given = true

			return first, nil
		}

		return dial(ctx), nil
	})
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })

	return c
}

// lame makes the connection end gracefully before the apply begins.
func lame(s *rawStream) {
	if s.nth == 1 {
		_ = s.WriteGoAway(0, http2.ErrCodeNo, nil)
		_ = s.conn.Close()
	}
}

func TestAConnectionThatEndsBeforeTheApplyIsNotReplaced(t *testing.T) {
	for _, row := range []struct {
		name     string
		redial   bool
		messages int
	}{
		{"the dialer refuses", false, 0},
		{"control: an ordinary dialer carries the apply to a connection nobody read evidence from", true, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newPKI(t)
			n := startRaw(t, p, func(n *rawNode) {
				n.atStart = lame
				n.atEnd = func(s *rawStream) { s.headers(true, append(grpcOK, "grpc-status", "13", "grpc-message", "seen")...) }
			})
			pool := p.pool(t)
			c := openLike(t, pool, n.target(), row.redial)

			for s := c.conn.GetState(); c.alive() || s.String() == "IDLE" && !ended(n); s = c.conn.GetState() {
				if !c.conn.WaitForStateChange(ctxFor(t), s) {
					t.Fatal("the connection did not end")
				}
			}

			a := c.Apply(ctxFor(t), []byte("apply"), []string{RoleAdmin}, "id", soon())
			must(t, pool.Close())

			if _, _, messages := n.counts(); messages != row.messages {
				t.Errorf("node saw %d requests, want %d; answer %+v", messages, row.messages, a)
			}

			if !row.redial && !a.NotSent() {
				t.Errorf("answer is %+v", a)
			}
		})
	}
}

func ended(n *rawNode) bool { conns, _, _ := n.counts(); return conns > 0 }

func TestOnlyTrailersAreAnAnswer(t *testing.T) {
	for _, row := range []struct {
		name string
		act  func(*rawStream)
		got  bool
		code codes.Code
	}{
		{"status in trailers after a header", func(s *rawStream) {
			s.headers(false, grpcOK...)
			s.headers(true, "grpc-status", "9", "grpc-message", "no")
		}, true, codes.FailedPrecondition},
		{"status in trailers alone", func(s *rawStream) { s.headers(true, append(grpcOK, "grpc-status", "9", "grpc-message", "no")...) }, true, codes.FailedPrecondition},
		{"success with a message", func(s *rawStream) {
			s.headers(false, grpcOK...)
			s.message(2, []byte("ok"))
			s.headers(true, "grpc-status", "0")
		}, true, codes.OK},
		{"the node's own deadline", func(s *rawStream) {
			s.headers(true, append(grpcOK, "grpc-status", "4", "grpc-message", "node timed out")...)
		}, true, codes.DeadlineExceeded},

		{"success without a message", func(s *rawStream) { s.headers(true, append(grpcOK, "grpc-status", "0")...) }, false, codes.Internal},
		{"success with two messages", func(s *rawStream) {
			s.headers(false, grpcOK...)
			s.message(2, []byte("ok"))
			s.message(2, []byte("ok"))
			s.headers(true, "grpc-status", "0")
		}, false, codes.Internal},
		{"trailers without a status or a message", func(s *rawStream) {
			s.headers(false, grpcOK...)
			s.headers(true, "x", "y")
		}, false, codes.Unknown},
		{"a message, then trailers without a status", func(s *rawStream) {
			s.headers(false, grpcOK...)
			s.message(2, []byte("ok"))
			s.headers(true, "x", "y")
		}, false, codes.Unknown},
		{"half a message", func(s *rawStream) {
			s.headers(false, grpcOK...)
			s.message(200, []byte("ok"))
			s.headers(true, "grpc-status", "0")
		}, false, codes.Internal},
		{"too large a message, then an error", func(s *rawStream) {
			s.headers(false, grpcOK...)
			s.message(MaxMessage+1, []byte("ok"))
			s.headers(true, "grpc-status", "9", "grpc-message", "no")
		}, false, codes.ResourceExhausted},
		{"an HTTP error", func(s *rawStream) { s.headers(true, ":status", "503") }, false, codes.Unavailable},
		{"an HTTP page", func(s *rawStream) {
			s.headers(false, ":status", "200", "content-type", "text/html")
			_ = s.WriteData(s.id, true, []byte("<html>"))
		}, false, codes.Unknown},
		{"a malformed status", func(s *rawStream) { s.headers(true, append(grpcOK, "grpc-status", "zero")...) }, false, codes.Unknown},
		{"a reset stream", func(s *rawStream) { _ = s.WriteRSTStream(s.id, http2.ErrCodeInternal) }, false, codes.Internal},
		{"a canceled stream", func(s *rawStream) { _ = s.WriteRSTStream(s.id, http2.ErrCodeCancel) }, false, codes.Canceled},
		{"a header, then a reset connection", func(s *rawStream) { s.headers(false, grpcOK...); s.reset() }, false, codes.Unavailable},
		{"a reset connection", func(s *rawStream) { s.reset() }, false, codes.Unavailable},
		{"an orderly end of the connection", func(s *rawStream) { _ = s.conn.Close() }, false, codes.Unavailable},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newPKI(t)
			n := startRaw(t, p, func(n *rawNode) { n.atEnd = row.act })
			c := openFor(t, p.pool(t), n.target())

			a := c.Apply(ctxFor(t), []byte("apply"), []string{RoleAdmin}, "id", soon())
			if a.Got != row.got || a.Code != row.code {
				t.Errorf("got %v, code %v (%s), want %v, %v", a.Got, a.Code, a.Message, row.got, row.code)
			}

			if !a.Got && (!a.Written || a.Err == nil || a.Response != nil) {
				t.Errorf("a lost answer is %+v", a)
			}

			if c.alive() != row.got {
				t.Errorf("connection alive is %v", c.alive())
			}

			if _, streams, _ := n.counts(); streams != 1 {
				t.Errorf("node saw %d streams", streams)
			}
		})
	}
}

func TestAConnectionResetInTheMiddleOfTheRequestIsUnknown(t *testing.T) {
	p := newPKI(t)
	n := startRaw(t, p, func(n *rawNode) { n.atHeader = func(s *rawStream) { s.reset() } })

	a := openFor(t, p.pool(t), n.target()).Apply(ctxFor(t), make([]byte, 8<<20), []string{RoleAdmin}, "id", soon())
	if a.Got || !a.Written {
		t.Fatalf("answer is %+v", a)
	}

	if conns, streams, messages := n.counts(); conns != 1 || streams != 1 || messages != 0 {
		t.Fatalf("node saw %d connections, %d streams, %d requests", conns, streams, messages)
	}
}

func TestTheDeadlineEndsASendThatIsNotAnswered(t *testing.T) {
	p := newPKI(t)
	arrived, free := make(chan struct{}), make(chan struct{})
	n := startNode(t, p, func(n *node) {
		n.apply = func(ctx context.Context, _ *node, _ []byte) ([]byte, error) {
			close(arrived)
			<-free

			return nil, nil
		}
	})
	t.Cleanup(func() { close(free) })
	c := openFor(t, p.pool(t), n.target())

	// The client hangs up as soon as the node has the request; the send does not.
	ctx, hangUp := context.WithCancel(ctxFor(t))
	go func() { <-arrived; hangUp() }()

	deadline := time.Now().Add(time.Second)

	a := c.Apply(ctx, []byte("x"), []string{RoleAdmin}, "id", deadline)
	if time.Now().Before(deadline) {
		t.Error("the send ended with its client")
	}

	if a.Got || !a.Written || a.Code != codes.DeadlineExceeded || c.alive() {
		t.Errorf("answer is %+v, connection alive %v", a, c.alive())
	}
}

func TestNothingIsWrittenAfterTheDeadlineOrTheClose(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p)
	pool := p.pool(t)

	late := openFor(t, pool, n.target())
	if a := late.Apply(ctxFor(t), []byte("x"), nil, "id", time.Now().Add(-time.Second)); !a.NotSent() || a.Code != codes.DeadlineExceeded {
		t.Errorf("past deadline: %+v", a)
	}

	closed := openFor(t, pool, n.target())
	must(t, closed.Close())

	if a := closed.Apply(ctxFor(t), []byte("x"), nil, "id", soon()); !a.NotSent() {
		t.Errorf("closed: %+v", a)
	}

	if got := n.sent(); len(got) != 0 {
		t.Errorf("node got %d requests", len(got))
	}
}

func TestAnAttemptGRPCMakesByItselfIsNeverASuccess(t *testing.T) {
	good := report{begins: 1, queued: true, payloads: 1, trailers: true}
	if a := judgeAnswer(good, []byte("ok"), 1, nil, false); !a.Got {
		t.Fatalf("one clean attempt is %+v", a)
	}

	for name, edit := range map[string]func(*report){
		"two attempts":        func(r *report) { r.begins = 2 },
		"a transparent retry": func(r *report) { r.transparent = true },
		"two payloads":        func(r *report) { r.payloads = 2 },
		"no trailers":         func(r *report) { r.trailers = false },
	} {
		r := good
		edit(&r)

		if a := judgeAnswer(r, []byte("ok"), 1, nil, false); a.Got || a.Response != nil {
			t.Errorf("%s is %+v", name, a)
		}
	}
}

func TestAnAnswerOfAHopInsideTheMachineIsTold(t *testing.T) {
	for code, want := range map[codes.Code]bool{
		codes.OK: false, codes.InvalidArgument: false, codes.FailedPrecondition: false, codes.PermissionDenied: false,
		codes.Unavailable: true, codes.Canceled: true, codes.DeadlineExceeded: true,
	} {
		if got := (Answer{Got: true, Code: code}).Relayed(); got != want {
			t.Errorf("%v: %v", code, got)
		}
	}
}

func TestTheDialerGivesItsConnectionOnce(t *testing.T) {
	dial := dialOnce(&nodeConn{})

	if conn, err := dial(ctxFor(t), ""); conn == nil || err != nil {
		t.Fatalf("first dial: %v", err)
	}

	if conn, err := dial(ctxFor(t), ""); conn != nil || !errors.Is(err, ErrSecondDial) {
		t.Fatalf("second dial: %v", err)
	}
}
