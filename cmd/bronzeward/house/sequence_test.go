package house

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"bronzeward/audit/tree"
	"bronzeward/gateway"
)

// locked is a log that is read while it is written.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A sequencer that panics is logged, counted and followed by another; what publishes beside it ends
// with it, and is no reason to hang.
func TestASequencerThatDiesIsFollowedByAnother(t *testing.T) {
	log := &locked{}
	registry := prometheus.NewRegistry()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	starts, alive := 0, make(chan struct{})
	s := &sequencing{
		watch: gateway.NewBookTree(registry, false), log: slog.New(slog.NewTextHandler(log, nil)), pause: time.Millisecond,
		config: tree.Config{
			Connect: func(ctx context.Context) (*pgx.Conn, error) {
				if starts++; starts <= 2 {
					panic("a fault of ours")
				}
				close(alive)
				<-ctx.Done()
				return nil, ctx.Err()
			},
			Epoch: func(context.Context, *pgx.Conn) (uuid.UUID, uuid.UUID, error) {
				return uuid.Nil, uuid.Nil, errors.New("not asked")
			},
			Publish: []tree.Publisher{{Name: "anchor", Publish: func(context.Context, tree.Stored) error { return nil }}},
			Logger:  slog.New(slog.DiscardHandler),
		},
	}
	ended := make(chan struct{})
	go func() {
		s.run(ctx)
		close(ended)
	}()
	<-alive
	if n := strings.Count(log.String(), "the book's sequencer ended, and is started again"); n != 2 || !strings.Contains(log.String(), "TestASequencerThatDies") {
		t.Errorf("%d lines: %s", n, log)
	}
	restarts := 0.0
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "bronzeward_book_failures_total" {
			restarts += f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	if restarts != 2 {
		t.Errorf("%v failures are counted", restarts)
	}
	cancel()
	<-ended
	if n := strings.Count(log.String(), "started again"); n != 2 {
		t.Errorf("its orderly end is logged as a failure: %s", log)
	}
}

// What publishes and signs may fail and must not end the process.
func TestAPanicOfAPublisherIsAFailure(t *testing.T) {
	log := &locked{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	err := contained(logger, func(context.Context, tree.Stored) error { panic("a fault of ours") })(t.Context(), tree.Stored{})
	if err == nil || !strings.Contains(err.Error(), "it panicked") || strings.Contains(err.Error(), "goroutine") || !strings.Contains(log.String(), "goroutine") {
		t.Errorf("got %v", err)
	}
	if _, _, err := (containedSigner{nil, logger}).Sign(t.Context(), nil); err == nil {
		t.Error("a signer that panics signs")
	}
	if _, err := (containedSigner{nil, logger}).PublicKeys(t.Context()); err == nil {
		t.Error("a signer that panics has keys")
	}
}
