package verify

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Recovery is one that was entered, as the database tells it: the tree of the old epoch ended with it.
// Nothing here is proven: rows that were lost are nowhere to be compared with.
type Recovery struct {
	Epoch           uuid.UUID  `json:"epoch"`
	OldEpoch        uuid.UUID  `json:"old_epoch"`
	Cause           string     `json:"cause"`     // rolled-back, older-openbao or none
	LostRows        int64      `json:"lost_rows"` // signed ones, at most
	LostRevocations int64      `json:"lost_revocations"`
	EnteredAt       time.Time  `json:"entered_at"`
	EndedAt         *time.Time `json:"ended_at"` // null while it is under way
}

// Mark is what the gateways found by comparing the database with OpenBao.
type Mark struct {
	State   string    `json:"state"` // rolled-back or older-openbao
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

// recoveryTablesSQL counts plain tables alone: a view of the owner's making would call what it likes.
const recoveryTablesSQL = `select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'control' and c.relname in ('recovery', 'recoveries', 'recovery_exits') and c.relkind = 'r'`

const recoveriesSQL = `select r.epoch, r.old_epoch, r.cause, r.lost_rows, r.lost_revocations, r.entered_at, x.exited_at
from control.recoveries r left join control.recovery_exits x on x.epoch = r.epoch order by r.entered_at`

// readRecoveries reads what the database says of its recoveries, and what is marked now; null when nothing is. A database
// without these tables has had none.
func readRecoveries(ctx context.Context, conn *pgx.Conn) ([]Recovery, *Mark, error) {
	list := []Recovery{}
	var tables int
	if err := conn.QueryRow(ctx, recoveryTablesSQL).Scan(&tables); err != nil {
		return nil, nil, fmt.Errorf("looking for recoveries: %w", cause(err))
	}
	if tables < 3 {
		return list, nil, nil
	}
	rows, err := conn.Query(ctx, recoveriesSQL)
	if err == nil {
		list, err = pgx.AppendRows(list, rows, pgx.RowToStructByPos[Recovery])
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading recoveries: %w", cause(err))
	}
	rows, err = conn.Query(ctx, "select mark, message, since from control.recovery where mark <> 'none'")
	if err != nil {
		return nil, nil, fmt.Errorf("reading what was found: %w", cause(err))
	}
	marks, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByPos[Mark])
	if err != nil {
		return nil, nil, fmt.Errorf("reading what was found: %w", cause(err))
	}
	if len(marks) == 0 {
		return list, nil, nil
	}
	return list, marks[0], nil
}
