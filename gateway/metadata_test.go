package gateway

import (
	"crypto/tls"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"bronzeward/fixtures/talosd"
)

// I9: the node is sent the role and the decision's id, built from nothing. What the caller
// sends never arrives, whatever it is called.
func TestTheNodeSeesOnlyOurOwnMetadata(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	c := h.as(t, "olga")
	hostile := func(machine string) metadata.MD {
		return metadata.Join(to(machine), metadata.Pairs(
			"talos-role", "os:admin", "talos-role", "os:impersonator", "proxyfrom", "10.0.0.1", "x-forwarded-for", "10.0.0.1",
			"bronzeward-decision", "00000000-0000-7000-8000-000000000000", "grpc-previous-rpc-attempts", "3",
			"x-secret-bin", "\x00\x01", "forwarded", "for=1",
		))
	}
	standard := []string{":authority", "content-type", "user-agent", "grpc-accept-encoding"}
	for _, row := range []struct {
		method, role string
		request      []byte
	}{
		{methodVersion, "os:reader", nil},
		{talosd.MethodApply, "os:admin", noReboot(t, labelled("one"))},
	} {
		a := succeeded(t, c.call(bounded(t), row.method, hostile("w1"), row.request))
		calls := slices.DeleteFunc(h.nodes["w1"].Log().Of(row.method), func(c talosd.Call) bool {
			return !slices.Equal(c.Metadata["bronzeward-decision"], a.decisions())
		})
		if len(calls) != 1 {
			t.Fatalf("%d calls of %s carry the decision's id", len(calls), row.method)
		}
		seen := maps.Clone(calls[0].Metadata)
		if !slices.Equal(seen["talos-role"], []string{row.role}) {
			t.Errorf("%s went out as %v", row.method, seen["talos-role"])
		}
		for _, k := range append(standard, "talos-role", "bronzeward-decision") {
			delete(seen, k)
		}
		if len(seen) != 0 {
			t.Errorf("%s went out with %v besides", row.method, seen)
		}
	}
}

// dialHTTP2 opens a connection and says the preface; the caller sends SETTINGS.
func (h *house) dialHTTP2(t testing.TB, person string) *tls.Conn {
	t.Helper()
	conn := must(tls.Dial("tcp", h.endpoint, &tls.Config{
		RootCAs: sharedPKI(t).server.Pool(), ServerName: "127.0.0.1", NextProtos: []string{"h2"},
		Certificates: []tls.Certificate{sharedPKI(t).person(t, person)},
	}))(t)
	must(conn.Write([]byte(http2.ClientPreface)))(t)
	return conn
}

// rawCall opens a connection that no gRPC client would, and sends one call with headers as
// they are given. It returns the answer's headers.
func (h *house) rawCall(t testing.TB, person string, headers [][2]string) {
	t.Helper()
	conn := h.dialHTTP2(t, person)
	defer conn.Close()
	f := http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	ok(t, f.WriteSettings())
	var block strings.Builder
	enc := hpack.NewEncoder(&block)
	for _, p := range append([][2]string{
		{":method", "POST"},
		{":scheme", "https"},
		{":path", methodVersion},
		{":authority", "gateway"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	}, headers...) {
		ok(t, enc.WriteField(hpack.HeaderField{Name: p[0], Value: p[1]}))
	}
	rest, first := block.String(), true
	for len(rest) > 0 || first {
		part := rest[:min(len(rest), 16000)]
		rest = rest[len(part):]
		if first {
			ok(t, f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(part), EndHeaders: rest == ""}))
		} else {
			ok(t, f.WriteContinuation(1, rest == "", []byte(part)))
		}
		first = false
	}
	_ = f.WriteData(1, true, make([]byte, 5))
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			if frame.StreamEnded() {
				return
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return
		}
	}
}

// Headers that no client should send fail their own call at most: the neighbours in the
// same group commit are answered, and the book takes what was sent.
func TestOddHeadersFailNobodyElse(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	good := h.as(t, "vera")
	for _, row := range []struct {
		name    string
		headers [][2]string
	}{
		{"a NUL in the target", [][2]string{{"node", "w1\x00"}}},
		{"bad UTF-8 in the target", [][2]string{{"node", "w1\xff\xfe"}}},
		{"bad UTF-8 in the cluster", [][2]string{{"node", "w1"}, {"context", "lab\xc3\x28"}}},
		{"a NUL in the cluster", [][2]string{{"node", "w1"}, {"context", "lab\x00"}}},
		{"bad UTF-8 in the token", [][2]string{{"node", "w1"}, {"authorization", "Bearer \xff\xff\xff"}}},
		{"bad UTF-8 in the method", [][2]string{{"node", "w1"}, {":path", "/machine.MachineService/\xff"}}},
		{"64 KiB of metadata", [][2]string{{"node", "w1"}, {"x-long", strings.Repeat("a", 64<<10)}}},
		{"60 KiB of targets", [][2]string{{"nodes", strings.Repeat("w1,", 20<<10)}}},
		{"a header in capitals", [][2]string{{"Node", "w1"}}},
		{"a new line", [][2]string{{"node", "w1\r\nx: y"}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			neighbours := make(chan answer, 4)
			for range cap(neighbours) {
				go func() { neighbours <- good.call(bounded(t), methodVersion, to("w1"), nil) }()
			}
			h.rawCall(t, "olga", row.headers)
			for range cap(neighbours) {
				if a := <-neighbours; a.err != nil {
					t.Errorf("a neighbour got %v", a.err)
				}
			}
		})
	}
	// The same junk through a gRPC client, where it is refused by name.
	a := h.as(t, "olga").call(bounded(t), methodVersion, metadata.Pairs("node", "w1; rm -rf"), nil)
	refusedWith(t, a, codes.PermissionDenied, "BW-TARGET-001")
	if n := len(h.nodes["w1"].Log().Of(methodVersion)); n < 4 {
		t.Errorf("the node was sent %d calls", n)
	}
}
