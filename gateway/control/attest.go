package control

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
	"bronzeward/policy"
)

// Attest writes down an act whose effect is not in this database: it is judged under the authority lock, and nothing but its
// entry comes of it here. done is called under the locks, once the law has allowed the act, with the entry's id; it is pure,
// may be called again, and gives what the act's Idempotency-Key keeps. Its error rolls back all.
func (s *Store) Attest(ctx context.Context, act Act, done func(entry uuid.UUID) (any, error)) (audit.Receipt, error) {
	return s.act(ctx, shared, act, func(_ pgx.Tx, _ Stamp, entry *audit.Entry) error {
		result, err := done(entry.ID)
		if err != nil {
			return err
		}
		act.Once.came(result)
		return nil
	})
}

// KeepAnswer keeps with its key what an attested act came to whose effect followed its entry. Until then a repetition finds the
// key taken and no answer. Without a Once it does nothing.
func (s *Store) KeepAnswer(ctx context.Context, by policy.Person, o *Once, result any) error {
	if o == nil {
		return nil
	}
	o.came(result)
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return keepOnce(ctx, tx, by, o, uuid.Nil) })
}

// LeaveFree leaves the key of an attested act free whose effect failed: it may be asked again. Without a Once it does nothing.
func (s *Store) LeaveFree(ctx context.Context, by policy.Person, o *Once) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return forgetOnce(ctx, tx, by, o) })
}

// IssuedCertificate is what came of asking for a certificate.
type IssuedCertificate struct {
	// PEM is the chain, leaf first; Serial is in lower-case hex.
	PEM, Serial string
	// NotAfter is when the first certificate of the chain ends.
	NotAfter time.Time
	// Clusters are the names of those the person may see; none is null.
	Clusters []string
	EntryID  uuid.UUID
}

// ComputedDigest is the configuration digest of a text that somebody asked for.
type ComputedDigest struct {
	// Digest is under the current key, Under under each key version there is; none with a scheme that has no versions.
	Digest  string
	Under   map[string]string
	EntryID uuid.UUID
}

// DigestKey is a version of the keys of configuration digests.
type DigestKey struct {
	Version string
	// UsableFrom is when new digests are made with it; the zero time when it always was.
	UsableFrom time.Time
}

// AddedDigestKey is a key that somebody added.
type AddedDigestKey struct {
	DigestKey
	EntryID uuid.UUID
}
