package gateway

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// message is one gRPC message as it was on the wire: the bytes that are judged are
// the bytes that are forwarded (I8).
type message struct{ bytes []byte }

// rawCodec hands messages through unparsed. It knows no other type, so that nothing
// in this package can decode and encode again by accident.
type rawCodec struct{}

var _ encoding.CodecV2 = rawCodec{}

// Name is "proto", the content subtype talosctl and Talos speak.
func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*message)
	if !ok {
		return nil, fmt.Errorf("encoding %T: only raw messages pass the gateway", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(m.bytes)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*message)
	if !ok {
		return fmt.Errorf("decoding %T: only raw messages pass the gateway", v)
	}
	m.bytes = data.Materialize()
	return nil
}
