package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"bronzeward/audit"
	"bronzeward/gateway/upstream"
)

// deadlineMargin is taken off the caller's deadline on the way to the node, so that
// the node's own DeadlineExceeded still reaches the caller in time.
const deadlineMargin = 50 * time.Millisecond

// forward sends the judged bytes to one machine and hands every answer to sink. The
// returned error is the node's status, or our own words when there was none.
func (c *call) forward(ctx context.Context, v verdict, sink func(*nodeAnswer) error) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if due, ok := c.stream.Context().Deadline(); ok { // the caller's own, not the end of their proof
		ctx, cancel = context.WithDeadline(ctx, due.Add(-deadlineMargin))
		defer cancel()
	}
	conn, err := c.g.upstream.Conn(ctx, upstreamTarget(v.target.machine))
	if upstream.OurCredential(err) {
		c.note(slog.Any("evidence", err))
		code, message := unreadable(v.target.machine.Name, "reached", err)
		return unavailable(v.receipt, code, message)
	}
	if err != nil {
		return unreached(v.target.machine.Name, err)
	}
	var s grpc.ClientStream
	defer func() {
		if status.Code(err) == codes.Unavailable && !connected(s) {
			err = unreached(v.target.machine.Name, err)
		}
	}()
	ctx = metadata.NewOutgoingContext(ctx, upstream.OutgoingMetadata(v.decision.UpstreamRoles, v.receipt.ID.String()))
	s, err = conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, c.name, grpc.ForceCodecV2(rawCodec{}),
		grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage))
	if err != nil {
		return err
	}
	if err := s.SendMsg(&message{bytes: c.body}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	for {
		var answer nodeAnswer
		if err := s.RecvMsg(&answer); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if v.seen != nil {
			if over, ok := peer.FromContext(s.Context()); !ok || !v.seen.SameConnection(*over) {
				return &ownWords{status.New(codes.Unavailable, fmt.Sprintf(
					"machine %s was connected to anew while the call was judged; try again", v.target.machine.Name))}
			}
		}
		if err := sink(&answer); err != nil {
			return err
		}
	}
}

// unreached is our own word for a machine no connection could be made to.
func unreached(machine string, cause error) error {
	why := oneLine(status.Convert(cause).Message())
	if _, after, ok := strings.Cut(why, "Error while dialing: "); ok {
		why = strings.Trim(strings.TrimPrefix(after, "machine unreachable at "), `"`)
	}
	return &ownWords{status.New(codes.Unavailable, fmt.Sprintf("machine %s cannot be reached: %s", machine, why))}
}

// ownWords is a status that the gateway words. A node's own words may quote what it holds, so
// that the caller alone gets them.
type ownWords struct{ said *status.Status }

func (o *ownWords) Error() string { return o.said.Err().Error() }

// GRPCStatus is the status as the caller gets it.
func (o *ownWords) GRPCStatus() *status.Status { return o.said }

// readOne passes one machine's answer on: byte for byte for `node`, with the node's
// name added for `nodes`, as Talos does.
func (c *call) readOne(v verdict) error {
	if !v.decision.Allow {
		return v.refusal()
	}
	var sent int64
	began := time.Now()
	err := c.forward(c.ctx, v, func(answer *nodeAnswer) error {
		return c.pass(v.target, answer, &sent)
	})
	c.outcome(v, err, sent, time.Since(began))
	return err
}

// pass hands one answer of a node to the caller, in the buffers it came in where it can.
func (c *call) pass(t *target, answer *nodeAnswer, sent *int64) error {
	switch {
	case !c.hostname:
	case c.method.ServerStream:
		name, err := hostnameField(t.spelled)
		if err != nil {
			return status.Error(codes.Internal, err.Error())
		}
		answer.buffers = append(answer.buffers, mem.SliceBuffer(name))
	default:
		return c.send(t, answer.take(), sent)
	}
	*sent += int64(answer.size())
	return c.stream.SendMsg(answer)
}

// send passes one answer to the caller.
func (c *call) send(t *target, answer []byte, sent *int64) error {
	if c.hostname {
		named, err := withHostname(answer, t.spelled, c.method.ServerStream)
		if err != nil {
			return status.Error(codes.Internal, err.Error())
		}
		answer = named
	}
	*sent += int64(len(answer))
	return c.stream.SendMsg(&message{bytes: answer})
}

// readMany merges the answers of several machines: a refused or failing machine is its
// own metadata.error, and the call fails only when all fail.
func (c *call) readMany(verdicts []verdict) error {
	out := &merger{call: c, parts: make([][]byte, len(verdicts))}
	failures := make([]error, len(verdicts))
	var group errgroup.Group
	for i, v := range verdicts {
		group.Go(contained(func() error {
			if !v.decision.Allow {
				failures[i] = v.refusal()
				return out.failed(i, v, failures[i])
			}
			var sent int64
			began := time.Now()
			failures[i] = c.forward(c.ctx, v, func(answer *nodeAnswer) error {
				named, err := withHostname(answer.take(), v.target.spelled, c.method.ServerStream)
				if err != nil {
					return status.Error(codes.Internal, err.Error())
				}
				sent += int64(len(named))
				return out.answered(i, named)
			})
			c.outcome(v, failures[i], sent, time.Since(began))
			if failures[i] != nil {
				return out.failed(i, v, failures[i])
			}
			return nil
		}))
	}
	if err := group.Wait(); err != nil {
		rethrow(err)
		return err
	}
	if !slices.Contains(failures, nil) {
		return allFailed(verdicts, failures)
	}
	return out.end()
}

// allFailed is one status for several failures: the first one's code, every machine's words.
func allFailed(verdicts []verdict, failures []error) error {
	text := fmt.Sprintf("all %d machines failed", len(verdicts))
	for i, v := range verdicts {
		text += fmt.Sprintf("\n%s: %s", v.target.spelled, status.Convert(failures[i]).Message())
	}
	return status.Error(status.Code(failures[0]), text)
}

// outcome writes what the node answered to a call without an attempt. It does not
// hold the caller up; a crash before it is durable leaves an entry without outcome,
// which is shown as such. A node's words are not kept, its code is.
func (c *call) outcome(v verdict, err error, sent int64, took time.Duration) {
	message := ""
	var own *ownWords
	if errors.As(err, &own) {
		message = oneLine(own.said.Message())
	}
	c.keepOutcome(audit.Outcome{
		ID: newID(), EntryID: v.receipt.ID, Kind: audit.OutcomeAnswered, Code: status.Code(err).String(),
		Message: message, BytesOut: sent, Duration: took, Instance: c.g.instance,
	})
}

// keepOutcome hands an outcome to the book. It waits only while the book is full; what
// cannot be kept is logged, and the entry is shown as one without an outcome.
func (c *call) keepOutcome(o audit.Outcome) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), keepWithin)
	defer cancel()
	if err := c.g.book.EnqueueOutcome(ctx, o); err != nil {
		c.note(slog.Any("outcome", err))
	}
}

// keepWithin bounds the wait for the book after the answer is with the caller.
const keepWithin = 10 * time.Second

// connected says whether a stream came as far as a connection. The option grpc.Peer would say so too, but
// is written by another goroutine while a call is ended that nobody waits for any more.
func connected(s grpc.ClientStream) bool {
	if s == nil {
		return false
	}
	_, ok := peer.FromContext(s.Context())
	return ok
}
