package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
	"bronzeward/audit/tree"
	"bronzeward/fixtures/fullbook"
)

// fullStage is what was measured of one book.
type fullStage struct {
	rows      int64 // entries and outcomes
	sequenced float64
	insert    samples
	inserting time.Duration
	pages     map[string]samples
	proofs    samples
	verifying process
	exporting process
	sizes     []fullbook.Size
}

const (
	fullCallers = 64
	fullWarming = 160_000 // entries written before any are counted: a gateway that has run has its indexes' pages in memory
	fullInserts = 160_000
	fullRounds  = 8 // of writing, in turns
	fullWaiting = 200_000
	fullPages   = 300
	fullProofs  = 300
)

// fullFilters are what auditors ask for, with another value each turn.
func fullFilters(r *rand.Rand) map[string]func() audit.Filter {
	machine := func() string { return fullbook.MachineName(r.IntN(fullbook.Machines)) }
	person := func() string { return fullbook.Person(r.IntN(fullbook.People)) }
	since := func() time.Time { return time.Now().Add(-time.Duration(r.Int64N(int64(fullbook.Span)))) }
	return map[string]func() audit.Filter{
		"none":               func() audit.Filter { return audit.Filter{} },
		"machine":            func() audit.Filter { return audit.Filter{Machine: machine()} },
		"person":             func() audit.Filter { return audit.Filter{Subject: person()} },
		"a rare person":      func() audit.Filter { return audit.Filter{Subject: fullbook.Person(fullbook.People - 1 - r.IntN(20))} },
		"machine and person": func() audit.Filter { return audit.Filter{Machine: machine(), Subject: person()} },
		"machine and method": func() audit.Filter {
			return audit.Filter{Machine: machine(), Method: "/machine.MachineService/Netstat"}
		},
		"person and method": func() audit.Filter { return audit.Filter{Subject: person(), Method: "/machine.MachineService/Netstat"} },
		"person and code":   func() audit.Filter { return audit.Filter{Subject: person(), Code: "BW-CONFIG-004"} },
		"person and path":   func() audit.Filter { return audit.Filter{Subject: person(), Path: "machine.sysctls"} },
		"machine, person, code": func() audit.Filter {
			return audit.Filter{Machine: machine(), Subject: person(), Code: "BW-METHODS-003"}
		},
		"code, frequent":   func() audit.Filter { return audit.Filter{Code: "BW-METHODS-003"} },
		"code, rare":       func() audit.Filter { return audit.Filter{Code: "BW-CONFIG-011"} },
		"machine and code": func() audit.Filter { return audit.Filter{Machine: machine(), Code: "BW-CONFIG-004"} },
		"changed path":     func() audit.Filter { return audit.Filter{Path: "machine.kubelet"} },
		"machine and path": func() audit.Filter { return audit.Filter{Machine: machine(), Path: "machine.sysctls"} },
		"verdict refuse":   func() audit.Filter { return audit.Filter{Verdict: audit.Refused} },
		"machine, denied":  func() audit.Filter { return audit.Filter{Machine: machine(), Verdict: audit.Denied} },
		"kind http":        func() audit.Filter { return audit.Filter{Kind: audit.KindHTTP} },
		"class apply":      func() audit.Filter { return audit.Filter{Class: "apply"} },
		"method":           func() audit.Filter { return audit.Filter{Method: "/machine.MachineService/Netstat"} },
		"cluster, since":   func() audit.Filter { return audit.Filter{Cluster: "cluster-3", Since: since()} },
		"digest, not there": func() audit.Filter {
			return audit.Filter{Digests: []string{"hmac-sha256:k1:" + strings.Repeat("e", 64)}}
		},
		"person, until a day": func() audit.Filter { return audit.Filter{Subject: person(), Until: since()} },
	}
}

