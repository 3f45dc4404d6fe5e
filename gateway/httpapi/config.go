package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
)

// Config is what New needs. Every field is required unless it says otherwise.
type Config struct {
	Identity  Identifier
	Limiter   Limiter
	Book      Book
	Authority Authority
	Digester  Digester

	// What people do.
	Proposals    Proposals
	Settlements  Settlements
	Verdicts     Verdicts
	Revokes      Revokes
	Inventory    Inventory
	Closings     Closings
	Observer     Observer
	Accounts     Accounts
	Certificates Certificates
	Digests      Digests
	DigestKeys   DigestKeys
	Recoveries   Recoveries
	Laws         Laws
	LawHistory   LawHistory

	// What people read.
	Changes     ChangeStore
	Machines    MachineStore
	Drifts      DriftStore
	History     HistoryStore
	Attempts    AttemptStore
	Revocations RevocationStore
	Notices     NoticeStore
	Decisions   DecisionStore
	Order       OrderStore
	Checkpoints CheckpointStore
	Prover      Prover

	// Login is told to whoever asks how to log in; the zero value says that nobody can.
	Login    Login
	Ready    Readiness
	Gatherer prometheus.Gatherer
	Logger   *slog.Logger
	// Stopping is closed when the server is told to stop: requests that wait for something
	// to change are answered then. Null waits for their clients alone.
	Stopping <-chan struct{}
}

// Validate gives everything that is missing, joined.
func (c *Config) Validate() error {
	var problems []error
	for name, missing := range map[string]bool{
		"Identity": c.Identity == nil, "Limiter": c.Limiter == nil, "Book": c.Book == nil, "Authority": c.Authority == nil,
		"Digester": c.Digester == nil, "Proposals": c.Proposals == nil, "Verdicts": c.Verdicts == nil, "Revokes": c.Revokes == nil,
		"Inventory": c.Inventory == nil, "Closings": c.Closings == nil, "Observer": c.Observer == nil, "Accounts": c.Accounts == nil, "Changes": c.Changes == nil,
		"Machines": c.Machines == nil, "History": c.History == nil, "Attempts": c.Attempts == nil, "Revocations": c.Revocations == nil,
		"Notices": c.Notices == nil, "Certificates": c.Certificates == nil, "Digests": c.Digests == nil, "DigestKeys": c.DigestKeys == nil,
		"Decisions": c.Decisions == nil, "Order": c.Order == nil, "Checkpoints": c.Checkpoints == nil, "Prover": c.Prover == nil,
		"Settlements": c.Settlements == nil, "Drifts": c.Drifts == nil,
		"Recoveries": c.Recoveries == nil, "Laws": c.Laws == nil, "LawHistory": c.LawHistory == nil, "Ready": c.Ready == nil, "Gatherer": c.Gatherer == nil, "Logger": c.Logger == nil,
	} {
		if missing {
			problems = append(problems, fmt.Errorf("%s is not set", name))
		}
	}
	return errors.Join(problems...)
}

const (
	// largeBodies bounds the bytes of request bodies above mediumBody that are held at once:
	// as much as four people may hold, so that no one or two of them keep the rest out.
	largeBodies = 4 * 2 * largeBody
	// mostWaiting bounds the requests that wait for something to change at once. Those that
	// wait for the same thing read the database once a second together.
	mostWaiting = 512
)

// door is the handlers and what they share. It is safe for concurrent use.
type door struct {
	Config
	bodies  *semaphore.Weighted
	waiting *semaphore.Weighted
	limits  *limits
	looks   *looks
	checks  checks
}

// New makes the handler of the whole HTTP door. It does no I/O. The server it is given to
// requests client certificates without verifying them, as identity.Request says.
func New(cfg Config) (http.Handler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("making the HTTP door: %w", err)
	}
	d := &door{
		Config: cfg, bodies: semaphore.NewWeighted(largeBodies),
		waiting: semaphore.NewWeighted(mostWaiting), limits: newLimits(), looks: newLooks(),
	}
	return d.router(), nil
}
