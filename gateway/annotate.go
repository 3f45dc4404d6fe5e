package gateway

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/siderolabs/talos/pkg/machinery/api/common"
)

// Answers to calls with `nodes` carry the node's name in messages[].metadata.hostname,
// spelled as the caller spelled it; talosctl fills its NODE column from there. Talos
// adds it byte-wise, and so does this file: a protobuf message is the concatenation of
// its fields, so a field can be added without decoding the rest.
// Source: Talos's apid, and common.Metadata in machinery's api/common.

// messagesField is field 1 of every unary response: `repeated Reply messages`.
const messagesField protowire.Number = 1

// withHostname adds metadata.hostname to one answer. In a unary answer every element
// of `messages` gets it; a stream's answer is itself the element.
func withHostname(answer []byte, hostname string, stream bool) ([]byte, error) {
	extra, err := hostnameField(hostname)
	if err != nil {
		return nil, err
	}
	if stream {
		return append(answer[:len(answer):len(answer)], extra...), nil
	}
	out := make([]byte, 0, len(answer)+len(extra)+8)
	for rest := answer; len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return nil, fmt.Errorf("reading the node's answer: %w", protowire.ParseError(n))
		}
		size := protowire.ConsumeFieldValue(number, kind, rest[n:])
		if size < 0 {
			return nil, fmt.Errorf("reading the node's answer: %w", protowire.ParseError(size))
		}
		if number != messagesField || kind != protowire.BytesType {
			out = append(out, rest[:n+size]...)
			rest = rest[n+size:]
			continue
		}
		element, _ := protowire.ConsumeBytes(rest[n:])
		out = protowire.AppendTag(out, messagesField, protowire.BytesType)
		out = protowire.AppendVarint(out, uint64(len(element)+len(extra)))
		out = append(append(out, element...), extra...)
		rest = rest[n+size:]
	}
	return out, nil
}

// hostnameField is metadata.hostname as a field, ready to stand behind the others.
func hostnameField(hostname string) ([]byte, error) {
	field, err := proto.Marshal(&common.Empty{Metadata: &common.Metadata{Hostname: hostname}})
	if err != nil {
		return nil, fmt.Errorf("encoding the node's name: %w", err)
	}
	return field, nil
}

// errorAnswer is a node's failure as an answer of its own, for calls to several nodes
// of which others succeed.
func errorAnswer(hostname string, failure error, stream bool) ([]byte, error) {
	st := status.Convert(failure).Proto()
	// A node's words are strangers' input, and protobuf has no other text than UTF-8.
	st.Message, hostname = strings.ToValidUTF8(st.GetMessage(), "\uFFFD"), strings.ToValidUTF8(hostname, "\uFFFD")
	element := &common.Empty{Metadata: &common.Metadata{
		Hostname: hostname,
		Error:    "rpc error: code = " + codes.Code(st.GetCode()).String() + " desc = " + st.GetMessage(),
		Status:   st,
	}}
	var answer proto.Message = element
	if !stream {
		answer = &common.EmptyResponse{Messages: []*common.Empty{element}}
	}
	raw, err := proto.Marshal(answer)
	if err != nil {
		return nil, fmt.Errorf("encoding a node's failure: %w", err)
	}
	return raw, nil
}
