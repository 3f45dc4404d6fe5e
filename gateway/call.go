package gateway

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/facts"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

const (
	// DecisionTrailer carries the decision's id to the caller, on allowed calls too, and
	// to the node, so that node logs can be joined with the book.
	DecisionTrailer = "bronzeward-decision"
	// LeafTrailer carries the leaf hash of each decision's entry, in hexadecimal digits and in
	// the order of DecisionTrailer: with it a caller can hold the book to what was written down.
	LeafTrailer = "bronzeward-leaf"
)

// defaultReceiveWithin bounds how long a caller may take to send its one message: 32 MiB
// at half a megabyte a second, with room.
const defaultReceiveWithin = 90 * time.Second

// call is one Call on its way through the gate. One goroutine owns it.
type call struct {
	g       *Gateway
	started time.Time
	arrived time.Time // by the database's clock, from a sampled offset
	stream  grpc.ServerStream
	ctx     context.Context //nolint:containedctx // the call is its context's owner
	md      metadata.MD
	address string // the client's IP, without port

	caller identity.Caller
	method facts.Method
	name   string // the full method name as asked, known or not
	body   []byte
	asked  facts.Parsed
	bodies *semaphore.Weighted // of this person
	holds  bool                // a place in bodies

	targets []target
	// act is set when the call came through the HTTP door; opened names the change whose
	// sealed bytes it was made of, and change is the one it captured, found or spent.
	act    *asAct
	opened control.ChangeID
	change *control.Change
	// attempt is the one that was sent and whose state is durable.
	attempt *control.Attempt

	hostname bool // true when the caller used `nodes`: answers carry the node's name

	// decided are the receipts of what was decided, one for each target, in their order.
	decided []audit.Receipt
	// detached is true once the call ends by its own outcome and no longer with its caller.
	detached bool

	mu    sync.Mutex // guards attrs: the parts of a fan-out note side by side
	attrs []slog.Attr
}

// target is one machine a call names, with the caller's own spelling of it.
type target struct {
	spelled string
	machine *control.Machine
}

// renew takes the machine's row from a newer snapshot, where it is in it.
func (t *target) renew(snap *control.Snapshot) {
	if m := snap.Machines[t.machine.ID]; m != nil {
		t.machine = m
	}
}

// handle is the way of every call: who, what, where to, then the way of its class.
func (g *Gateway) handle(_ any, stream grpc.ServerStream) (err error) {
	c := g.newCall(stream)
	defer func() {
		if p := recover(); p != nil {
			// A fault of ours in one call ends that call, and no other. What it had
			// committed stands: an open attempt is settled like that of a dead owner.
			c.notePanic(p)
			err = unavailable(audit.Receipt{}, "BW-GATEWAY-002", "the gateway failed inside this call; its log says where")
		}
		err = c.finish(err)
	}()

	if !g.perAddress.allow(addressKey(c.address)) {
		g.metrics.limited.WithLabelValues("address").Inc()
		return refusal(codes.ResourceExhausted, audit.Receipt{}, "BW-LIMIT-001",
			"too many calls from this address; wait a second and try again")
	}
	if err := c.identify(); err != nil {
		return err
	}
	ctx, bodies, leave, err := g.sessions.enter(c.ctx, c.caller, c.trusted())
	if errors.Is(err, errStopping) {
		return refusal(codes.Unavailable, audit.Receipt{}, "BW-GATEWAY-001", errStopping.Error())
	}
	if err != nil {
		return c.limited("streams", err.Error())
	}
	defer leave()
	c.ctx = ctx
	if !g.perCaller.allow(c.caller.Issuer + "\x00" + c.caller.Subject) {
		return c.limited("calls", "too many calls a second (limits.calls_per_second)")
	}
	defer c.dropBody()
	c.bodies = bodies
	if err := c.understand(); err != nil {
		return err
	}
	switch c.asked.Call.Class {
	case policy.ClassApply:
		return c.apply()
	case policy.ClassMutate, policy.ClassUpload, policy.ClassMint:
		return c.mutate()
	default:
		return c.read()
	}
}

