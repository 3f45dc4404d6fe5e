package facts

import (
	"github.com/siderolabs/talos/pkg/machinery/config/validation"

	"bronzeward/policy"
)

// validator is the part of machinery's provider that validates.
type validator interface {
	Validate(validation.RuntimeMode, ...validation.Option) ([]string, error)
}

// validate runs machinery's own validation as the node runs it. What needs the node's
// state is left to the node.
func validate(p *parsed) (out []policy.Problem) {
	defer func() {
		if recover() != nil {
			out = []policy.Problem{{Kind: "unsafe", Message: "machinery's validation stopped on the configuration"}}
		}
	}()
	provider, ok := p.provider.(validator)
	if !ok {
		return []policy.Problem{{Kind: "invalid", Message: "the configuration cannot be validated"}}
	}
	if _, err := provider.Validate(runningMetal{}); err != nil {
		return validationProblems(err)
	}
	return nil
}
