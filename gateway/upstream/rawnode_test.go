package upstream

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// rawNode speaks HTTP/2 by hand, to do what a gRPC server never does. It answers a
// stream by its act, once the whole request is there, or at its header.
type rawNode struct {
	addr netip.AddrPort

	atHeader, atEnd func(s *rawStream)
	atStart         func(s *rawStream) // once per connection, stream id zero

	mu       sync.Mutex
	conns    int
	streams  []uint32 // guarded by mu; ids, all connections
	messages int      // guarded by mu; streams whose whole request arrived
}

type rawStream struct {
	*http2.Framer
	id   uint32
	conn *tls.Conn
	raw  net.Conn
	nth  int // of the connection
}

func startRaw(t testing.TB, p *pki, edit func(*rawNode)) *rawNode {
	t.Helper()

	n := &rawNode{}
	edit(n)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	n.addr = netip.MustParseAddrPort(l.Addr().String())

	cfg := &tls.Config{
		Certificates: []tls.Certificate{p.server(t, nil, "127.0.0.1")}, MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: p.ca.Pool(), NextProtos: []string{"h2"},
	}

	var (
		wg    sync.WaitGroup
		conns sync.Map
	)

	wg.Go(func() {
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}

			conns.Store(raw, nil)
			wg.Go(func() { defer raw.Close(); n.serve(tls.Server(raw, cfg), raw) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		conns.Range(func(c, _ any) bool { _ = c.(net.Conn).Close(); return true })
		wg.Wait()
	})

	return n
}

func (n *rawNode) serve(conn *tls.Conn, raw net.Conn) {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return
	}

	n.mu.Lock()
	n.conns++
	nth := n.conns
	n.mu.Unlock()

	f := http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	at := func(id uint32) *rawStream { return &rawStream{Framer: f, id: id, conn: conn, raw: raw, nth: nth} }

	const wide = 1<<31 - 1

	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: wide})
	_ = f.WriteWindowUpdate(0, wide-65535)

	if n.atStart != nil {
		n.atStart(at(0))
	}

	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}

		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = f.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				_ = f.WritePing(true, frame.Data)
			}
		case *http2.MetaHeadersFrame:
			n.mu.Lock()
			n.streams = append(n.streams, frame.StreamID)
			n.mu.Unlock()

			if n.atHeader != nil {
				n.atHeader(at(frame.StreamID))
			}
		case *http2.DataFrame:
			if frame.StreamEnded() {
				n.mu.Lock()
				n.messages++
				n.mu.Unlock()

				if n.atEnd != nil {
					n.atEnd(at(frame.StreamID))
				}
			}
		}
	}
}

func (n *rawNode) counts() (conns, streams, messages int) {
	n.mu.Lock()
	defer n.mu.Unlock()

	return n.conns, len(n.streams), n.messages
}

func (n *rawNode) target() Target { return Target{Addresses: []netip.AddrPort{n.addr}} }

// headers writes a HEADERS frame from name, value pairs.
func (s *rawStream) headers(end bool, pairs ...string) {
	var b bytes.Buffer

	enc := hpack.NewEncoder(&b)
	for i := 0; i < len(pairs); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}

	_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: b.Bytes(), EndHeaders: true, EndStream: end})
}

// message writes one gRPC message.
func (s *rawStream) message(length uint32, body []byte) {
	head := []byte{0, byte(length >> 24), byte(length >> 16), byte(length >> 8), byte(length)}
	_ = s.WriteData(s.id, false, append(head, body...))
}

var grpcOK = []string{":status", "200", "content-type", "application/grpc"}

// reset breaks the connection without a farewell.
func (s *rawStream) reset() {
	var tcp *net.TCPConn
	if c, ok := s.raw.(*net.TCPConn); ok {
		tcp = c
	}

	if tcp == nil {
		panic(errors.New("not a TCP connection"))
	}

	_ = tcp.SetLinger(0)
	_ = tcp.Close()
}