func (g *Gateway) newCall(stream grpc.ServerStream) *call {
	ctx := stream.Context()
	name, _ := grpc.MethodFromServerStream(stream)
	md, _ := metadata.FromIncomingContext(ctx)
	c := &call{
		g: g, started: time.Now(), arrived: g.store.Snapshot().Now(), stream: stream, ctx: ctx, md: md, name: name,
	}
	if p, ok := peer.FromContext(ctx); ok {
		c.address = addressOf(p.Addr)
	}
	return c
}

// addressOf is a peer's IP without port and zone, as it goes into the book.
func addressOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	host, _, _ = strings.Cut(host, "%")
	return host
}

// newID makes a UUIDv7; it panics only when the system has no randomness, and then
// nothing here may go on.
func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// identify proves who calls. A bad credential is Unauthenticated, an outage of ours
// Unavailable, a deny-listed person PermissionDenied; each is in the book first.
func (c *call) identify() error {
	who, err := c.g.identity.Identify(c.ctx, identity.Request{TLS: c.tls(), Authorization: c.md.Get("authorization")})
	if err == nil {
		c.caller = who
		c.g.Saw(who)
		return nil
	}
	var refused *identity.Refusal
	if !errors.As(err, &refused) {
		refused = &identity.Refusal{Class: identity.ClassKeysUnavailable, Message: "the credential could not be checked"}
	}
	c.note(slog.String("refused", string(refused.Class)), slog.Any("cause", errors.Unwrap(err)))
	code := credentialCode(refused.Class)
	receipt, bookErr := c.g.bookStranger(c, code, string(refused.Class), refused.Message)
	if bookErr != nil {
		return unavailable(audit.Receipt{}, "BW-BOOK-001", "the refusal could not be written down")
	}
	c.decided = append(c.decided, receipt)
	switch {
	case refused.Class.Unavailable():
		return unavailable(receipt, code, refused.Message)
	case refused.Class.Denied():
		return denial(receipt, policy.Deny(code, refused.Message, ""))
	}
	return refusal(codes.Unauthenticated, receipt, code, string(refused.Class)+": "+refused.Message, refused.Class.LogIn())
}

// credentialCode is the code of a refused credential.
func credentialCode(class identity.Class) string {
	switch {
	case class.Unavailable():
		return "BW-CREDENTIAL-002"
	case class.Denied():
		return "BW-CREDENTIAL-003"
	}
	return "BW-CREDENTIAL-001"
}

func (c *call) tls() *tls.ConnectionState {
	p, ok := peer.FromContext(c.ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return nil
	}
	return &info.State
}

// trusted asks again what identify asked about the call's certificate: the authorities may be
// others by now. Its time is held to the instant elsewhere; a token's key sets are not asked.
func (c *call) trusted() func() bool {
	state := c.tls()
	if state == nil || len(state.PeerCertificates) == 0 {
		return nil
	}
	ctx := c.ctx // the asking is another goroutine's; the call goes on to a context of its own
	return func() bool {
		_, err := c.g.identity.Identify(ctx, identity.Request{TLS: state})
		return err == nil
	}
}

// maxRequest is the largest request, in bytes, of any method but an apply: the largest
// that talosctl sends is a few hundred.
const maxRequest = 64 << 10

// holdBody waits for a place for one more request message of this person.
func (c *call) holdBody() error {
	if err := c.bodies.Acquire(c.ctx, 1); err != nil {
		return err
	}
	c.holds = true
	return nil
}

// dropBody gives the place back. What is kept of a request afterwards is small.
func (c *call) dropBody() {
	if c.holds {
		c.bodies.Release(1)
		c.holds = false
	}
}

