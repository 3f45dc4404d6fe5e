package gateway

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/pires/go-proxyproto"
)

// header makes a header of version 2 by the library, which is what no balancer uses: the
// fuzz test holds it against the specification's own offsets.
func header(t testing.TB, client string, tlvs ...proxyproto.TLV) []byte {
	t.Helper()
	to := &net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 50000}
	from := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(client))
	if from.IP.To4() == nil {
		to.IP = net.ParseIP("2001:db8::1")
	}
	h := proxyproto.HeaderProxyFromAddrs(2, from, to)
	ok(t, h.SetTLVs(tlvs))
	return must(h.Format())(t)
}

// edited is a header with one byte replaced.
func edited(h []byte, at int, b byte) []byte {
	out := bytes.Clone(h)
	out[at] = b
	return out
}

// localHeader is what a balancer sends ahead of its own health check.
var localHeader = append(bytes.Clone(proxyproto.SIGV2), 0x20, 0x00, 0x00, 0x00)

// What a header must be, and what it is called otherwise. The byte after it is never taken.
func TestAHeaderIsOfVersion2AndNamesAClient(t *testing.T) {
	good := header(t, "198.51.100.7:4711")
	for _, row := range []struct {
		name   string
		bytes  []byte
		result headerResult
		client string
	}{
		{"an IPv4 client", good, headerTaken, "198.51.100.7:4711"},
		{"an IPv6 client", header(t, "[2001:db8::7]:4711"), headerTaken, "[2001:db8::7]:4711"},
		{"with more than addresses", header(t, "198.51.100.7:4711", proxyproto.TLV{Type: proxyproto.PP2_TYPE_AUTHORITY, Value: []byte(strings.Repeat("n", 900))}), headerTaken, "198.51.100.7:4711"},
		{"a health check", localHeader, headerLocal, ""},
		{"a health check with addresses", edited(good, 12, 0x20), headerLocal, ""},

		{"nothing", nil, headerMissing, ""},
		{"TLS", []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so on"), headerMissing, ""},
		{"HTTP", []byte("GET / HTTP/1.1\r\n\r\n"), headerMissing, ""},
		{"an empty line", []byte("\r\n\r\n and more than that\r\n"), headerMissing, ""},
		{"version 1", []byte("PROXY TCP4 198.51.100.7 192.0.2.1 4711 50000\r\n"), headerVersion1, ""},
		{"version 1 of nobody", []byte("PROXY UNKNOWN\r\n"), headerVersion1, ""},
		{"half a signature", good[:7], headerMalformed, ""},
		{"no length", good[:14], headerMalformed, ""},
		{"half an address", good[:20], headerMalformed, ""},
		{"version 3", edited(good, 12, 0x31), headerMalformed, ""},
		{"another command", edited(good, 12, 0x22), headerMalformed, ""},
		{"UDP", edited(good, 13, 0x12), headerMalformed, ""},
		{"a family there is not", edited(good, 13, 0x41), headerMalformed, ""},
		{"no family", append(bytes.Clone(proxyproto.SIGV2), 0x21, 0x00, 0x00, 0x00), headerMalformed, ""},
		{"a Unix socket", append(append(bytes.Clone(proxyproto.SIGV2), 0x21, 0x31, 0x00, 216), make([]byte, 216)...), headerMalformed, ""},
		{"too short for its family", append(append(bytes.Clone(proxyproto.SIGV2), 0x21, 0x11, 0x00, 8), make([]byte, 8)...), headerMalformed, ""},
		{"nobody's address", header(t, "0.0.0.0:4711"), headerMalformed, ""},
		{"everybody's address", header(t, "224.0.0.1:4711"), headerMalformed, ""},
		{"longer than any", append(edited(good, 14, 0xff), make([]byte, 0xff0c)...), headerMalformed, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			rest := "x"
			if !row.result.good() {
				rest = "" // the stream ends where the row does
			}
			r := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(row.bytes), strings.NewReader(rest)), maxHeader)
			client, result := readHeader(r)
			if result != row.result {
				t.Fatalf("it is %q, want %q", result, row.result)
			}
			if (client == nil) != (row.client == "") || client != nil && client.String() != row.client {
				t.Errorf("the client is %v, want %q", client, row.client)
			}
			if after, err := io.ReadAll(r); result.good() && (err != nil || string(after) != rest) {
				t.Errorf("after the header come %q (%v), want %q", after, err, rest)
			}
		})
	}
}

// FuzzHeader reads foreign bytes and holds what was taken against the specification: fixed
// offsets, nothing of the library. What comes after a header is never touched.
func FuzzHeader(f *testing.F) {
	for _, client := range []string{"198.51.100.7:4711", "[2001:db8::7]:1", "[::ffff:198.51.100.7]:0"} {
		f.Add(append(header(f, client), "\x16\x03\x01 and so on"...))
	}
	f.Add(localHeader)
	f.Add([]byte("PROXY TCP4 198.51.100.7 192.0.2.1 4711 50000\r\n"))
	f.Add(append(append([]byte{}, localHeader[:14]...), 0x0f, 0xf0))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bufio.NewReaderSize(bytes.NewReader(in), maxHeader)
		client, result := readHeader(r)
		if (client != nil) != (result == headerTaken) {
			t.Fatalf("%q with the client %v", result, client)
		}
		if !result.good() {
			return
		}
		if !bytes.HasPrefix(in, []byte("\r\n\r\n\x00\r\nQUIT\n")) || in[12]>>4 != 2 {
			t.Fatalf("a header of version 2 was taken from %x", in)
		}
		whole := 16 + int(binary.BigEndian.Uint16(in[14:16]))
		if rest, err := io.ReadAll(r); err != nil || !bytes.Equal(rest, in[whole:]) {
			t.Fatalf("after %d bytes of header come %x (%v)", whole, rest, err)
		}
		switch in[12] & 0xf {
		case 0:
			if result != headerLocal {
				t.Fatalf("a health check is %q", result)
			}
		case 1:
			want := netip.AddrPortFrom(netip.AddrFrom4([4]byte(in[16:20])), binary.BigEndian.Uint16(in[24:26]))
			if in[13] == 0x21 {
				want = netip.AddrPortFrom(netip.AddrFrom16([16]byte(in[16:32])).Unmap(), binary.BigEndian.Uint16(in[48:50]))
			}
			if got := client.(*net.TCPAddr).AddrPort(); got != want || in[13] != 0x11 && in[13] != 0x21 {
				t.Fatalf("the client is %s, the bytes say %s", got, want)
			}
		default:
			t.Fatalf("command %x is %q", in[12], result)
		}
	})
}
