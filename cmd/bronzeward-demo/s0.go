package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protowire"

	"bronzeward/fixtures/gatewaypki"
	"bronzeward/fixtures/idp"
	"bronzeward/fixtures/world"
	"bronzeward/gateway/facts"
	"bronzeward/policy"
)

// s0 is access: who gets in, and what a start refuses.
func s0(ctx context.Context, s *stage) (err error) {
	w, err := s.bareWorld(ctx, world.Config{})
	if err != nil {
		return err
	}
	defer func() { err = s.leave(ctx, w, err) }()
	db, err := pgx.Connect(ctx, w.Postgres.DSN(world.Database, "postgres"))
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	for _, step := range []func(context.Context, *stage, *world.World, *pgx.Conn) error{
		s0Migrations, s0Start, s0Certificates, s0Tokens, s0Walk, s0Web, s0Flood, s0Revoked, s0DenyList, s0EmptyLaw,
	} {
		if err := step(ctx, s, w, db); err != nil {
			return err
		}
	}
	return nil
}

// s0Migrations runs two migrations at once on a fresh database: each file runs once.
func s0Migrations(ctx context.Context, s *stage, w *world.World, db *pgx.Conn) error {
	if _, err := db.Exec(ctx, "create database twice"); err != nil {
		return err
	}
	config, err := os.ReadFile(w.ConfigFile())
	if err != nil {
		return err
	}
	twice := w.Path("config-twice.yaml")
	if err := os.WriteFile(twice, []byte(strings.ReplaceAll(string(config), "/"+world.Database+"?", "/twice?")), 0o600); err != nil {
		return err
	}
	var wg sync.WaitGroup
	var outs [2]string
	var errs [2]error
	for i := range 2 {
		wg.Go(func() { outs[i], errs[i] = w.Bronzeward(ctx, "", "--config", twice, "migrate") })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	both := outs[0] + outs[1]
	for _, name := range []string{"control/001", "control/002", "control/003", "control/004"} {
		if n := strings.Count(both, name); n != 1 {
			return fmt.Errorf("migration %s ran %d times:\n%s", name, n, both)
		}
	}
	s.did("two migrations at once: each file ran once")
	return nil
}

// s0Start refuses to start on a schema that is not this binary's, and starts on the right one.
func s0Start(ctx context.Context, s *stage, w *world.World, db *pgx.Conn) error {
	for what, change := range map[string][2]string{
		"control: a binary with a changed migration does not start": {
			"update control.schema_checksums set sha256 = repeat('0', 64) where version = 1",
			"",
		},
		"control: a binary without the newest migration does not start": {
			"update control.schema_version set version = version + 1",
			"update control.schema_version set version = version - 1",
		},
	} {
		var before string
		if err := db.QueryRow(ctx, "select sha256 from control.schema_checksums where version = 1").Scan(&before); err != nil {
			return err
		}
		if _, err := db.Exec(ctx, change[0]); err != nil {
			return err
		}
		g, err := w.StartGateway(ctx, "gateway-1")
		if err == nil {
			return fmt.Errorf("%s: it started: %v", what, g.Endpoint)
		}
		if !strings.Contains(err.Error(), "schema is not one this binary serves") {
			return fmt.Errorf("%s: the reason is not named: %w", what, err)
		}
		if change[1] == "" {
			_, err = db.Exec(ctx, "update control.schema_checksums set sha256 = $1 where version = 1", before)
		} else {
			_, err = db.Exec(ctx, change[1])
		}
		if err != nil {
			return err
		}
		delete(w.Gateways, "gateway-1")
		s.did("%s, and says why", what)
	}
	if _, err := w.StartGateway(ctx, "gateway-1"); err != nil {
		return err
	}
	s.did("the gateway starts on the schema it serves")
	return nil
}

// each runs work for all at once: an answer to a stranger waits for its counted entry.
func each[T any](all []T, work func(T) error) error {
	var group errgroup.Group
	for _, one := range all {
		group.Go(func() error { return work(one) })
	}
	return group.Wait()
}

// s0Certificates shows every defect of a certificate; each is Unauthenticated.
func s0Certificates(ctx context.Context, s *stage, w *world.World, db *pgx.Conn) error {
	before, err := controlRows(ctx, db)
	if err != nil {
		return err
	}
	olga, err := idp.Find("olga")
	if err != nil {
		return err
	}
	if err := each(gatewaypki.Defects(), func(defect gatewaypki.Defect) error {
		pair, err := w.People.PersonWith(gatewaypki.Person{Issuer: w.PeopleIssuer(), Subject: olga.Subject, Groups: olga.Groups}, defect)
		if err != nil {
			return err
		}
		return refusedWith(ctx, w, pair.TLS, "", string(defect))
	}); err != nil {
		return err
	}
	s.did("%d certificate defects: each Unauthenticated, with a reason", len(gatewaypki.Defects()))
	return sameControlRows(ctx, db, before)
}

// s0Tokens shows every defect of a token; each is Unauthenticated.
func s0Tokens(ctx context.Context, s *stage, w *world.World, db *pgx.Conn) error {
	before, err := controlRows(ctx, db)
	if err != nil {
		return err
	}
	if err := each(idp.Defects(), func(defect idp.Defect) error {
		token, err := w.IDP.Token("olga", idp.With(defect))
		if err != nil {
			return err
		}
		return refusedWith(ctx, w, nil, token, string(defect))
	}); err != nil {
		return err
	}
	s.did("%d token defects: each Unauthenticated, with a reason, nothing written to control", len(idp.Defects()))
	return sameControlRows(ctx, db, before)
}

// s0Walk calls every method as every role.
func s0Walk(ctx context.Context, s *stage, w *world.World, db *pgx.Conn) error {
	before, err := controlRows(ctx, db)
	if err != nil {
		return err
	}
	counts := map[string]int{}
	for _, person := range []string{"olga", "vera", "ada", "audrey", "rhea", "sven", "mallory"} {
		cfg, err := w.ClientTLS(person)
		if err != nil {
			return err
		}
		conn, err := dial(w.Endpoint, cfg)
		if err != nil {
			return err
		}
		for name, m := range facts.Table() {
			from, err := entryCount(ctx, db)
			if err != nil {
				return err
			}
			_, err = oneCall(ctx, conn, name, walkRequests[name], "node", "worker-1")
			code := codeOf(err)
			counts[code]++
			if err := walkVerdict(person, m, code); err != nil {
				return fmt.Errorf("%w: %w", err, conn.Close())
			}
			to, err := entryCount(ctx, db)
			if err != nil {
				return err
			}
			if to-from != 1 {
				return fmt.Errorf("%s of %s left %d entries, want one", name, person, to-from)
			}
		}
		if err := conn.Close(); err != nil {
			return err
		}
	}
	s.did("every method as every role, one entry per call: %v", counts)
	return sameControlRows(ctx, db, before)
}

// walkRequests are the requests of the methods that take no empty one: an exact path,
// field 1 of ReadRequest and CopyRequest (Talos api/machine/machine.proto).
var walkRequests = map[string][]byte{
	"/machine.MachineService/Read": pathRequest("/etc/os-release"),
	"/machine.MachineService/Copy": pathRequest("/etc"),
}

func pathRequest(path string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), path)
}

// walkVerdict says what such a request, empty for most methods, may get.
func walkVerdict(person string, m facts.Method, code string) error {
	reads := m.Class == policy.ClassRead && m.In(facts.SupportedMinor)
	switch {
	case person == "mallory" && code != "PermissionDenied":
		return fmt.Errorf("%s for somebody without a role: %s", m.Name, code)
	case (m.Class == policy.ClassMint || m.Class == policy.ClassUpload || m.Class == policy.ClassSensitiveRead) && code != "PermissionDenied":
		return fmt.Errorf("%s for %s: %s", m.Name, person, code)
	case m.Class == policy.ClassMutate && code != "PermissionDenied" && code != "InvalidArgument":
		return fmt.Errorf("%s for %s: %s", m.Name, person, code)
	case reads && person == "olga" && (code == "Unauthenticated" || code == "Unavailable"):
		return fmt.Errorf("%s for an operator: %s", m.Name, code)
	}
	return nil
}
