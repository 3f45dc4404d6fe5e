package main

import (
	"context"
	"fmt"
	"time"

	"bronzeward/fixtures/world"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/gateway/httpapi/apiclient"
)

// driftWithin is how soon a drift is to be found after the machine was changed; lookWithin how long is waited for it at all.
const (
	driftWithin = time.Second
	lookWithin  = 20 * time.Second
	lookEvery   = 50 * time.Millisecond
)

// drifts are those of a machine, newest first.
func drifts(ctx context.Context, w *world.World, machine string) ([]api.Drift, error) {
	c, err := client(w, "vera")
	if err != nil {
		return nil, err
	}
	return driftsBy(ctx, c, machine)
}

func driftsBy(ctx context.Context, c *apiclient.ClientWithResponses, machine string) ([]api.Drift, error) {
	answer, err := c.ListDriftsWithResponse(ctx, &api.ListDriftsParams{Machine: &machine})
	if err != nil {
		return nil, err
	}
	if answer.JSON200 == nil {
		return nil, fmt.Errorf("reading the drifts of %s: %s\n%s", machine, answer.Status(), answer.Body)
	}
	return answer.JSON200.Items, nil
}

// untilDrift waits until the newest drift of the machine is in that state.
func untilDrift(ctx context.Context, w *world.World, machine string, state api.DriftState) (api.Drift, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		list, err := drifts(ctx, w, machine)
		if err != nil {
			return api.Drift{}, fmt.Errorf("waiting for a drift of %s that is %s: %w", machine, state, err)
		}
		if len(list) > 0 && list[0].State == state {
			return list[0], nil
		}
		select {
		case <-ctx.Done():
			return api.Drift{}, fmt.Errorf("no drift of %s is %s after %s: %+v", machine, state, lookWithin, list)
		case <-tick.C:
		}
	}
}
