package control

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// AskedAhead is how many laws a replica compiles ahead: those that were asked for last. One is on its way, and
// one somebody else brings meanwhile.
const AskedAhead = 2

// Ahead is which laws a replica has compiled, so that none of its calls waits when one becomes live.
type Ahead struct {
	// Prepared are compiled, live or not.
	Prepared []string
	// Preparing were asked for, and it is at them.
	Preparing []string
	// Unprepared were asked for and could not be compiled, or are not signed by a key it pins.
	Unprepared []string
}

// Preparation is how far a replica is with one law.
type Preparation int

// A replica that is Unaware has not told that it was asked: an older program, or one that has just died.
const (
	Unaware Preparation = iota
	UnderWay
	Failed
	Done
)

// Preparation says how far the replica is with a law.
func (r Replica) Preparation(revision string) Preparation {
	switch {
	case r.Loaded == revision || slices.Contains(r.Prepared, revision):
		return Done
	case slices.Contains(r.Unprepared, revision):
		return Failed
	case slices.Contains(r.Preparing, revision):
		return UnderWay
	}
	return Unaware
}

// AskPrepared asks every replica to compile a saved law ahead. It makes nothing live, is one statement on its
// own, and nothing is decided by it. A law that was not saved is ErrNotFound.
func (s *Store) AskPrepared(ctx context.Context, revision string) error {
	if _, err := s.pool.Exec(ctx, sqlBundlePrepare, revision); err != nil {
		return sqlError("asking for a law to be prepared", err)
	}
	return nil
}

// AskedLaw is a law that replicas are asked to compile ahead.
type AskedLaw struct {
	Revision string
	// At is when it was last asked for, by the database's clock.
	At time.Time
}

// AskedLaws are those to compile ahead, the last first; at most AskedAhead.
func (s *Store) AskedLaws(ctx context.Context) ([]AskedLaw, error) {
	return collect(ctx, s, "reading which laws are to be prepared", sqlBundlesAsked, pgx.RowToStructByPos[AskedLaw], AskedAhead)
}

// KeepsProof is true while exactly this proof of a saved bundle is kept.
func (s *Store) KeepsProof(ctx context.Context, revision string, signatures, manifest []byte) (kept bool, err error) {
	signed, said := sha256.Sum256(signatures), sha256.Sum256(manifest)
	if err := s.pool.QueryRow(ctx, sqlBundleProofKept, revision, signed[:], said[:]).Scan(&kept); err != nil {
		return false, unavailable("looking for the signature of bundle "+clip(revision), err)
	}
	return kept, nil
}
