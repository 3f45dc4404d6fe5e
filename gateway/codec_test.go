package gateway

import (
	"testing"

	"google.golang.org/grpc/mem"
)

func TestTheCodecPassesRawMessagesAndNothingElse(t *testing.T) {
	out, err := rawCodec{}.Marshal(&message{bytes: []byte("as sent")})
	if err != nil || string(out.Materialize()) != "as sent" {
		t.Fatalf("got %q, %v", out.Materialize(), err)
	}
	if _, err := (rawCodec{}).Marshal("a string"); err == nil {
		t.Error("a value that is no raw message was encoded")
	}
	var m message
	if err := (rawCodec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer("received")}, &m); err != nil || string(m.bytes) != "received" {
		t.Fatalf("got %q, %v", m.bytes, err)
	}
	if err := (rawCodec{}).Unmarshal(nil, new(string)); err == nil {
		t.Error("a value that is no raw message was decoded into")
	}
}
