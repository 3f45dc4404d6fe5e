package upstream

import (
	"context"

	"google.golang.org/grpc/peer"
)

// Identify reads who a machine is over its pooled connection: everything of Evidence but
// the two configurations, which stay empty. SameConnection tells whether a later call
// went to the machine that was identified.
func (p *Pool) Identify(ctx context.Context, t Target) (Evidence, error) {
	conn, err := p.Conn(ctx, t)
	if err != nil {
		return Evidence{}, err
	}

	var who []reading

	for _, r := range readings() {
		if r.role != RoleAdmin {
			who = append(who, r)
		}
	}

	return p.readAll(ctx, conn, who)
}

// SameConnection is true when a call's peer shows that it went over the very connection
// that was read: addresses may be taken over by another machine, a connection cannot.
func (e Evidence) SameConnection(call peer.Peer) bool {
	return call.Addr != nil && call.LocalAddr != nil &&
		call.Addr.String() == e.remote && call.LocalAddr.String() == e.local
}
