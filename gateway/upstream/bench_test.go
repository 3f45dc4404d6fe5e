package upstream

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// benchNode is a node with a worker's configuration of usual size whose apply takes
// no time, so that what is measured is the way there.
func benchNode(b *testing.B) (*Pool, *node, []byte) {
	b.Helper()

	p := newPKI(b)
	text := strings.Repeat("# a line of a usual configuration\n", 100)
	n := startNode(b, p, func(n *node) {
		n.setText(text)
		n.apply = func(_ context.Context, n *node, _ []byte) ([]byte, error) {
			n.lock(func() { n.requests, n.calls = nil, nil })

			return nil, nil
		}
	})

	return p.pool(b), n, []byte(text)
}

// BenchmarkPlainApply is an apply over a connection that is up: what talosctl would pay
// without a gateway, its own handshake left out.
func BenchmarkPlainApply(b *testing.B) {
	pool, n, text := benchNode(b)
	conn, err := pool.Conn(context.Background(), n.target())
	must(b, err)

	ctx := metadata.NewOutgoingContext(context.Background(), OutgoingMetadata([]string{RoleAdmin}, "id"))

	for b.Loop() {
		var out []byte

		must(b, conn.Invoke(ctx, ApplyMethod, &text, &out, grpc.ForceCodecV2(rawCodec{})))
	}
}

// BenchmarkConnectAndApply adds a connection of its own to the plain apply.
func BenchmarkConnectAndApply(b *testing.B) {
	pool, n, text := benchNode(b)

	for b.Loop() {
		c, err := pool.Open(context.Background(), n.target())
		must(b, err)
		sendFor(b, c, text)
		must(b, c.Close())
	}
}

// BenchmarkWay is the whole Talos side of one apply: a connection of its own, evidence,
// apply, read-back.
func BenchmarkWay(b *testing.B) {
	pool, n, text := benchNode(b)

	for b.Loop() {
		wayFor(b, pool, n, text)
	}
}

// BenchmarkWayPrepared is the same over a connection made beforehand, the making of
// which is not measured.
func BenchmarkWayPrepared(b *testing.B) {
	pool, n, text := benchNode(b)

	for b.Loop() {
		b.StopTimer()
		must(b, pool.Prepare(context.Background(), n.target()))
		b.StartTimer()
		wayFor(b, pool, n, text)
	}
}

// BenchmarkEvidence is one reading over a connection that is up.
func BenchmarkEvidence(b *testing.B) {
	pool, n, _ := benchNode(b)

	for b.Loop() {
		_, err := pool.Observe(context.Background(), n.target())
		must(b, err)
		n.lock(func() { n.calls = nil })
	}
}

func wayFor(b *testing.B, pool *Pool, n *node, text []byte) {
	b.Helper()

	c, err := pool.Open(context.Background(), n.target())
	must(b, err)
	before, err := c.Evidence(context.Background())
	must(b, err)
	sendFor(b, c, text)

	r := c.ReadBack(context.Background(), ReadBackConfig{Before: before, Want: wants(string(text)), Once: true})
	if !r.Matched {
		b.Fatalf("read back %+v", r)
	}

	must(b, c.Close())
}

func sendFor(b *testing.B, c *SendingConn, text []byte) {
	b.Helper()

	if a := c.Apply(context.Background(), text, []string{RoleAdmin}, "id", soon()); !a.Got {
		b.Fatalf("answer is %+v", a)
	}
}
