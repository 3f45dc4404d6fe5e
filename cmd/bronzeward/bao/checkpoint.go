package bao

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"

	"bronzeward/audit/tree"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/vault"
)

type openBaoCheckpointKeyCmd struct {
	tokenFlags
	PublicKey bool `help:"Print a public key file, as verifying takes it, and nothing else."`
}

// publicKey is one version of the key that signs checkpoints.
type publicKey struct {
	Version int    `json:"version"`
	Ed25519 string `json:"ed25519"`
	// Verifier is the same key as a line of a public key file.
	Verifier string `json:"verifier"`
}

// Run prints the public keys.
func (c *openBaoCheckpointKeyCmd) Run(ctx context.Context, g *cli.Globals) error {
	if c.PublicKey && g.Output != "table" {
		return cli.Usage(errors.New("--public-key prints a public key file; leave out --output"))
	}
	_, client, err := operator(g, c.tokenFlags)
	if err != nil {
		return err
	}
	defer client.Close()
	keys, err := vault.NewCheckpointSigner(client).PublicKeys(ctx)
	if err != nil {
		return err
	}
	out := make([]publicKey, 0, len(keys))
	for _, version := range slices.Sorted(maps.Keys(keys)) {
		verifier, err := tree.VerifierKey(keys[version])
		if err != nil {
			return fmt.Errorf("spelling version %d of the checkpoint key: %w", version, err)
		}
		out = append(out, publicKey{version, base64.StdEncoding.EncodeToString(keys[version]), verifier})
	}
	if c.PublicKey {
		// Written in one go: what goes into a file is whole, or the command failed before.
		text := "# Public keys that verify checkpoints of the book, one line for each version.\n"
		for _, k := range out {
			text += k.Verifier + "\n"
		}
		_, err := fmt.Fprint(g.Out, text)
		return err
	}
	return g.Print(out, []string{"VERSION", "ED25519", "VERIFIER"}, func(row func(...string)) {
		for _, k := range out {
			row(fmt.Sprint(k.Version), k.Ed25519, k.Verifier)
		}
	})
}
