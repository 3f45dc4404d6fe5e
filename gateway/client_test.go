package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"bronzeward/fixtures/gatewaypki"
	"bronzeward/fixtures/idp"
	"bronzeward/fixtures/talosd"
)

func itoa(n int) string { return strconv.Itoa(n) }

const (
	methodVersion = "/machine.MachineService/Version"
	methodEvents  = "/machine.MachineService/Events"
	methodGet     = "/cosi.resource.State/Get"
)

// client is a person's connection to the gateway. It sends raw bytes, so that a test
// says what is on the wire.
type client struct {
	conn *grpc.ClientConn
}

// as connects as a person, with their certificate.
func (h *house) as(t testing.TB, person string, options ...grpc.DialOption) *client {
	t.Helper()
	return h.with(t, &tls.Config{Certificates: []tls.Certificate{sharedPKI(t).person(t, person)}}, options...)
}

// with connects with a TLS configuration of the test's own.
func (h *house) with(t testing.TB, conf *tls.Config, options ...grpc.DialOption) *client {
	t.Helper()
	conf.RootCAs, conf.ServerName = sharedPKI(t).server.Pool(), "127.0.0.1"
	conn := must(grpc.NewClient("passthrough:///"+h.endpoint, append([]grpc.DialOption{
		grpc.WithTransportCredentials(credentials.NewTLS(conf)), grpc.WithNoProxy(), h.listening(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)),
	}, options...)...))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return &client{conn: conn}
}

// answer is what came of one call.
type answer struct {
	messages [][]byte
	trailer  metadata.MD
	err      error
}

func (a answer) code() codes.Code { return status.Code(a.err) }

// text is the status's words.
func (a answer) text() string { return status.Convert(a.err).Message() }

// decisions are the ids in the trailer.
func (a answer) decisions() []string { return a.trailer.Get(DecisionTrailer) }

// to names one machine, as `talosctl -n` with one node does.
func to(machine string) metadata.MD { return metadata.Pairs("node", machine) }

// toAll names several.
func toAll(machines ...string) metadata.MD { return metadata.MD{"nodes": machines} }

// call sends the messages and their end and reads all answers.
func (c *client) call(ctx context.Context, method string, md metadata.MD, messages ...[]byte) answer {
	s, err := c.open(ctx, method, md)
	if err != nil {
		return answer{err: err}
	}
	for _, m := range messages {
		if err := s.SendMsg(&message{bytes: m}); err != nil {
			break // RecvMsg knows why
		}
	}
	_ = s.CloseSend()
	return finishCall(s)
}

func finishCall(s grpc.ClientStream) (a answer) {
	for {
		var m message
		if err := s.RecvMsg(&m); err != nil {
			if !errors.Is(err, io.EOF) {
				a.err = err
			}
			a.trailer = s.Trailer()
			return a
		}
		a.messages = append(a.messages, m.bytes)
	}
}

func (c *client) open(ctx context.Context, method string, md metadata.MD) (grpc.ClientStream, error) {
	return c.conn.NewStream(metadata.NewOutgoingContext(ctx, md),
		&grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method, grpc.ForceCodecV2(rawCodec{}))
}

// version asks one machine for its version.
func (c *client) version(t testing.TB, machine string) answer {
	t.Helper()
	return c.call(bounded(t), methodVersion, to(machine), nil)
}

// applyRequest is the message of an apply.
func applyRequest(t testing.TB, data []byte, mode machine.ApplyConfigurationRequest_Mode, dryRun bool) []byte {
	t.Helper()
	return must(proto.Marshal(&machine.ApplyConfigurationRequest{Data: data, Mode: mode, DryRun: dryRun}))(t)
}

// noReboot is the message of an ordinary apply.
func noReboot(t testing.TB, data []byte) []byte {
	t.Helper()
	return applyRequest(t, data, machine.ApplyConfigurationRequest_NO_REBOOT, false)
}

// apply sends one apply.
func (c *client) apply(t testing.TB, machine string, request []byte) answer {
	t.Helper()
	return c.call(bounded(t), talosd.MethodApply, to(machine), request)
}

// goApply applies in the background.
func (c *client) goApply(ctx context.Context, machine string, request []byte) <-chan answer {
	out := make(chan answer, 1)
	go func() { out <- c.call(ctx, talosd.MethodApply, to(machine), request) }()
	return out
}

// bounded ends a broken test; nothing is asserted about its time.
func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// succeeded fails the test when the call did.
func succeeded(t testing.TB, a answer) answer {
	t.Helper()
	if a.err != nil {
		t.Fatalf("the call failed: %v", a.err)
	}
	return a
}

// refusedWith fails the test unless the call ended with this code and the reason in its
// first line.
func refusedWith(t testing.TB, a answer, code codes.Code, reason string) {
	t.Helper()
	if a.code() != code || !contains(a.text(), reason) {
		t.Errorf("got %v %q, want %v with %s", a.code(), a.text(), code, reason)
	}
}

func contains(text, part string) bool { return strings.Contains(text, part) }

// shortLived is a person's credential that ends that soon.
func (h *house) shortLived(t testing.TB, subject string, life time.Duration) *tls.Config {
	t.Helper()
	who := must(idp.Find(subject))(t)
	pair := must(sharedPKI(t).people.Person(gatewaypki.Person{
		Issuer: issuer, Subject: subject, Kind: who.Kind, Groups: who.Groups, Life: life,
	}))(t)
	return &tls.Config{Certificates: []tls.Certificate{must(pair.TLS())(t)}}
}

func addresses(list ...string) (out []netip.Addr) {
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}
