package changes

import (
	"context"
	"slices"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// holdsOn reads what holds the machine of a change. Who may not look at machines is told
// nothing of it.
func (a *apiClient) holdsOn(ctx context.Context, c *api.Change) []api.Hold {
	if c.State == api.ChangeStateSpent {
		return nil
	}
	m, _, err := ask.Received[api.Machine](a.GetMachine(ctx, c.Machine))
	if err != nil {
		return nil
	}
	return m.Holds
}

// stopping are the holds that keep a live change from being carried out: what settles a drift
// is not held by that one, and what only adopts not by a freeze.
func stopping(c *api.Change, holds []api.Hold) []api.Hold {
	if !live(c) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(holds), func(h api.Hold) bool {
		return h.Kind == api.HoldKindDrift && h.ID != "" && h.ID == c.DriftID || h.Kind == api.HoldKindFreeze && c.Kind == api.Adopt
	})
}

// again is what can be done instead of a change that has ended: nothing where the machine takes
// none any more, and nothing else before a drift while one is open.
func again(c *api.Change, holds []api.Hold) []string {
	for _, h := range holds {
		switch h.Kind {
		case api.HoldKindRetired:
			return nil
		case api.HoldKindDrift:
			return []string{"bronzeward drift show " + h.ID}
		}
	}
	if c.Kind != api.Apply {
		return []string{"bronzeward drift show " + c.DriftID}
	}
	return []string{"bronzeward changes submit -n " + cli.ShellWord(c.Machine) + " -f FILE"}
}
