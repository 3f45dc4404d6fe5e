package control

import (
	"context"
	_ "embed"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

//go:embed queries/epoch.sql
var sqlEpoch string

// ReadEpoch reads the installation and the epoch in force, over a connection of the caller's own.
func ReadEpoch(ctx context.Context, conn *pgx.Conn) (installation, epoch uuid.UUID, err error) {
	err = conn.QueryRow(ctx, sqlEpoch).Scan(&installation, &epoch)
	if err != nil {
		return uuid.Nil, uuid.Nil, unavailable("reading the epoch", err)
	}
	return installation, epoch, nil
}
