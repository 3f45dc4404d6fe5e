package control

import (
	"cmp"
	"context"
)

// LiveLaw is the live law as people look at it.
type LiveLaw struct {
	Replicas
	// Activation is how it became live; null when that is not recorded.
	Activation *BundleActivation
	// Proof is the saved proof that fits the activation, or else the newest; null when it is not signed.
	// KeyID is who it was verified with when it came.
	Proof *BundleProof
}

// LiveLaw reads it.
func (s *Store) LiveLaw(ctx context.Context) (LiveLaw, error) {
	replicas, err := s.Replicas(ctx)
	if err != nil || replicas.Live == "" {
		return LiveLaw{Replicas: replicas}, err
	}
	out := LiveLaw{Replicas: replicas}
	past, err := s.BundleActivations(ctx)
	if err != nil {
		return LiveLaw{}, err
	}
	for _, a := range past {
		if a.Counter == replicas.Counter && a.Revision == replicas.Live {
			out.Activation = &a
			break
		}
	}
	proofs, err := s.BundleProofs(ctx, replicas.Live)
	if err != nil {
		return LiveLaw{}, err
	}
	for _, p := range proofs {
		if out.Proof = cmp.Or(out.Proof, &p); out.Activation != nil && p.KeyID != "" && p.Counter == out.Activation.Signed {
			out.Proof = &p
			break
		}
	}
	return out, nil
}
