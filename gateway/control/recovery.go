package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
	"bronzeward/policy"
)

// RecoveryState says in one word whether the house may decide on what its database says.
type RecoveryState string

// The states. In all but RecoveryNone no attempt opens.
const (
	RecoveryNone RecoveryState = "none"
	// RecoveryRolledBack: the database is older than OpenBao remembers, or another.
	RecoveryRolledBack RecoveryState = "rolled-back"
	// RecoveryOlderOpenBao: OpenBao is older than the database remembers.
	RecoveryOlderOpenBao RecoveryState = "older-openbao"
	// RecoveryEntered: a recovery was entered, and has not been ended.
	RecoveryEntered RecoveryState = "entered"
)

// Standing is whether the house is in recovery, as decisions see it. The zero value is that it is not.
type Standing struct {
	State RecoveryState
	// Message is what was found, one sentence; empty but for RolledBack and OlderOpenBao.
	Message string
	// Since is when that was found, or when the recovery was entered; zero for RecoveryNone.
	Since time.Time
}

// Stops is true while nothing may be sent to a machine that changes it.
func (s Standing) Stops() bool { return s.State != "" && s.State != RecoveryNone }

// Doubtful is true while the database, or OpenBao, may be older than it was: nothing that
// authority decides is done then, because authority may have been taken away in what is lost.
func (s Standing) Doubtful() bool { return s.Stops() && s.State != RecoveryEntered }

// Hold is the recovery as a reason why every machine is closed.
func (s Standing) Hold(epoch uuid.UUID) policy.Hold {
	return policy.Hold{Kind: policy.HoldRecovery, ID: epoch.String(), Since: s.Since, Scope: "machine"}
}

// scanWithStanding scans fields, and then the last three columns of stamp.sql and confirm.sql.
func scanWithStanding(row pgx.Row, into *Standing, fields ...any) error {
	var state string
	var since *time.Time
	if err := row.Scan(append(fields, &state, &into.Message, &since)...); err != nil {
		return err
	}
	into.State, into.Since = RecoveryState(state), time.Time{}
	if since != nil {
		into.Since = since.UTC()
	}
	return nil
}

// Found is what a comparison with the anchor came to.
type Found struct {
	// OfEpoch is the epoch that was in force before the comparison began: it is marked in no other.
	OfEpoch uuid.UUID
	// State is RecoveryRolledBack or RecoveryOlderOpenBao.
	State RecoveryState
	// Message is one sentence for whoever is refused.
	Message string
	// LostRows is how many entries and outcomes the anchor remembers and the database lacks, at most,
	// of the time from LostFrom to LostUntil; LostRevocations how many revoked identities.
	LostRows            int64
	LostFrom, LostUntil *time.Time
	LostRevocations     int64
	// OldSize and OldRoot are the head that the anchor remembers; Root in hexadecimal digits.
	OldSize int64
	OldRoot string
	// Since is when it was found, by the database's clock; read only.
	Since *time.Time
	// Revocations is how many identities were revoked here when it was found; read only.
	Revocations int64
}

// AnchorVersion is the KV version of the anchor that this database last wrote; 0 before the first.
func (s *Store) AnchorVersion(ctx context.Context) (version int64, err error) {
	if err := s.watch.QueryRow(ctx, sqlAnchorVersion).Scan(&version); err != nil {
		return 0, unavailable("reading the version of the anchor", err)
	}
	return version, nil
}

// RememberAnchor keeps the KV version of the anchor that was written; a lower one changes nothing.
func (s *Store) RememberAnchor(ctx context.Context, version int64) error {
	if _, err := s.watch.Exec(ctx, sqlAnchorRemember, version); err != nil {
		return sqlError("remembering the version of the anchor", err)
	}
	return nil
}

// FoundNow is what is marked, State RecoveryNone when nothing is, and the epoch in force; and with it
// the KV version of the anchor that this database last wrote.
func (s *Store) FoundNow(ctx context.Context) (f Found, anchor int64, err error) {
	f, anchor, _, err = readFound(ctx, s.watch)
	return f, anchor, err
}

