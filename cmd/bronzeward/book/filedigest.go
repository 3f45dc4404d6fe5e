package book

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// digests adds those of the file that is named to what is asked for: under every key that is kept,
// because the key of that time counts. A gateway computes them, since no database has the keys.
func (d *filterFlags) digests(ctx context.Context, g *cli.Globals, flags ask.Flags, f *audit.Filter) error {
	switch {
	case d.File == "":
		return nil
	case d.Digest != "":
		return cli.Usage(errors.New("--file and --digest both say which configuration: give one"))
	}
	text, err := g.Configuration(d.File)
	if err != nil {
		return err
	}
	client, err := flags.Open(g)
	if err != nil {
		return cli.Usage(fmt.Errorf("--file: a gateway computes the digests of a file, because no database has the keys; where there is none, --digest takes one that is known\n%w", err))
	}
	defer client.Close()
	defer client.Busy("computing the digests of %d bytes", len(text))()
	made, _, err := ask.Received[api.ComputedDigest](client.ComputeDigestWithBody(ctx, nil, "application/yaml", bytes.NewReader(text)))
	if err != nil {
		return err
	}
	f.Digests = []string{made.Digest}
	if made.Under != nil {
		f.Digests = slices.AppendSeq(f.Digests, maps.Values(*made.Under))
	}
	slices.Sort(f.Digests)
	f.Digests = slices.Compact(f.Digests)
	return nil
}
