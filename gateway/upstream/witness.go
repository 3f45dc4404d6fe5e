package upstream

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// onlyOnce is the per-call credential that makes an apply happen once. gRPC asks for its
// metadata before it writes the header of every attempt, transparent ones included, and
// an error there ends the call instead of the attempt.
type onlyOnce struct {
	mu    sync.Mutex
	asked bool
}

func (o *onlyOnce) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()

	if o.asked {
		// Internal is one of the codes gRPC lets a credential use.
		return nil, status.Error(codes.Internal, ErrSecondAttempt.Error())
	}

	o.asked = true

	return nil, nil
}

func (*onlyOnce) RequireTransportSecurity() bool { return true }

// witness notes what gRPC did for one apply.
type witness struct {
	mu   sync.Mutex
	seen report
}

// report is what a witness saw.
type report struct {
	begins      int  // attempts
	transparent bool // one of them was gRPC's own idea
	queued      bool // a header was given to the transport
	payloads    int  // messages given to the transport
	trailers    bool // the server ended the stream with trailers
}

func (w *witness) report() report {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.seen
}

type witnessKey struct{}

func withWitness(ctx context.Context, w *witness) context.Context {
	return context.WithValue(ctx, witnessKey{}, w)
}

// witnessing passes gRPC's events of a call to the witness in its context, if any.
type witnessing struct{}

var _ stats.Handler = witnessing{}

func (witnessing) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (witnessing) HandleRPC(ctx context.Context, s stats.RPCStats) {
	w, ok := ctx.Value(witnessKey{}).(*witness)
	if !ok {
		return
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	switch s := s.(type) {
	case *stats.Begin:
		w.seen.begins++
		w.seen.transparent = w.seen.transparent || s.IsTransparentRetryAttempt
	case *stats.OutHeader:
		w.seen.queued = true
	case *stats.OutPayload:
		w.seen.payloads++
	case *stats.InTrailer:
		w.seen.trailers = true
	}
}

func (witnessing) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (witnessing) HandleConn(context.Context, stats.ConnStats) {}
