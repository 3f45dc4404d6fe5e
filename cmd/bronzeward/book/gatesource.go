package book

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/ask"
)

// gateway reads decisions at a gateway, as one person.
type gateway struct{ *ask.Client }

var errNotYet = errors.New("this gateway does not serve decisions yet")

func (g *gateway) list(context.Context, question) ([]decision, string, error) {
	return nil, "", errNotYet
}

func (g *gateway) show(context.Context, uuid.UUID) (*whole, error) { return nil, errNotYet }

func (g *gateway) follow(context.Context, audit.Filter, string, int) ([]decision, string, bool, error) {
	return nil, "", false, errNotYet
}
