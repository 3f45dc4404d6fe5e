package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"bronzeward/fixtures/gatewaypki"
	"bronzeward/fixtures/idp"
	"bronzeward/gateway/httpapi/api"
)

const benchEvents = "/machine.MachineService/Events"

// Open streams of one person: so many over two replicas, on so many connections to each.
const (
	openStreams = 200
	connsEach   = 4
)

// ended is what became of the streams of one revoked person.
type ended struct {
	asked time.Duration // how long the revocation took its caller
	// first and last are when the first and the last stream was refused, counted from the
	// revocation's return; one that ended before has none.
	first, last time.Duration
	replicas    [2]time.Duration // the last one of each
}

// revocation measures how long streams outlive their caller's authority.
func (h *benchHouse) revocation(ctx context.Context, o benchOptions) (string, error) {
	second, err := h.StartGateway(ctx, "gateway-2")
	if err != nil {
		return "", err
	}
	defer delete(h.Gateways, "gateway-2")
	var asked, first, last, here, there samples
	for round := range o.times(10) + 1 {
		e, err := h.revokeOnce(ctx, fmt.Sprintf("bench-%d", round), [2]string{h.Endpoint, second.Endpoint})
		if err != nil {
			return "", errors.Join(err, second.Stop())
		}
		if round > 0 {
			asked, first, last = append(asked, e.asked), append(first, e.first), append(last, e.last)
			here, there = append(here, e.replicas[0]), append(there, e.replicas[1])
		}
	}
	t := &table{head: []string{fmt.Sprintf("revocation with %d streams open over two replicas", openStreams), "n", "p50", "longest"}}
	for _, row := range []struct {
		what string
		s    samples
	}{
		{"the revocation, asked to answered", asked},
		{"answered to the first stream refused", first},
		{"answered to the last stream refused", last},
		{"answered to the last one of the replica that was asked", here},
		{"answered to the last one of the other replica", there},
	} {
		t.add(row.what, fmt.Sprint(len(row.s)), millis(row.s.p50()), millis(row.s.quantile(1)))
	}
	var wanted aims
	wanted.add(last.quantile(1) <= time.Second, "revocation to the last refused stream ≤ 1 s with %d open: %s at the longest", openStreams, millis(last.quantile(1)))
	return "### Revocation\n\n" + t.String() + wanted.String(), second.Stop()
}

// revokeOnce opens the streams of a person nobody has seen, revokes the person, and waits
// until each stream was refused.
func (h *benchHouse) revokeOnce(ctx context.Context, subject string, endpoints [2]string) (*ended, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	pair, err := h.People.Person(gatewaypki.Person{Issuer: h.PeopleIssuer(), Subject: subject, Groups: []string{idp.GroupViewers}, Life: time.Hour})
	if err != nil {
		return nil, err
	}
	if _, _, err := pair.Write(h.Path("pki"), subject); err != nil {
		return nil, err
	}
	conf, err := h.ClientTLS(subject)
	if err != nil {
		return nil, err
	}
	var streams []grpc.ClientStream
	for _, endpoint := range endpoints {
		for range connsEach {
			conn, err := grpc.NewClient("passthrough:///"+endpoint, benchDialOptions(conf, grpc.ForceCodecV2(rawBytes{}))...)
			if err != nil {
				return nil, err
			}
			defer conn.Close()
			for range openStreams / len(endpoints) / connsEach {
				s, err := h.follow(ctx, conn)
				if err != nil {
					return nil, fmt.Errorf("stream %d of %s: %w", len(streams), subject, err)
				}
				streams = append(streams, s)
			}
		}
	}
	at, errs := make([]time.Time, len(streams)), make([]error, len(streams))
	var group sync.WaitGroup
	for i, s := range streams {
		group.Go(func() { at[i], errs[i] = refused(s) })
	}
	rhea, err := h.api("rhea")
	if err != nil {
		return nil, err
	}
	began := time.Now()
	done, err := rhea.RevokeIdentityWithResponse(ctx, nil, api.NewIdentityRevocation{Issuer: h.PeopleIssuer(), Subject: subject, Reason: "measured"})
	returned := time.Now()
	if err := answered(done, err, http.StatusCreated); err != nil {
		return nil, fmt.Errorf("revoking %s: %w", subject, err)
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	after := func(t []time.Time, of func([]time.Time, func(a, b time.Time) int) time.Time) time.Duration {
		return max(0, of(t, time.Time.Compare).Sub(returned))
	}
	half := len(at) / 2
	return &ended{
		asked: returned.Sub(began), first: after(at, slices.MinFunc), last: after(at, slices.MaxFunc),
		replicas: [2]time.Duration{after(at[:half], slices.MaxFunc), after(at[half:], slices.MaxFunc)},
	}, nil
}

// follow opens one stream of the small node's events and reads the first.
func (h *benchHouse) follow(ctx context.Context, conn *grpc.ClientConn) (grpc.ClientStream, error) {
	ctx = metadata.AppendToOutgoingContext(ctx, "node", h.small.name)
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, benchEvents)
	if err != nil {
		return nil, err
	}
	var nothing, event []byte
	return s, errors.Join(s.SendMsg(&nothing), s.CloseSend(), s.RecvMsg(&event))
}

// refused reads a stream until it ends, and says when; an end that is no refusal is an error.
func refused(s grpc.ClientStream) (time.Time, error) {
	for {
		var event []byte
		if err := s.RecvMsg(&event); err != nil {
			at := time.Now()
			if status.Code(err) != codes.PermissionDenied {
				return at, fmt.Errorf("a stream of a revoked person ended with %w", err)
			}
			return at, nil
		}
	}
}
