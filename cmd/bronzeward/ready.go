package main

import (
	"context"

	"bronzeward/gateway"
	"bronzeward/gateway/identity"
)

// readiness answers /readyz from the gateway and its identity room.
type readiness struct {
	gateway *gateway.Gateway
	who     *identity.Authenticator
}

// Ready says whether a call would be decided now, and why not.
func (r readiness) Ready(ctx context.Context) (map[string]any, []string) {
	state, problems := r.gateway.Ready(ctx)
	issuers := map[string]any{}
	for _, h := range r.who.Health() {
		issuers[h.Issuer] = map[string]any{"keys": h.Keys, "last_good_fetch": h.LastGood}
	}
	state["issuers"] = issuers
	return state, problems
}
