package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// ApplyMethod is the full name of the one method a SendingConn sends.
const ApplyMethod = "/machine.MachineService/ApplyConfiguration"

// Answer is what became of one apply.
type Answer struct {
	// Got is true when Code and Message are the machine's: a status that arrived in
	// trailers. gRPC makes statuses of its own of the same type, so all of this must hold:
	//
	//   - the witness saw the trailers of the apply's stream arrive (stats.InTrailer,
	//     which gRPC raises only for a stream ended by the server with well-formed gRPC
	//     headers; a reset, a lost connection, a deadline or an HTTP error raises none)
	//   - a code other than OK came without a message before it, and OK came with
	//     exactly one
	//   - the status is none that gRPC could have made itself although trailers came: not
	//     DeadlineExceeded or Canceled once our own deadline is over, not Unknown without
	//     a message (trailers without a status), not one in the words of gRPC's parser
	//   - the witness saw exactly one attempt, no transparent one, and one payload
	//
	// Where in doubt it is false.
	Got bool
	// Code and Message are the status; ours, and no answer, unless Got.
	Code    codes.Code
	Message string
	// Response is the message as it came, only with Got and OK.
	Response []byte
	// Written is false only when it is certain that no byte of the request was handed to
	// the socket. Header bytes count.
	Written bool
	// Err is the cause in our words; nil when Got.
	Err error
}

// NotSent is true when nothing left: the apply may be tried again by whoever holds it.
func (a Answer) NotSent() bool { return !a.Got && !a.Written }

// Relayed is true for an answer whose code the hops inside a machine make by themselves:
// apid passes calls on to machined, and when it loses it on the way it says Unavailable,
// Canceled or DeadlineExceeded in trailers of its own, without knowing whether the apply
// landed. Talos's own refusals have other codes. Such an answer rejects nothing; with
// nothing moved yet it is still an unknown one.
func (a Answer) Relayed() bool {
	return a.Got && (a.Code == codes.Unavailable || a.Code == codes.Canceled || a.Code == codes.DeadlineExceeded)
}

// Apply sends request, byte for byte, as the one message of ApplyConfiguration, once.
// The call is detached from ctx's end, because a caller who hangs up must not turn a
// sent apply into an unknown one; it ends at deadline, when the socket is reset. Of
// ctx only the values are used; its outgoing metadata is not. Request must not be
// changed, not even afterwards.
//
// After an answer the connection stays open for ReadBack. Without one it is reset.
func (c *SendingConn) Apply(ctx context.Context, request []byte, roles []string, decisionID string, deadline time.Time) Answer {
	if c.spent.Swap(true) {
		return refuse(codes.FailedPrecondition, ErrSpent)
	}

	// Checked here because gRPC would find out after it has sent the header.
	if len(request) > MaxMessage {
		return refuse(codes.ResourceExhausted, fmt.Errorf("request has %d bytes, the limit is %d", len(request), MaxMessage))
	}

	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()

	if ctx.Err() != nil {
		c.abort()

		return refuse(codes.DeadlineExceeded, errors.New("the deadline was over before the send"))
	}

	// The kernel gives up by itself at the deadline even if this process cannot.
	c.node.wire.limitSilence(time.Until(deadline))

	cut := time.AfterFunc(time.Until(deadline), c.abort)
	defer cut.Stop()

	w := &witness{}
	before := c.node.wire.handed.Load()

	ctx = metadata.NewOutgoingContext(ctx, OutgoingMetadata(roles, decisionID))
	response, messages, err := c.exchange(withWitness(ctx, w), request)

	over := !time.Now().Before(deadline)

	answer := judgeAnswer(w.report(), response, messages, err, over)
	if !answer.Got {
		c.abort()

		// The reset and gRPC's timer run together; which came first says nothing.
		if over {
			answer.Code = codes.DeadlineExceeded
		}

		answer.Written = w.report().queued && c.node.wire.handed.Load() != before
	}

	return answer
}

// exchange sends one message and its end and reads until the stream is over.
func (c *SendingConn) exchange(ctx context.Context, request []byte) (response []byte, messages int, err error) {
	// ServerStreams lets the end of the stream be read here and not inside gRPC, which
	// would put a status of its own in the place of an odd one.
	stream, err := c.conn.NewStream(ctx, &grpc.StreamDesc{StreamName: "ApplyConfiguration", ServerStreams: true}, ApplyMethod,
		append(c.guards(), grpc.WaitForReady(false), grpc.ForceCodecV2(rawCodec{}))...)
	if err != nil {
		return nil, 0, err
	}

	// io.EOF means that the stream is over already; RecvMsg knows why.
	if err := stream.SendMsg(&request); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}

	for {
		var m []byte

		switch err := stream.RecvMsg(&m); {
		case errors.Is(err, io.EOF):
			return response, messages, nil
		case err != nil:
			return nil, messages, err
		}

		if messages++; messages == 1 {
			response = m
		}

		if messages > 1 {
			return nil, messages, status.Error(codes.Internal, "grpc: more than one response")
		}
	}
}

// sendOnce are the call options that keep gRPC from sending an apply again.
func sendOnce() []grpc.CallOption {
	return []grpc.CallOption{grpc.MaxRetryRPCBufferSize(0), grpc.PerRPCCredentials(&onlyOnce{})}
}

// judgeAnswer tells the machine's status from our own; see Answer.Got. Written is left
// to the caller.
func judgeAnswer(seen report, response []byte, messages int, err error, over bool) Answer {
	st, _ := status.FromError(err)
	a := Answer{Code: st.Code(), Message: st.Message()}

	switch {
	case seen.begins > 1 || seen.transparent || seen.payloads > 1:
		a.Code = codes.Internal
		a.Message = fmt.Sprintf("%d attempts were begun and %d messages sent, where one is allowed", seen.begins, seen.payloads)
		a.Err = fmt.Errorf("%w: %s", ErrSecondAttempt, a.Message)
	case !seen.trailers:
		a.Err = errors.New("no trailers arrived: " + a.Message)
	case err == nil && messages != 1:
		a.Code, a.Message = codes.Internal, "success without a response"
		a.Err = errors.New(a.Message)
	case err == nil:
		a.Got, a.Response = true, response
		if a.Response == nil {
			a.Response = []byte{}
		}
	case messages != 0, over && (a.Code == codes.DeadlineExceeded || a.Code == codes.Canceled),
		a.Code == codes.Unknown && a.Message == "", parserWords(a):
		a.Err = errors.New("status may be our own: " + a.Message)
	default:
		a.Got = true
	}

	return a
}

// parserWords recognizes what gRPC says about a response it cannot read. A server that
// uses the same words is not believed either, which costs a read-back and nothing else.
func parserWords(a Answer) bool {
	for _, prefix := range []string{"grpc: ", "transport: ", "unexpected EOF", "cardinality violation"} {
		if strings.HasPrefix(a.Message, prefix) {
			return true
		}
	}

	return false
}

func refuse(code codes.Code, err error) Answer {
	return Answer{Code: code, Message: err.Error(), Err: err}
}

// rawCodec carries bytes as they are: a *[]byte goes out and comes in unchanged.
type rawCodec struct{}

var _ encoding.CodecV2 = rawCodec{}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("raw codec got %T", v)
	}

	return mem.BufferSlice{mem.SliceBuffer(*b)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("raw codec got %T", v)
	}

	*b = data.Materialize()

	return nil
}

// Name is the subtype on the wire: what goes through is protobuf.
func (rawCodec) Name() string { return "proto" }
