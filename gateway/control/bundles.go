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

// SaveBundle keeps a bundle's bytes under its revision. It makes nothing live. Saving the
// same revision again is recorded and changes nothing. That the bytes are the revision's is
// the caller's to have checked (policy.Open), and is checked again by whoever loads them.
func (s *Store) SaveBundle(ctx context.Context, revision string, content []byte, act Act) (audit.Receipt, error) {
	if !revisionShape.MatchString(revision) || len(content) == 0 || len(content) > maxBundle {
		return audit.Receipt{}, fmt.Errorf("%w: a bundle has a revision of 64 hex digits and 1 to %d bytes", ErrInvalid, maxBundle)
	}
	return s.act(ctx, shared, act, func(tx pgx.Tx, _ Stamp, entry *audit.Entry) error {
		if _, err := tx.Exec(ctx, sqlBundleAdd, revision, content, entry.ID); err != nil {
			return sqlError("saving the bundle", err)
		}
		return nil
	})
}

// ActivateBundle makes a saved bundle live under a counter above the live one's; zero takes
// the next. An old counter is ErrConflict, a bundle that was not saved ErrNotFound.
func (s *Store) ActivateBundle(ctx context.Context, revision string, counter int64, act Act) (audit.Receipt, error) {
	if !revisionShape.MatchString(revision) || counter < 0 {
		return audit.Receipt{}, fmt.Errorf("%w: a revision is 64 hex digits and a counter is not negative", ErrInvalid)
	}
	return s.act(ctx, exclusive, act, func(tx pgx.Tx, _ Stamp, entry *audit.Entry) error {
		var live int64
		if err := tx.QueryRow(ctx, sqlBundleCounter).Scan(&live); err != nil {
			return sqlError("reading the live counter", err)
		}
		next := counter
		if next == 0 {
			next = live + 1
		}
		tag, err := tx.Exec(ctx, sqlBundleActivate, revision, next, entry.ID)
		if err != nil {
			return sqlError("activating bundle "+revision, err)
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("activating bundle %s: %w: counter %d is not above the live %d", revision, ErrConflict, next, live)
		}
		return nil
	})
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
