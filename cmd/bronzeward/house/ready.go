package house

import (
	"context"

	"bronzeward/gateway"
	"bronzeward/gateway/identity"
	"bronzeward/gateway/vault"
)

// readiness answers /readyz from the gateway, its identity room, and what OpenBao last said.
type readiness struct {
	gateway *gateway.Gateway
	who     *identity.Authenticator
	keeper  *vault.Keeper      // null without OpenBao
	talos   *vault.Credentials // null without OpenBao
}

// Ready says whether a call would be decided now, and why not.
func (r readiness) Ready(ctx context.Context) (map[string]any, []string) {
	state, problems := r.gateway.Ready(ctx)
	issuers := map[string]any{}
	for _, h := range r.who.Health() {
		issuers[h.Issuer] = map[string]any{"keys": h.Keys, "last_good_fetch": h.LastGood}
	}
	state["issuers"] = issuers
	if r.keeper != nil {
		problem, confirmed := r.keeper.Health()
		state["openbao"] = map[string]any{"confirmed": confirmed, "problem": problem, "unusable_credentials": append([]string{}, r.talos.Unusable()...)}
	}
	return state, problems
}
