package main

import (
	"context"
	"fmt"

	"bronzeward/fixtures/world"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/gateway/httpapi/apiclient"
)

// client is the HTTP API as a person reaches it, by certificate.
func client(w *world.World, person string) (*apiclient.ClientWithResponses, error) {
	return w.Client(person)
}

// change reads one change as a viewer.
func change(ctx context.Context, w *world.World, id string) (*api.Change, error) {
	c, err := client(w, "vera")
	if err != nil {
		return nil, err
	}
	answer, err := c.GetChangeWithResponse(ctx, id, nil)
	if err != nil {
		return nil, err
	}
	if answer.JSON200 == nil {
		return nil, fmt.Errorf("reading change %s: %s\n%s", id, answer.Status(), answer.Body)
	}
	return answer.JSON200, nil
}
