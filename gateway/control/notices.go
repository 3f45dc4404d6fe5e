package control

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

var (
	//go:embed queries/notice_add.sql
	sqlNoticeAdd string
	//go:embed queries/notice_claim.sql
	sqlNoticeClaim string
	//go:embed queries/notice_sent.sql
	sqlNoticeSent string
	//go:embed queries/notice_failed.sql
	sqlNoticeFailed string
	//go:embed queries/notice_dead.sql
	sqlNoticeDead string
	//go:embed queries/notice_list.sql
	sqlNoticeList string
	//go:embed queries/notice_counts.sql
	sqlNoticeCounts string
)

// The states of a notice. Waiting is left once, for Sent or Dead.
const (
	NoticeWaiting = "waiting"
	NoticeSent    = "sent"
	// NoticeDead means that it is not tried again; Notice.Error says why.
	NoticeDead = "dead"
)

// mostNoticeError bounds the text kept of why a try came to nothing, in runes.
const mostNoticeError = 300

// Notice is one row of the outbox: that a change waits for its approvers. There is one per
// change, and its id is the same at every try.
type Notice struct {
	ID       uuid.UUID
	ChangeID ChangeID
	State    string
	// Tries is how often it was claimed, whatever came of it.
	Tries int
	// NextAt is when it is due, by the database's clock; while a replica has it claimed, when
	// the claim ends.
	NextAt    time.Time
	CreatedAt time.Time
	EndedAt   *time.Time // nil while it waits
	// Error is why the last try came to nothing, or why it is dead.
	Error string
}

// addNotice puts the change's notice into the outbox, in the transaction that captures the
// change: either both are there or neither. A change that has one already keeps it.
func addNotice(ctx context.Context, tx pgx.Tx, id ChangeID) error {
	noticeID, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("making the id of a notice: %w", err)
	}
	if _, err := tx.Exec(ctx, sqlNoticeAdd, noticeID, uuid.UUID(id)); err != nil {
		return sqlError("putting a notice into the outbox", err)
	}
	return nil
}

// ClaimNotices takes at most n due notices for this caller alone: each counts one more try
// and is not due again before the lease has passed. It waits for nobody: rows that another
// claim holds are passed over. A crash after it leaves them to whoever claims next, so a
// notice is sent at least once, and twice when its sender died between sending and NoticeSent.
func (s *Store) ClaimNotices(ctx context.Context, n int, lease time.Duration) ([]Notice, error) {
	if n <= 0 || lease <= 0 {
		return nil, fmt.Errorf("%w: claiming %d notices for %s", ErrInvalid, n, lease)
	}
	return s.notices(ctx, "claiming notices", sqlNoticeClaim, n, lease)
}

// NoticeSent ends a notice that its receiver took. One that has ended already stays as it is,
// and that is no error: two tries may both have arrived.
func (s *Store) NoticeSent(ctx context.Context, id uuid.UUID) error {
	return s.noticeStep(ctx, "ending a notice as sent", sqlNoticeSent, id)
}

// NoticeFailed says why a try came to nothing and makes the notice due again in next. try is
// Notice.Tries as it was claimed: when somebody claimed it since, the notice is theirs, and
// nothing is changed.
func (s *Store) NoticeFailed(ctx context.Context, id uuid.UUID, try int, why string, next time.Duration) error {
	return s.noticeStep(ctx, "putting a notice off", sqlNoticeFailed, id, try, noticeError(why), next)
}

// NoticeDead ends a notice that is not tried again, and says why. try is as in NoticeFailed.
func (s *Store) NoticeDead(ctx context.Context, id uuid.UUID, try int, why string) error {
	return s.noticeStep(ctx, "ending a notice as dead", sqlNoticeDead, id, try, noticeError(why))
}

// noticeStep is one statement and its own transaction: an unanswered COMMIT leaves at worst a
// notice that is claimed again when its lease ends.
func (s *Store) noticeStep(ctx context.Context, doing, sql string, args ...any) error {
	if _, err := s.pool.Exec(ctx, sql, args...); err != nil {
		return sqlError(doing, err)
	}
	return nil
}

// NoticeFilter narrows Notices; zero fields do not narrow.
type NoticeFilter struct {
	// Dead is true for those that are not tried again only.
	Dead bool
	// Limit is 100 when zero, at most 1000.
	Limit int
}

// Notices gives the outbox, newest first.
func (s *Store) Notices(ctx context.Context, f NoticeFilter) ([]Notice, error) {
	if f.Limit <= 0 {
		f.Limit = 100
	}
	return s.notices(ctx, "listing notices", sqlNoticeList, f.Dead, min(f.Limit, 1000))
}

func (s *Store) notices(ctx context.Context, doing, sql string, args ...any) ([]Notice, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, unavailable(doing, err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Notice, error) {
		var n Notice
		err := row.Scan(&n.ID, (*uuid.UUID)(&n.ChangeID), &n.State, &n.Tries, &n.NextAt, &n.CreatedAt, &n.EndedAt, &n.Error)
		return n, err
	})
	if err != nil {
		return nil, unavailable(doing, err)
	}
	return out, nil
}

// NoticeCounts says how many notices are waiting and how many are dead, by state. Those that
// were sent are not counted: they only grow, and the sender counts them as it goes.
func (s *Store) NoticeCounts(ctx context.Context) (map[string]int, error) {
	var waiting, dead int
	if err := s.pool.QueryRow(ctx, sqlNoticeCounts).Scan(&waiting, &dead); err != nil {
		return nil, unavailable("counting notices", err)
	}
	return map[string]int{NoticeWaiting: waiting, NoticeDead: dead}, nil
}

// noticeError makes a text one that a row can hold and a person can read: it may quote what
// a stranger's server said.
func noticeError(why string) string {
	why = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(why, "\uFFFD"))
	if runes := []rune(why); len(runes) > mostNoticeError {
		return string(runes[:mostNoticeError]) + "…"
	}
	return why
}
