package gateway

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/pires/go-proxyproto"
	"golang.org/x/time/rate"
)

// maxHeader is the longest header that is read, in bytes. Addresses take 52, what balancers
// add of their own (a name, an id, a certificate's subject) some hundreds.
const maxHeader = 4 << 10

// headerResult is what became of one connection of a listed source.
type headerResult string

const (
	headerTaken     headerResult = "taken"     // the client's address is known
	headerLocal     headerResult = "local"     // the balancer speaks for itself: a health check
	headerMissing   headerResult = "missing"   // something else came, or nothing
	headerVersion1  headerResult = "version-1" // the old, textual form
	headerMalformed headerResult = "malformed" // it begins like one and is none that names a client
	headerLate      headerResult = "late"      // it did not come in time
	headerTooMany   headerResult = "too-many"  // the balancer has too many without their header
)

func (r headerResult) good() bool { return r == headerTaken || r == headerLocal }

// headerFixed is the length of the part that all headers have: twelve bytes of signature,
// version and command, family, and the length of the rest.
const headerFixed = 16

// readHeader takes one PROXY protocol header of version 2 off r, whose buffer holds maxHeader.
// The address is nil unless the result is headerTaken. Whatever the result, nothing after the
// header is taken.
func readHeader(r *bufio.Reader) (net.Addr, headerResult) {
	head, err := r.Peek(headerFixed)
	signature := head[:min(len(head), len(proxyproto.SIGV2))]
	switch {
	case bytes.HasPrefix(head, proxyproto.SIGV1):
		return nil, headerVersion1
	case len(head) == 0 || !bytes.HasPrefix(proxyproto.SIGV2, signature):
		return nil, lateOr(err, headerMissing)
	case err != nil:
		return nil, lateOr(err, headerMalformed)
	}
	whole := headerFixed + int(binary.BigEndian.Uint16(head[headerFixed-2:]))
	if whole > maxHeader {
		return nil, headerMalformed
	}
	if _, err := r.Peek(whole); err != nil {
		return nil, lateOr(err, headerMalformed)
	}
	h, err := proxyproto.Read(r) // all of it is in the buffer: this waits for nothing
	switch {
	case err != nil:
		return nil, headerMalformed
	case h.Command.IsLocal():
		return nil, headerLocal
	}
	source, _, ok := h.TCPAddrs()
	if !ok {
		return nil, headerMalformed
	}
	at := source.AddrPort()
	client := at.Addr().Unmap()
	if !client.IsValid() || client.IsUnspecified() || client.IsMulticast() {
		return nil, headerMalformed
	}
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(client, at.Port())), headerTaken
}

// lateOr tells a deadline from everything else that ends a read.
func lateOr(err error, otherwise headerResult) headerResult {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return headerLate
	}
	return otherwise
}

// behind puts the balancers, if there are any, below a listener's limits.
func (g *Gateway) behind(l net.Listener) net.Listener {
	if len(g.proxySources) == 0 {
		return l
	}
	// A balancer that is set up wrongly does this with every connection it makes.
	seldom := &rate.Sometimes{Interval: time.Second}
	return newBalancers(l, inAny(g.proxySources), func(from netip.Addr, result headerResult) {
		g.metrics.headers.WithLabelValues(string(result)).Inc()
		if result.good() {
			return
		}
		seldom.Do(func() {
			g.log.Warn("a load balancer's connection was closed", slog.String("from", from.String()), slog.String("header", string(result)))
		})
	})
}

// inAny says whether an address is in one of the prefixes.
func inAny(prefixes []netip.Prefix) func(netip.Addr) bool {
	return func(a netip.Addr) bool {
		return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
	}
}
