package upstream

import (
	"context"
	"errors"
	"io"

	cosi "github.com/cosi-project/runtime/api/v1alpha1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// errWatchEnded is what Watch gives when the machine ends a watch without a word.
var errWatchEnded = errors.New("the machine ended the watch")

// Watch follows both configurations of a machine over its pooled connection and calls moved
// once when the watch stands, and after that each time one of them is created, changed or taken
// down, one call at a time. What an event holds is not kept and not judged: it was true when the
// machine sent it, and whoever is told of it reads the machine.
//
// It returns when ctx ends, with ctx's error, or when the watch does, with an *Error; a machine
// that reboots ends it. The kind is watched, because a watch on one id refuses the contents that
// are there at its beginning, and a change before it stood would go unseen.
// Source: the state server of cosi-project/runtime, which Talos serves.
func (p *Pool) Watch(ctx context.Context, t Target, moved func()) error {
	conn, err := p.Conn(ctx, t)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	stream, err := cosi.NewStateClient(conn).Watch(
		metadata.NewOutgoingContext(ctx, OutgoingMetadata([]string{RoleAdmin}, "")),
		&cosi.WatchRequest{
			Namespace: activeResource.namespace, Type: activeResource.kind,
			Options: &cosi.WatchOptions{BootstrapContents: true},
		})
	if err != nil {
		return watchError(ctx, err, peer.Peer{})
	}

	var from peer.Peer

	for {
		in, err := stream.Recv()
		if q, ok := peer.FromContext(stream.Context()); ok {
			from = *q
		}

		if err != nil {
			return watchError(ctx, err, from)
		}

		tells := len(in.GetEvent()) == 0 // the first message says that the watch stands

		for _, e := range in.GetEvent() {
			switch e.GetEventType() {
			case cosi.EventType_ERRORED:
				return &Error{Class: ClassIncomplete, Address: addressOf(from), Part: "configuration watch", Err: errors.New("the machine has lost events")}
			case cosi.EventType_NOOP:
			default:
				tells = true
			}
		}

		if tells {
			moved()
		}
	}
}

// watchError says why a watch has ended, without the machine's own words.
func watchError(ctx context.Context, err error, from peer.Peer) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}

	class := classOfRead(err)
	if errors.Is(err, io.EOF) {
		class, err = ClassUnreachable, errWatchEnded
	}

	return &Error{Class: class, Address: addressOf(from), Part: "configuration watch", Err: unworded(err, from)}
}