// readFound gives the mark, the version of the anchor, and how many identities are revoked now.
func readFound(ctx context.Context, q querier) (f Found, anchor, revoked int64, err error) {
	var mark string
	err = q.QueryRow(ctx, sqlRecovery).Scan(&f.OfEpoch, &mark, &f.Message, &f.Since, &f.LostRows, &f.LostFrom, &f.LostUntil, &f.LostRevocations,
		&f.Revocations, &f.OldSize, &f.OldRoot, &anchor, &revoked)
	if err != nil {
		return f, 0, 0, sqlError("reading what was found", err)
	}
	f.State = RecoveryState(mark)
	return f, anchor, revoked, nil
}

// errNothingToMark ends an act that turns out, under the lock, to have nothing to do: nothing of it is
// written.
var errNothingToMark = errors.New("nothing is to be marked")

// saysMore is whether a finding says more than what is marked: it is of the epoch in force, no
// finding that the database is rolled back is marked, and not this very one.
func (f Found) saysMore(there Found) bool {
	return f.OfEpoch == there.OfEpoch && there.State != RecoveryRolledBack && (there.State != f.State || there.Message != f.Message)
}

// MarkFound writes what was found by comparing with the anchor, so that every replica refuses from
// the next decision on, and an entry that says it. What is marked as rolled back already stays as it
// was found; then, when the very same is marked, and when another epoch has begun since the
// comparison, nothing is written: what was found was of the one that ended.
func (s *Store) MarkFound(ctx context.Context, f Found) error {
	// Looked at before, so that what is known takes no lock.
	if there, _, err := s.FoundNow(ctx); err != nil || !f.saysMore(there) {
		return err
	}
	return s.mark(ctx, f)
}

// mark is MarkFound under the lock.
func (s *Store) mark(ctx context.Context, f Found) error {
	return s.remark(ctx, f.Message, f.saysMore, func(tx pgx.Tx, st Stamp) error {
		_, err := tx.Exec(ctx, sqlRecoveryMark, string(f.State), f.Message, f.LostRows, f.LostFrom, f.LostUntil, f.LostRevocations, f.OldSize, f.OldRoot, st.Now)
		if err != nil {
			return sqlError("marking what was found", err)
		}
		return nil
	})
}

// UnmarkOlder takes RecoveryOlderOpenBao back when OpenBao is the newer one again. was is what was
// marked before that was compared: anything else that is marked, or was found since, stays.
func (s *Store) UnmarkOlder(ctx context.Context, was Found) error {
	if was.State != RecoveryOlderOpenBao || was.Since == nil {
		return nil
	}
	still := func(there Found) bool {
		return there.OfEpoch == was.OfEpoch && there.State == was.State && there.Since != nil && there.Since.Equal(*was.Since)
	}
	return s.remark(ctx, "OpenBao remembers what this database remembers of it again", still, func(tx pgx.Tx, _ Stamp) error {
		if _, err := tx.Exec(ctx, sqlRecoveryUnmark, false); err != nil {
			return sqlError("taking the mark off", err)
		}
		return nil
	})
}

// remark changes the mark when, under the exclusive lock, what is marked still asks for it.
func (s *Store) remark(ctx context.Context, detail string, asked func(there Found) bool, do func(pgx.Tx, Stamp) error) error {
	_, err := s.act(ctx, exclusive, bySystem("recovery.found", detail), func(tx pgx.Tx, st Stamp, _ *audit.Entry) error {
		there, _, _, err := readFound(ctx, tx)
		switch {
		case err != nil:
			return err
		case !asked(there):
			return errNothingToMark
		}
		return do(tx, st)
	})
	if errors.Is(err, errNothingToMark) {
		return nil
	}
	return err
}

// bySystem is an act of the gateway itself.
func bySystem(method, detail string) Act {
	return Act{Entry: func(st Stamp) audit.Entry {
		return audit.Entry{Kind: audit.KindSystem, Verdict: audit.Allowed, Method: method, Class: "act", PolicyRevision: st.LiveRevision, Detail: detail}
	}}
}

// RecoveryError says why an act of recovery cannot be done. Nothing was recorded.
type RecoveryError struct {
	// Code is stable: BW-RECOVERY-004 to -006.
	Code    string
	Message string
	// Hint is what helps.
	Hint string
}

// Error is the message.
func (e *RecoveryError) Error() string { return e.Message }

func recoveryError(code, hint, format string, args ...any) error {
	return &RecoveryError{Code: code, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// notInRecovery refuses what only a recovery under way has.
func notInRecovery() error {
	return recoveryError("BW-RECOVERY-006", "bronzeward recovery status", "the house is not in recovery")
}
