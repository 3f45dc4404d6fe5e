package control

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

//go:embed queries/epoch.sql
var sqlEpoch string

// ErrDoubtful means that the database may be older than it was, or OpenBao: nothing is added to the
// tree of its epoch until recovery was entered.
var ErrDoubtful = errors.New("the book is neither sequenced nor signed until recovery was entered")

// ReadEpoch reads the installation and the epoch in force, over a connection of the caller's own.
// ErrDoubtful while one of the two databases may be older than it was.
func ReadEpoch(ctx context.Context, conn *pgx.Conn) (installation, epoch uuid.UUID, err error) {
	var state, message string
	err = conn.QueryRow(ctx, sqlEpoch).Scan(&installation, &epoch, &state, &message)
	if err != nil {
		return uuid.Nil, uuid.Nil, unavailable("reading the epoch", err)
	}
	if s := (Standing{State: RecoveryState(state)}); s.Doubtful() {
		return uuid.Nil, uuid.Nil, fmt.Errorf("%w: %s", ErrDoubtful, message)
	}
	return installation, epoch, nil
}
