package control

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
	"bronzeward/policy"
)

// The ways in which a bundle becomes live.
const (
	WayActivate = "activate"
	WayRollback = "rollback"
)

// Agreement is one person's to a law that is to follow the live one.
type Agreement struct {
	policy.Person
	Groups []string
	At     time.Time
}

// LawStamp is what is read under the authority lock about the law that an act is about.
type LawStamp struct {
	// Agreed are the agreements that count now, oldest first; one for each person.
	Agreed []Agreement
	// Highest is the highest counter of a signed bundle that was ever live; zero when none was.
	Highest int64
	// WasLive is true when the revision was live before, or is.
	WasLive bool
}

// NewLive says which saved bundle is to become live.
type NewLive struct {
	Revision string
	// Way is WayActivate or WayRollback.
	Way string
	// Signed is the counter that the signed bundle carries; zero where no key is pinned.
	Signed int64
	// Required is how many others must have agreed, asked when Act.Entry has judged.
	Required func(entry uuid.UUID) int
}

// ActivateBundle makes a saved bundle live. Act.Entry is given Stamp.Law, and judges by it; the rows
// refuse by themselves (*GuardError) a signed counter that was reached before, a rollback to what
// never was live, and too few agreements. A bundle that was not saved is ErrNotFound.
func (s *Store) ActivateBundle(ctx context.Context, n NewLive, act Act) (audit.Receipt, error) {
	if !revisionShape.MatchString(n.Revision) || n.Signed < 0 {
		return audit.Receipt{}, fmt.Errorf("%w: a revision is 64 hex digits and a counter is not negative", ErrInvalid)
	}
	act.law = n.Revision
	return s.act(ctx, exclusive, act, func(tx pgx.Tx, _ Stamp, entry *audit.Entry) error {
		required := 0
		if n.Required != nil {
			required = n.Required(entry.ID)
		}
		var counter int64
		err := tx.QueryRow(ctx, sqlBundleActivate, n.Revision, entry.ID, n.Way, n.Signed, required, act.By.Issuer, act.By.Subject).Scan(&counter)
		if err != nil {
			return sqlError("activating bundle "+n.Revision, err)
		}
		if _, err := tx.Exec(ctx, sqlBundleLive, n.Revision, counter); err != nil {
			return sqlError("activating bundle "+n.Revision, err)
		}
		return nil
	})
}

// ApproveBundle keeps one person's agreement that a saved bundle follows the live one. It counts in
// this epoch, and until another bundle becomes live. Agreeing again is ErrConflict.
func (s *Store) ApproveBundle(ctx context.Context, revision string, who Approver, act Act) (audit.Receipt, error) {
	if !revisionShape.MatchString(revision) {
		return audit.Receipt{}, fmt.Errorf("%w: a revision is 64 hex digits", ErrInvalid)
	}
	if who.Person != act.By {
		return audit.Receipt{}, fmt.Errorf("%w: whoever acts agrees for nobody else", ErrInvalid)
	}
	return s.act(ctx, shared, act, func(tx pgx.Tx, _ Stamp, entry *audit.Entry) error {
		_, err := tx.Exec(ctx, sqlBundleApprove, revision, who.Issuer, who.Subject, who.Kind, append([]string{}, who.Groups...), entry.ID)
		if err != nil {
			return sqlError("agreeing to bundle "+revision, err)
		}
		return nil
	})
}

// readLaw reads what an act about a law is judged by, under the authority lock.
func readLaw(ctx context.Context, tx pgx.Tx, revision string) (LawStamp, error) {
	var l LawStamp
	b := &pgx.Batch{}
	b.Queue(sqlBundleAgreed, revision).Query(func(rows pgx.Rows) (err error) {
		l.Agreed, err = pgx.CollectRows(rows, scanAgreement)
		return err
	})
	b.Queue(sqlBundleHighest, revision).QueryRow(func(row pgx.Row) error { return row.Scan(&l.Highest, &l.WasLive) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return LawStamp{}, sqlError("reading who agreed to bundle "+revision, err)
	}
	return l, nil
}

func scanAgreement(row pgx.CollectableRow) (a Agreement, err error) {
	err = row.Scan(&a.Issuer, &a.Subject, &a.Groups, &a.At)
	return a, err
}

// Agreed are the agreements to a bundle that count now, for people to look at.
func (s *Store) Agreed(ctx context.Context, revision string) ([]Agreement, error) {
	return collect(ctx, s, "reading who agreed to a law", sqlBundleAgreed, scanAgreement, revision)
}

// BundleActivation is one time that a bundle became live.
type BundleActivation struct {
	// Counter grows by one each time.
	Counter  int64
	Revision string
	Way      string
	// Signed is the counter that the signed bundle carries; zero where no key was pinned.
	Signed int64
	// Required is how many others had to agree.
	Required int
	policy.Person
	EntryID uuid.UUID
	At      time.Time
}

// BundleActivations are the times that a bundle became live, the newest first; at most 1000.
func (s *Store) BundleActivations(ctx context.Context) ([]BundleActivation, error) {
	return collect(ctx, s, "listing what was live", sqlBundlesActivated, func(row pgx.CollectableRow) (a BundleActivation, err error) {
		err = row.Scan(&a.Counter, &a.Revision, &a.Way, &a.Signed, &a.Required, &a.Issuer, &a.Subject, &a.EntryID, &a.At)
		return a, err
	})
}

const historyHint = "bronzeward policy history lists what was live"

var revisionStart = regexp.MustCompile(`^[0-9a-f]{8,64}$`)

// BundleNamed is the revision of the saved bundle that begins so, with at least eight hex digits.
// None is ErrNotFound, several are ErrInvalid.
func (s *Store) BundleNamed(ctx context.Context, start string) (string, error) {
	if !revisionStart.MatchString(start) {
		return "", Advised(ErrInvalid, historyHint, "%q is no revision, which has 64 hex digits, of which the first eight are enough", clip(start))
	}
	found, err := collect(ctx, s, "looking for a bundle", sqlBundlesNamed, pgx.RowTo[string], start)
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", Advised(ErrNotFound, "bronzeward policy save DIR keeps one, and bronzeward policy history lists what was live", "no law is saved under %.12s", start)
	case len(found) > 1:
		return "", Advised(ErrInvalid, "give more of its digits, which bronzeward policy history -o json has whole", "several laws begin with %s", start)
	}
	return found[0], nil
}

// SeenPeople are people, not automation, who were seen with a token or agreed to a law, and are not
// revoked; at most 10000 rows, one for each set of groups they were seen with.
func (s *Store) SeenPeople(ctx context.Context) ([]Approver, error) {
	return collect(ctx, s, "listing who was seen", sqlPeopleSeen, func(row pgx.CollectableRow) (a Approver, err error) {
		err = row.Scan(&a.Issuer, &a.Subject, &a.Kind, &a.Groups)
		return a, err
	})
}

// collect reads all rows of a statement.
func collect[T any](ctx context.Context, s *Store, doing, sql string, scan pgx.RowToFunc[T], args ...any) ([]T, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, unavailable(doing, err)
	}
	out, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, unavailable(doing, err)
	}
	return out, nil
}
