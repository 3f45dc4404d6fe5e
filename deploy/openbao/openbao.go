// Package openbao holds the least-privilege policies that `bronzeward openbao setup` writes, as
// HCL that can also be written by hand: bao policy write bronzeward-gateway gateway.hcl.
package openbao

import _ "embed"

// Policies for the default mounts, bronzeward and transit.
var (
	// Gateway is the policy bronzeward-gateway, of the gateway's own login.
	//go:embed gateway.hcl
	Gateway string
	// Operator is the policy bronzeward-operator, of who puts Talos credentials.
	//go:embed operator.hcl
	Operator string
)
