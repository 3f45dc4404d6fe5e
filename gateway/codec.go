package gateway

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// message is one request as it was on the wire, or an answer of our own: the bytes that
// are judged are the bytes that are forwarded (I8).
type message struct{ bytes []byte }

// nodeAnswer is one answer of a node in the buffers it arrived in. It is handed to SendMsg
// or taken over whole, once; an answer that is dropped is left to the garbage collector.
type nodeAnswer struct{ buffers mem.BufferSlice }

// size is the answer's length in bytes.
func (a *nodeAnswer) size() int { return a.buffers.Len() }

// take copies the bytes out and gives the buffers back.
func (a *nodeAnswer) take() []byte {
	defer a.buffers.Free()
	return a.buffers.Materialize()
}

// rawCodec hands messages through unparsed. It knows no other type, so that nothing
// in this package can decode and encode again by accident.
type rawCodec struct{}

var _ encoding.CodecV2 = rawCodec{}

// Name is "proto", the content subtype talosctl and Talos speak.
func (rawCodec) Name() string { return "proto" }

// Marshal gives an answer's buffers away: gRPC frees them when they are sent.
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *message:
		return mem.BufferSlice{mem.SliceBuffer(m.bytes)}, nil
	case *nodeAnswer:
		return m.buffers, nil
	}
	return nil, fmt.Errorf("encoding %T: only raw messages pass the gateway", v)
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case *message:
		m.bytes = data.Materialize()
		return nil
	case *nodeAnswer:
		data.Ref()
		m.buffers = data
		return nil
	}
	return fmt.Errorf("decoding %T: only raw messages pass the gateway", v)
}
