package control

import (
	"context"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
)

var revisionShape = regexp.MustCompile(`^[0-9a-f]{64}$`)

// maxBundle bounds a bundle's bytes.
const maxBundle = 8 << 20

// BundleProof is what proves a bundle, as its signer made it. It is only a claim: whoever loads the
// bundle verifies it with keys of their own.
type BundleProof struct {
	// KeyID is the pinned key it was verified with when it came; empty when none was pinned then.
	KeyID string
	// Counter is what the manifest says.
	Counter int64
	// Signatures and Manifest are the files .signatures.json and .manifest.
	Signatures, Manifest []byte
}

// SaveBundle keeps a bundle's bytes under its revision, and what proves it where proof is not null.
// It makes nothing live. Saving the same again is recorded and changes nothing; a revision may have
// several proofs. That the bytes are the revision's is the caller's to have checked (policy.Open), and
// is checked again by whoever loads them.
func (s *Store) SaveBundle(ctx context.Context, revision string, content []byte, proof *BundleProof, act Act) (audit.Receipt, error) {
	if !revisionShape.MatchString(revision) || len(content) == 0 || len(content) > maxBundle {
		return audit.Receipt{}, fmt.Errorf("%w: a bundle has a revision of 64 hex digits and 1 to %d bytes", ErrInvalid, maxBundle)
	}
	return s.act(ctx, shared, act, func(tx pgx.Tx, _ Stamp, entry *audit.Entry) error {
		if _, err := tx.Exec(ctx, sqlBundleAdd, revision, content, entry.ID); err != nil {
			return sqlError("saving the bundle", err)
		}
		if proof == nil {
			return nil
		}
		_, err := tx.Exec(ctx, sqlBundleSignatureAdd, revision, proof.KeyID, proof.Counter, proof.Signatures, append([]byte{}, proof.Manifest...), entry.ID)
		if err != nil {
			return sqlError("saving the bundle's signature", err)
		}
		return nil
	})
}

// BundleProofs are the proofs of a saved bundle, the newest first.
func (s *Store) BundleProofs(ctx context.Context, revision string) ([]BundleProof, error) {
	rows, err := s.pool.Query(ctx, sqlBundleSignatures, revision)
	if err != nil {
		return nil, unavailable("reading the signatures of bundle "+clip(revision), err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[BundleProof])
	if err != nil {
		return nil, unavailable("reading the signatures of bundle "+clip(revision), err)
	}
	return out, nil
}

// CountBundleProofs is how many proofs a saved bundle has.
func (s *Store) CountBundleProofs(ctx context.Context, revision string) (n int, err error) {
	if err := s.pool.QueryRow(ctx, sqlBundleProofsCount, revision).Scan(&n); err != nil {
		return 0, unavailable("counting the signatures of bundle "+clip(revision), err)
	}
	return n, nil
}

// BundleCame says in which way the live bundle became so, and the highest counter of a signed bundle that
// was live before it; zero when none was. ErrNotFound when the revision is not the live one.
func (s *Store) BundleCame(ctx context.Context, revision string) (way string, highest int64, err error) {
	if err := s.pool.QueryRow(ctx, sqlBundleCame, revision).Scan(&way, &highest); err != nil {
		return "", 0, sqlError("reading how bundle "+clip(revision)+" became live", err)
	}
	return way, highest, nil
}

// LiveBundle reads the live bundle; ErrNotFound when none is live.
func (s *Store) LiveBundle(ctx context.Context) (revision string, content []byte, err error) {
	if err := s.pool.QueryRow(ctx, sqlLiveBundle).Scan(&revision, &content); err != nil {
		return "", nil, sqlError("reading the live bundle", err)
	}
	return revision, content, nil
}

// Bundle reads a saved bundle's bytes; ErrNotFound when there is none.
func (s *Store) Bundle(ctx context.Context, revision string) ([]byte, error) {
	var content []byte
	if err := s.pool.QueryRow(ctx, sqlBundle, revision).Scan(&content); err != nil {
		return nil, sqlError("reading bundle "+clip(revision), err)
	}
	return content, nil
}
