package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc/status"

	"bronzeward/fixtures/idp"
	"bronzeward/fixtures/world"
	"bronzeward/policy"
)

const versionMethod = "/machine.MachineService/Version"

// refusedWith calls with one bad credential and wants Unauthenticated in words that leak
// nothing of it.
func refusedWith(ctx context.Context, w *world.World, pair func() (tls.Certificate, error), token, defect string) error {
	cfg, err := w.ClientTLS("")
	if err != nil {
		return err
	}
	if pair != nil {
		cert, err := pair()
		if err != nil {
			return err
		}
		// The server names no authorities, so the client would send it anyway; be explicit.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	conn, err := dial(w.Endpoint, cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	md := []string{"node", "worker-1"}
	if pair == nil {
		md = append(md, "authorization", "Bearer "+token)
	}
	_, err = oneCall(ctx, conn, versionMethod, nil, md...)
	if err := want("a credential that is "+defect, err, "Unauthenticated"); err != nil {
		return err
	}
	if len(token) > 20 && strings.Contains(err.Error(), token[len(token)-20:]) {
		return fmt.Errorf("the refusal of a token that is %s quotes it", defect)
	}
	if !strings.Contains(status.Convert(err).Message(), "BW-CREDENTIAL-001") {
		return fmt.Errorf("the refusal of %s has no code: %w", defect, err)
	}
	return nil
}

// s0Flood sends many bad tokens at once: one entry per address, class and second.
func s0Flood(ctx context.Context, s *stage, w *world.World, db *pgx.Conn) error {
	token, err := w.IDP.Token("olga", idp.With(idp.Expired))
	if err != nil {
		return err
	}
	before, err := entryCount(ctx, db)
	if err != nil {
		return err
	}
	const flood = 200
	var wg sync.WaitGroup
	errs := make([]error, flood)
	for i := range flood {
		wg.Go(func() { errs[i] = refusedWith(ctx, w, nil, token, "expired") })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	after, err := entryCount(ctx, db)
	if err != nil {
		return err
	}
	var counted int
	if err := db.QueryRow(ctx, "select coalesce(sum(count), 0) from (select count from audit.entries order by recorded_at desc limit $1) last", after-before).Scan(&counted); err != nil {
		return err
	}
	if after-before > flood/10 || counted < flood {
		return fmt.Errorf("%d bad tokens left %d entries that stand for %d", flood, after-before, counted)
	}
	s.did("%d bad tokens at once: %d entries that stand for %d refusals", flood, after-before, counted)
	return nil
}

// s0Revoked revokes a person: refused at once, for good, and on every replica.
func s0Revoked(ctx context.Context, s *stage, w *world.World, _ *pgx.Conn) error {
	second, err := w.StartGateway(ctx, "gateway-2")
	if err != nil {
		return err
	}
	if _, err := w.Bronzeward(ctx, "olga", "identities", "revoke", "--issuer", w.PeopleIssuer(), "--subject", "otto", "--reason", "scenario", "--yes"); err == nil {
		return errors.New("an operator revoked a person")
	}
	s.did("control: an operator may not revoke people")
	if _, err := w.Bronzeward(ctx, "rhea", "identities", "revoke", "--issuer", w.PeopleIssuer(), "--subject", "otto", "--reason", "scenario", "--yes"); err != nil {
		return err
	}
	for _, endpoint := range []string{w.Endpoint, second.Endpoint} {
		cfg, err := w.ClientTLS("otto")
		if err != nil {
			return err
		}
		conn, err := dial(endpoint, cfg)
		if err != nil {
			return err
		}
		_, err = oneCall(ctx, conn, versionMethod, nil, "node", "worker-1")
		_ = conn.Close()
		if err := want("a revoked person", err, "PermissionDenied"); err != nil {
			return err
		}
	}
	s.did("a revoked person is refused on both replicas, and there is no command that undoes it")
	return second.Stop()
}

// s0DenyList starts a replica with a person on the file's deny list.
func s0DenyList(ctx context.Context, s *stage, w *world.World, db *pgx.Conn) error {
	plain := w.Extra
	defer func() { w.Extra = plain }()
	w.Extra = "" // the list belongs under identity, which the file has once
	w.Deny = []string{"vera"}
	g, err := w.StartGateway(ctx, "gateway-3")
	w.Deny = nil
	if err != nil {
		return err
	}
	before, err := controlRows(ctx, db)
	if err != nil {
		return err
	}
	cfg, err := w.ClientTLS("vera")
	if err != nil {
		return err
	}
	conn, err := dial(g.Endpoint, cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = oneCall(ctx, conn, versionMethod, nil, "node", "worker-1")
	if err := want("a deny-listed person", err, "PermissionDenied"); err != nil {
		return err
	}
	s.did("a deny-listed person is refused before any row is read")
	if err := sameControlRows(ctx, db, before); err != nil {
		return err
	}
	return g.Stop()
}

// s0EmptyLaw makes a law without rules live, by hand in the database: it denies everything.
func s0EmptyLaw(ctx context.Context, s *stage, w *world.World, db *pgx.Conn) error {
	empty, err := policy.Load(fstest.MapFS{"empty.rego": {Data: []byte("package empty\n")}})
	if err != nil {
		return err
	}
	for _, sql := range []string{
		"insert into control.bundles (revision, content, entry_id) values ($1, $2, gen_random_uuid())",
		"update control.live_bundle set revision = $1, counter = counter + 1 where length($2::bytea) > 0",
		"update control.authority set version = version + 1 where length($1) > 0 and length($2::bytea) > 0",
	} {
		if _, err := db.Exec(ctx, sql, empty.Revision(), empty.Bytes()); err != nil {
			return err
		}
	}
	cfg, err := w.ClientTLS("olga")
	if err != nil {
		return err
	}
	conn, err := dial(w.Endpoint, cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = oneCall(ctx, conn, versionMethod, nil, "node", "worker-1")
	if err := want("a call under an empty law", err, "PermissionDenied"); err != nil {
		return err
	}
	s.did("control: an empty bundle denies everything")
	return nil
}

func entryCount(ctx context.Context, db *pgx.Conn) (n int, err error) {
	err = db.QueryRow(ctx, "select count(*) from audit.entries").Scan(&n)
	return n, err
}

// controlRows counts every table of schema control but those in which gateways keep what they see of machines by themselves.
func controlRows(ctx context.Context, db *pgx.Conn) (string, error) {
	var out string
	err := db.QueryRow(ctx, `select string_agg(t.table_name || '=' ||
			(xpath('/row/n/text()', query_to_xml('select count(*) as n from control.' || quote_ident(t.table_name), false, true, '')))[1]::text, ' ' order by t.table_name)
		from information_schema.tables t where t.table_schema = 'control'
			and t.table_name not in ('applied_copies', 'machine_sights')`).Scan(&out)
	return out, err
}

func sameControlRows(ctx context.Context, db *pgx.Conn, before string) error {
	after, err := controlRows(ctx, db)
	if err != nil {
		return err
	}
	if after != before {
		return fmt.Errorf("refused calls left rows in control:\nbefore %s\nafter  %s", before, after)
	}
	return nil
}
