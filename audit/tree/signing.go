package tree

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/note"
)

// signing has checkpoints signed. One call at a time.
type signing struct {
	signer Signer
	keys   map[int]ed25519.PublicKey // by version, as last asked
}

// sign returns the signed note of c, verified. It first demands that last, the checkpoint before it, was signed by a
// version of the same key: somebody who wrote another checkpoint into the database, to have another tree signed, does
// not have it.
func (g *signing) sign(ctx context.Context, c Checkpoint, last Stored) ([]byte, error) {
	if err := g.demand(ctx, last); err != nil {
		return nil, err
	}
	text := c.Text()
	signature, version, err := g.signer.Sign(ctx, []byte(text))
	if err != nil {
		return nil, fmt.Errorf("signing a checkpoint: %w", err)
	}
	key := g.keys[version]
	if !verifies(key, text, signature) {
		if err := g.ask(ctx); err != nil {
			return nil, err
		}
		if err := g.demand(ctx, last); err != nil {
			return nil, err
		}
		if key = g.keys[version]; !verifies(key, text, signature) {
			return nil, fmt.Errorf("signing a checkpoint: %w: the signature does not verify under version %d of the key", ErrSignature, version)
		}
	}
	v, err := verifier(key)
	if err != nil {
		return nil, err
	}
	out, err := note.Sign(&note.Note{Text: text}, given{v, signature})
	if err != nil {
		return nil, fmt.Errorf("signing a checkpoint: %w", err)
	}
	opened, err := OpenCheckpoint(out, note.VerifierList(v))
	if err != nil {
		return nil, fmt.Errorf("signing a checkpoint: %w", err)
	}
	if opened.Text() != text {
		return nil, errors.New("signing a checkpoint: the note says something else than what was signed")
	}
	return out, nil
}

func verifies(key ed25519.PublicKey, text string, signature []byte) bool {
	return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, []byte(text), signature)
}

// demand opens the last checkpoint with the known keys, and asks for new ones if they do not suffice.
func (g *signing) demand(ctx context.Context, last Stored) error {
	if last.Size == 0 || g.opens(last) == nil {
		return nil
	}
	if err := g.ask(ctx); err != nil {
		return err
	}
	if err := g.opens(last); err != nil {
		return fmt.Errorf("the last stored checkpoint (%d leaves) is not one that the key in use signed; nothing is signed on top of it. "+
			"If old versions of the key were put away (min_decryption_version), make them available again; if the key was made anew, a new epoch begins a new tree: %w",
			last.Size, err)
	}
	return nil
}

// opens opens the note with the known keys.
func (g *signing) opens(last Stored) error {
	var list []note.Verifier
	for _, key := range g.keys {
		v, err := verifier(key)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(list, func(o note.Verifier) bool { return o.KeyHash() == v.KeyHash() }) {
			list = append(list, v)
		}
	}
	_, err := OpenCheckpoint(last.Note, note.VerifierList(list...))
	return err
}

func (g *signing) ask(ctx context.Context) error {
	keys, err := g.signer.PublicKeys(ctx)
	if err != nil {
		return fmt.Errorf("reading the public keys: %w", err)
	}
	g.keys = keys
	return nil
}

func verifier(key ed25519.PublicKey) (note.Verifier, error) {
	text, err := VerifierKey(key)
	if err != nil {
		return nil, err
	}
	v, err := note.NewVerifier(text)
	if err != nil {
		return nil, fmt.Errorf("spelling a public key: %w: %w", ErrKeys, err)
	}
	return v, nil
}

// given is a note.Signer that has its signature already: which version of the key signs is known only afterwards.
type given struct {
	note.Verifier
	signature []byte
}

func (s given) Sign([]byte) ([]byte, error) { return s.signature, nil }
