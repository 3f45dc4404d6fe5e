package changes

import (
	"bronzeward/cmd/bronzeward/cli"

	"bronzeward/cmd/bronzeward/ask"
)

// clientFlags say which gateway a command asks, and who asks.
type clientFlags struct{ ask.Flags }

// apiClient asks one gateway as one person.
type apiClient struct{ *ask.Client }

// open readies the client; nothing is sent yet.
func (f clientFlags) open(g *cli.Globals) (*apiClient, error) {
	client, err := f.Flags.Open(g)
	return &apiClient{client}, err
}