// compareBooks measures two books, what is short in turns.
func compareBooks(ctx context.Context, small, full *fullHouse) (string, error) {
	machine, err := machineTable(ctx, full.pool, full.server.Dir())
	if err != nil {
		return "", err
	}
	a, b := &fullStage{}, &fullStage{}
	both := []struct {
		h *fullHouse
		s *fullStage
	}{{small, a}, {full, b}}
	const perRound, warming = fullInserts / fullRounds, fullWarming / (fullInserts / fullRounds)
	for round := range warming + fullRounds {
		for _, one := range both {
			took, all, err := fullbook.Insert(ctx, one.h.dsn("gateway"), uint64(3+round), fullCallers, perRound)
			if err != nil {
				return "", fmt.Errorf("writing: %w", err)
			}
			if round < warming {
				continue
			}
			one.s.insert, one.s.inserting = append(one.s.insert, took...), one.s.inserting+all
		}
	}
	for _, one := range both {
		if err := one.s.measure(ctx, one.h); err != nil {
			return "", fmt.Errorf("the %s book: %w", one.h.name, err)
		}
	}
	return full.report(machine, a, b), nil
}

// measure asks everything of a book.
func (s *fullStage) measure(ctx context.Context, h *fullHouse) (err error) {
	f := &fullbook.Filler{Owner: h.pool, Writers: h.dsn("gateway")}
	if err := f.Fill(ctx, 2, fullWaiting, 1, 1); err != nil {
		return fmt.Errorf("filling the queue: %w", err)
	}
	if s.sequenced, err = h.sequenced(ctx); err != nil {
		return err
	}
	// What filling the queue left to be written is written first: no house fills it so fast.
	if _, err := h.pool.Exec(ctx, "checkpoint"); err != nil {
		return err
	}
	pool, err := audit.ReadPool(ctx, h.dsn("auditor"), "bench")
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := s.findPages(ctx, audit.NewReader(pool)); err != nil {
		return err
	}
	h.say("pages were asked for")
	ids, err := h.someEntries(ctx, fullProofs)
	if err != nil {
		return err
	}
	if s.proofs, err = fullbook.Timed(ctx, len(ids), func(ctx context.Context, turn int) error {
		_, err := tree.Prove(ctx, pool, ids[turn])
		return err
	}); err != nil {
		return fmt.Errorf("proving: %w", err)
	}
	if err := h.pool.QueryRow(ctx, "select (select count(*) from audit.entries) + (select count(*) from audit.outcomes)").Scan(&s.rows); err != nil {
		return err
	}
	key, err := tree.VerifierKey(benchPublicKey())
	if err != nil {
		return err
	}
	keyFile, err := os.CreateTemp("", "bench-book-*.pub")
	if err != nil {
		return err
	}
	defer os.Remove(keyFile.Name())
	if _, err := fmt.Fprintln(keyFile, key); err != nil {
		return err
	}
	if err := keyFile.Close(); err != nil {
		return err
	}
	if s.verifying, err = h.command(ctx, "decisions", "verify", "--public-key", keyFile.Name()); err != nil {
		return err
	}
	h.say("%d rows verified in %s", s.rows, s.verifying.took)
	if s.exporting, err = h.command(ctx, "decisions", "export"); err != nil {
		return err
	}
	h.say("%d rows exported in %s", s.rows, s.exporting.took)
	s.sizes, err = fullbook.Sizes(ctx, h.pool)
	return err
}

func (s *fullStage) findPages(ctx context.Context, book *audit.Reader) error {
	s.pages = map[string]samples{}
	r := rand.New(rand.NewPCG(7, 7))
	for name, filter := range fullFilters(r) {
		took, err := fullbook.Timed(ctx, fullPages, func(ctx context.Context, turn int) error {
			_, _, err := book.List(ctx, filter(), audit.Page{Limit: 50, Order: audit.Order(turn % 2)})
			return err
		})
		if err != nil {
			return fmt.Errorf("asking for %s: %w", name, err)
		}
		s.pages[name] = took
	}
	return nil
}

// someEntries are ids from all over the book.
func (h *fullHouse) someEntries(ctx context.Context, n int) ([]uuid.UUID, error) {
	rows, err := h.pool.Query(ctx, `select l.id from (select (random() * (select max(index) from audit.leaves where tree = 1))::bigint as index
		from generate_series(1, $1 * 3)) r join audit.leaves l on l.tree = 1 and l.index = r.index where l.source = 'entry' limit $1`, n)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

// say prints one line of progress.
func (h *fullHouse) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "  %s: %s\n", h.name, fmt.Sprintf(format, args...))
}
