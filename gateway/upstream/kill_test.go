package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
)

// senderEnv makes the test binary a sender that is killed: "address directory abrupt".
const senderEnv = "BRONZEWARD_UPSTREAM_SENDER"

// inKernel is how many bytes the sender must have handed to its kernel before it is
// killed; the receiver's buffer holds far less, so the rest sits on the sender's side.
const inKernel = 1 << 20

// senderMain applies 16 MiB to a node that does not read, says how far it got, and
// waits for its end.
func senderMain() {
	args := strings.Fields(os.Getenv(senderEnv))
	dir := args[1]
	source := &FileCredential{Cert: filepath.Join(dir, "crt"), Key: filepath.Join(dir, "key"), CA: filepath.Join(dir, "ca")}

	fail := func(err error) {
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}

	pool, err := NewPool(Config{Credential: source})
	fail(err)

	ctx := context.Background()
	target := Target{Addresses: []netip.AddrPort{netip.MustParseAddrPort(args[0])}}

	var c *SendingConn

	if args[2] == "true" {
		c, err = pool.Open(ctx, target)
	} else {
		c, err = openOrdinary(ctx, pool, target)
	}

	fail(err)

	node := c.node

	go c.Apply(ctx, make([]byte, 16<<20), []string{RoleAdmin}, "id", time.Now().Add(time.Minute))

	for node.wire.handed.Load() < inKernel {
		time.Sleep(time.Millisecond)
	}

	fmt.Println("handed", node.wire.handed.Load())
	select {}
}

// openOrdinary is Open with a socket that lingers like any other.
func openOrdinary(ctx context.Context, p *Pool, target Target) (*SendingConn, error) {
	cred, err := p.credential(ctx, target.Cluster)
	if err != nil {
		return nil, err
	}

	node, err := p.dial(ctx, target.Addresses, "", cred, dialSettings{quiet: silence})
	if err != nil {
		return nil, err
	}

	// Setting TCP_USER_TIMEOUT again would set linger too.
	node.wire.Conn = struct{ net.Conn }{node.wire.Conn}

	return p.attach(target, node, dialOnce(node))
}

// gated is a connection whose reads are counted.
type gated struct {
	net.Conn
	n atomic.Int64
}

func (g *gated) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	g.n.Add(int64(n))

	return n, err
}

func TestAKilledSendersKernelDropsWhatItHasNotDelivered(t *testing.T) {
	for _, row := range []struct {
		name    string
		abrupt  bool
		dropped bool
	}{
		{"linger zero from birth", true, true},
		{"control: an ordinary socket delivers after the death", false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newPKI(t)
			dir := t.TempDir()
			writeCredential(t, p, dir)

			l := narrowListener(t)

			self, err := os.Executable()
			must(t, err)

			cmd := exec.CommandContext(ctxFor(t), self)
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %v", senderEnv, l.Addr(), dir, row.abrupt))
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())

			raw, err := l.Accept()
			must(t, err)
			defer raw.Close()

			g := &gated{Conn: raw}
			receive(t, p, g)

			// From here on nobody reads until the sender is dead.
			line, err := bufio.NewReader(out).ReadString('\n')
			must(t, err)

			handed, err := strconv.ParseInt(strings.TrimSpace(strings.TrimPrefix(line, "handed ")), 10, 64)
			if err != nil || handed < inKernel {
				t.Fatalf("sender says %q", line)
			}

			must(t, cmd.Process.Kill())
			_ = cmd.Wait()

			_, err = io.Copy(io.Discard, struct{ io.Reader }{g})
			got := g.n.Load()

			checkDropped(t, row.dropped, handed, got, err)
		})
	}
}

// checkDropped compares what the sender gave to its kernel with what the node got. The
// last write may have been counted and not have happened; it is smaller than slack.
func checkDropped(t *testing.T, dropped bool, handed, got int64, end error) {
	t.Helper()

	const slack = 64 << 10

	t.Logf("handed %d bytes to the kernel, the node got %d, the end was: %v", handed, got, end)

	if dropped && (!errors.Is(end, syscall.ECONNRESET) || handed-got < 4*slack) {
		t.Error("the kernel delivered what it should have dropped")
	}

	if !dropped && (end != nil || handed-got > slack) {
		t.Error("an ordinary socket dropped bytes: the control shows nothing")
	}
}

// receive does a node's side until the header of the apply is there.
func receive(t *testing.T, p *pki, g *gated) {
	t.Helper()

	conn := tls.Server(g, &tls.Config{
		Certificates: []tls.Certificate{p.server(t, nil, "127.0.0.1")}, MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: p.ca.Pool(), NextProtos: []string{"h2"},
	})
	_, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface)))
	must(t, err)

	const wide = 1<<31 - 1

	f := http2.NewFramer(conn, conn)
	must(t, f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: wide}))
	must(t, f.WriteWindowUpdate(0, wide-65535))

	for {
		frame, err := f.ReadFrame()
		must(t, err)

		if _, ok := frame.(*http2.HeadersFrame); ok {
			return
		}
	}
}

func writeCredential(t *testing.T, p *pki, dir string) {
	t.Helper()

	der, err := x509.MarshalPKCS8PrivateKey(p.client.PrivateKey)
	must(t, err)

	for name, b := range map[string][]byte{
		"crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.client.Certificate[0]}),
		"key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		"ca":  p.ca.Cert,
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
}

func TestTheResetAtTheDeadlineDropsWhatIsNotDelivered(t *testing.T) {
	for _, row := range []struct {
		name    string
		abrupt  bool
		dropped bool
	}{
		{"linger zero", true, true},
		{"control: an ordinary socket delivers after the deadline", false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newPKI(t)
			pool := p.pool(t)
			l := narrowListener(t)
			target := Target{Addresses: []netip.AddrPort{netip.MustParseAddrPort(l.Addr().String())}}

			accepted := make(chan *gated, 1)
			go func() {
				raw, err := l.Accept()
				if err != nil {
					close(accepted)

					return
				}

				g := &gated{Conn: raw}
				receive(t, p, g)
				accepted <- g
			}()

			open := pool.Open
			if !row.abrupt {
				open = func(ctx context.Context, target Target) (*SendingConn, error) { return openOrdinary(ctx, pool, target) }
			}

			c, err := open(ctxFor(t), target)
			must(t, err)
			defer c.Close()

			a := c.Apply(ctxFor(t), make([]byte, 16<<20), []string{RoleAdmin}, "id", time.Now().Add(time.Second))
			if a.Got || !a.Written || a.Code != codes.DeadlineExceeded {
				t.Errorf("answer is %+v", a)
			}

			g := <-accepted
			defer g.Close()

			handed := c.node.wire.handed.Load()
			_, err = io.Copy(io.Discard, struct{ io.Reader }{g})
			got := g.n.Load()

			checkDropped(t, row.dropped, handed, got, err)
		})
	}
}

// narrowListener accepts with a small receive buffer, so that what a node does not read
// stays with its sender.
func narrowListener(t *testing.T) net.Listener {
	t.Helper()

	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 16<<10)
		})
	}}
	l, err := lc.Listen(ctxFor(t), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })

	return l
}
