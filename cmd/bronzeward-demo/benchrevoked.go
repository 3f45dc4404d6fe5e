package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"bronzeward/fixtures/talosd"
	"bronzeward/fixtures/world"
)

// manyRevoked is how many identities are revoked in one of two worlds that are the same in
// everything else.
const (
	manyRevoked = 10_000

	sideNone = "none revoked"
	sideMany = "10 000 revoked"
)

// revoked measures what revoked identities cost a decision: two worlds side by side.
func (h *benchHouse) revoked(ctx context.Context, o benchOptions) (_ string, err error) {
	sides := map[string]*aside{}
	var ways []benchWay
	defer func() {
		for _, a := range sides {
			err = errors.Join(err, a.close())
		}
	}()
	for _, name := range []string{sideNone, sideMany} {
		n := 0
		if name == sideMany {
			n = manyRevoked
		}
		a, errAside := h.aside(ctx, n)
		sides[name] = a
		if errAside != nil {
			return "", fmt.Errorf("starting the world with %s: %w", name, errAside)
		}
		ways = append(ways, benchWay{name: name, md: metadata.Pairs("node", "worker-1")})
	}
	read, applied := map[string]samples{}, map[string]samples{}
	const warm = 20
	err = takeTurns(o.times(200)+warm, ways, func(round int, way benchWay) error {
		a := sides[way.name]
		request, err := applyRequest(turnText(a.text, round+1))
		if err != nil {
			return err
		}
		for _, one := range []struct {
			method  string
			request []byte
			took    map[string]samples
		}{{benchVersion, nil, read}, {benchApply, request, applied}} {
			began := time.Now()
			if _, err := way.unary(ctx, a.conn, one.method, one.request); err != nil {
				return err
			}
			if round >= warm {
				one.took[way.name] = append(one.took[way.name], time.Since(began))
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	t := &table{head: []string{"one caller, two worlds in turns", "", "n", "p50", "p99", "p50 to none", "p50 over none"}}
	var wanted aims
	for _, row := range []struct {
		what string
		took map[string]samples
	}{{"`Version`", read}, {"apply of 15 KiB", applied}} {
		none, many := row.took[sideNone], row.took[sideMany]
		t.add(row.what, sideNone, fmt.Sprint(len(none)), millis(none.p50()), millis(none.p99()), ratio(1, 1), millis(0))
		t.add(row.what, sideMany, fmt.Sprint(len(many)), millis(many.p50()), millis(many.p99()),
			ratio(float64(many.p50()), float64(none.p50())), millis(many.p50()-none.p50()))
		noise := none.spread()
		wanted.add(many.p50()-none.p50() <= noise, "10 000 revoked identities cost nothing that can be measured, %s: %s, and the middle of either moves by %s between parts of the run",
			row.what, millis(many.p50()-none.p50()), millis(noise))
	}
	return "### Revoked identities\n\n" + t.String() + wanted.String(), nil
}

// spread is by how much the median of ten parts of the samples moves, from the least to the
// greatest: what cannot be told from chance.
func (s samples) spread() time.Duration {
	var medians samples
	for i := range 10 {
		if part := s[i*len(s)/10 : (i+1)*len(s)/10]; len(part) > 0 {
			medians = append(medians, part.p50())
		}
	}
	return medians.quantile(1) - medians.quantile(0)
}

// aside is a small world of its own, with its worker holding the 15 KiB configuration.
type aside struct {
	*world.World
	dir  string
	text []byte
	conn *grpc.ClientConn
}

// aside starts a world and has so many identities revoked in it. What it gives is to be
// closed even when it errs.
func (h *benchHouse) aside(ctx context.Context, revoked int) (_ *aside, err error) {
	a := &aside{text: h.small.text}
	if a.dir, err = os.MkdirTemp(h.Dir, "aside-"); err != nil {
		return a, err
	}
	// The database's account must be able to enter.
	if err := os.Chmod(a.dir, 0o755); err != nil {
		return a, err
	}
	a.World, err = world.Start(ctx, world.Config{
		Dir: a.dir, Binary: h.Binary, Recording: talosd.RecordNothing, Workers: 1, Extra: benchLimits, MachineConfig: a.text,
	})
	if err != nil {
		return a, err
	}
	if err := a.revoke(ctx, revoked); err != nil {
		return a, err
	}
	if _, err := a.StartGateway(ctx, "gateway-1"); err != nil {
		return a, err
	}
	conf, err := a.ClientTLS("olga")
	if err != nil {
		return a, err
	}
	a.conn, err = grpc.NewClient("passthrough:///"+a.Endpoint, benchDialOptions(conf, grpc.ForceCodecV2(rawBytes{}))...)
	return a, err
}

// revoke writes the rows of so many revocations behind everybody's back, triggers aside.
func (a *aside) revoke(ctx context.Context, n int) error {
	db, err := pgx.Connect(ctx, a.Postgres.DSN(world.Database, "postgres"))
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "set local session_replication_role = replica")
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `with v as (update control.authority set version = version + 1 returning version)
			insert into control.identity_revocations (issuer, subject, reason, authority_version, entry_id)
			select $2, 'gone-' || i, 'left', version, gen_random_uuid() from v, generate_series(1, $1) i`, n, a.PeopleIssuer())
		return err
	})
	if err == nil {
		_, err = db.Exec(ctx, "analyze")
	}
	return errors.Join(err, db.Close(ctx))
}

func (a *aside) close() error {
	var problems []error
	if a.conn != nil {
		problems = append(problems, a.conn.Close())
	}
	if a.World != nil {
		problems = append(problems, a.World.Close())
	}
	return errors.Join(append(problems, os.RemoveAll(a.dir))...)
}
