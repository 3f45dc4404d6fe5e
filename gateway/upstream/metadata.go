package upstream

import (
	"google.golang.org/grpc/metadata"
)

// Roles Talos knows that the gateway asks for. A role speaks only because our
// certificate is an os:impersonator's; without one the node answers nothing.
const (
	RoleReader = "os:reader"
	RoleAdmin  = "os:admin"
)

const (
	roleKey     = "talos-role"
	decisionKey = "bronzeward-decision"
)

// OutgoingMetadata is all the metadata a machine ever gets from the gateway, built from
// nothing: the roles the call runs under and, unless empty, the id of the decision, so
// that the node's log joins our rows. What the caller sent is never copied, and neither
// `node` nor `nodes` is set: the machine is dialled itself and serves itself.
func OutgoingMetadata(roles []string, decisionID string) metadata.MD {
	md := metadata.MD{roleKey: append([]string(nil), roles...)}
	if decisionID != "" {
		md.Set(decisionKey, decisionID)
	}

	return md
}