// receive reads one message and its end, before anything is judged: nothing a caller
// sends afterwards could be forwarded unjudged (I8).
func (c *call) receive() error {
	type result struct {
		body []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		var first message
		if err := c.stream.RecvMsg(&first); errors.Is(err, io.EOF) {
			done <- result{err: errNoMessage}
			return
		} else if err != nil {
			done <- result{err: err}
			return
		}
		switch err := c.stream.RecvMsg(new(message)); {
		case errors.Is(err, io.EOF):
			done <- result{body: first.bytes}
		case err == nil:
			done <- result{err: errSecondMessage}
		default:
			done <- result{err: err}
		}
	}()
	late := time.NewTimer(c.g.receiveWithin)
	defer late.Stop()
	select {
	case r := <-done:
		c.body = r.body
		return r.err
	case <-c.ctx.Done():
		if c.stream.Context().Err() != nil {
			// gRPC ends the call itself when a message is too large; the reader knows why.
			if r := <-done; r.err != nil && status.Code(r.err) != codes.Canceled {
				return r.err
			}
		}
		return context.Cause(c.ctx)
	case <-late.C:
		return errSlowMessage
	}
}

var (
	errLargeMessage  = status.Errorf(codes.ResourceExhausted, "a request of this method has at most %d bytes", maxRequest)
	errNoMessage     = errors.New("this method takes one message, and no message came")
	errSecondMessage = errors.New("this method takes one message, and a second one came")
	errSlowMessage   = errors.New("the request did not arrive whole in time")
)

// panicked is a panic of one of a call's helpers, on its way to the call's own goroutine.
type panicked struct {
	value any
	stack []byte
}

// Error is for the log only.
func (p *panicked) Error() string { return policy.PanicText(p.value) + "\n" + string(p.stack) }

// notePanic adds a recovered panic to the call's log line, with the stack of whoever panicked.
func (c *call) notePanic(p any) {
	stack := debug.Stack()
	if helper, ok := p.(*panicked); ok {
		p, stack = helper.value, helper.stack
	}
	c.note(slog.String("panic", policy.PanicText(p)), slog.String("stack", string(stack)))
}

// contained keeps a panic of work, which runs beside the call, from ending the process.
func contained(work func() error) func() error {
	return func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = &panicked{value: p, stack: debug.Stack()}
			}
		}()
		return work()
	}
}

// rethrow panics in the call's own goroutine when a helper did: handle ends the call.
func rethrow(err error) {
	var p *panicked
	if errors.As(err, &p) {
		panic(p)
	}
}

// note adds to the one log line of this call.
func (c *call) note(attrs ...slog.Attr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attrs = append(c.attrs, attrs...)
}

// finish prints the call's one log line, counts it and hands its decisions' receipts to the caller.
func (c *call) finish(err error) error {
	if cause := context.Cause(c.ctx); cause != nil && err != nil && !c.detached {
		err = c.endedBy(cause, err)
	}
	for _, r := range c.decided {
		c.stream.SetTrailer(metadata.Pairs(DecisionTrailer, r.ID.String(), LeafTrailer, hex.EncodeToString(r.Leaf[:])))
	}
	code := status.Code(err)
	c.g.metrics.calls.WithLabelValues(string(c.method.Class), code.String()).Inc()
	attrs := append([]slog.Attr{
		slog.String("method", printable(c.name)), slog.String("code", code.String()),
		slog.String("subject", printable(c.caller.Subject)), slog.String("issuer", printable(c.caller.Issuer)),
		slog.String("client", c.address), slog.Int("targets", len(c.targets)),
		slog.Duration("took", time.Since(c.started)),
	}, c.attrs...)
	if len(c.decided) > 0 {
		attrs = append(attrs, slog.String("decision", c.decided[0].ID.String()))
	}
	level := slog.LevelInfo
	if code == codes.Unavailable || code == codes.Internal || code == codes.DeadlineExceeded {
		level = slog.LevelWarn
	}
	c.g.log.LogAttrs(context.WithoutCancel(c.ctx), level, "call", attrs...)
	return err
}
