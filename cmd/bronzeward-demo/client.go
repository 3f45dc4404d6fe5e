package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// rawBytes carries request and answer bytes as they are.
type rawBytes struct{}

var _ encoding.CodecV2 = rawBytes{}

func (rawBytes) Name() string { return "proto" }

func (rawBytes) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (rawBytes) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// dial opens the gateway with a client's own TLS settings.
func dial(endpoint string, cfg *tls.Config) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+endpoint, grpc.WithTransportCredentials(credentials.NewTLS(cfg)),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawBytes{}), grpc.MaxCallRecvMsgSize(32<<20), grpc.MaxCallSendMsgSize(64<<20)))
}

// oneCall makes one call with one request and gives the decision ids and the status. The
// answers of a stream are read for at most a second.
func oneCall(ctx context.Context, conn *grpc.ClientConn, method string, request []byte, md ...string) (ids []string, _ error) {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, md...), 5*time.Second)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(&request); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	answered := false
	for {
		var answer []byte
		err := stream.RecvMsg(&answer)
		if err == nil {
			if !answered {
				// It goes on: an endless stream that answers is one that was allowed.
				answered = true
				time.AfterFunc(time.Second, cancel)
			}
			continue
		}
		ids = stream.Trailer().Get("bronzeward-decision")
		if errors.Is(err, io.EOF) || answered {
			return ids, nil
		}
		return ids, err
	}
}

// codeOf words a status for comparison.
func codeOf(err error) string {
	return status.Code(err).String()
}

// want fails unless the status is one of those named.
func want(what string, err error, codes ...string) error {
	for _, c := range codes {
		if codeOf(err) == c {
			return nil
		}
	}
	return fmt.Errorf("%s: got %s (%v), want one of %v", what, codeOf(err), err, codes)
}
