package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"bronzeward/gateway/control"
)

// eventType says what the body is about, and so which shape its data has.
const eventType = "change.waiting"

// Sender sends the notices of the outbox. Run is called once; Wake is safe for concurrent use.
type Sender struct {
	cfg     Config
	client  *http.Client
	metrics *metrics
	log     *slog.Logger
	wake    chan struct{}
}

// New makes a Sender and registers its metrics. It reads no file and opens no connection.
func New(cfg Config) (*Sender, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	m, err := newMetrics(cfg.Registry, cfg.Counter, cfg.Timeout)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of notices: %w", err)
	}
	return &Sender{cfg: cfg, client: newClient(cfg), metrics: m, log: cfg.Logger, wake: make(chan struct{}, 1)}, nil
}

// Wake asks for the outbox to be looked at now; it never waits. Whoever captured a change
// calls it after the commit, so that approvers are told at once.
func (s *Sender) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run sends what is due until the context ends, and returns when the tries under way have
// ended too, at most three times Timeout later.
func (s *Sender) Run(ctx context.Context) {
	defer s.client.CloseIdleConnections()
	var underWay sync.WaitGroup
	defer underWay.Wait()
	done := make(chan struct{}, s.cfg.Concurrency)
	free := s.cfg.Concurrency
	poll := time.NewTicker(s.cfg.PollEvery)
	defer poll.Stop()
	failing := false
	for ctx.Err() == nil {
		claimed, err := s.claim(ctx, free)
		s.tell(ctx, &failing, err)
		free -= len(claimed)
		for _, n := range claimed {
			underWay.Go(func() {
				s.handle(ctx, n)
				done <- struct{}{}
			})
		}
		select {
		case <-ctx.Done():
		case <-poll.C:
		case <-s.wake:
		case <-done:
			free++
		}
	}
}

// claim takes as many due notices as can be started at once, so that a lease begins with the
// try it is for.
func (s *Sender) claim(ctx context.Context, free int) ([]control.Notice, error) {
	if free == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	return s.cfg.Outbox.ClaimNotices(ctx, free, s.cfg.Lease)
}

// tell logs when claiming begins to err and when it ends to.
func (s *Sender) tell(ctx context.Context, failing *bool, err error) {
	if ctx.Err() != nil || (err != nil) == *failing {
		return
	}
	*failing = err != nil
	if err != nil {
		s.log.WarnContext(ctx, "the outbox cannot be read, approvers are not told", slog.Any("error", err))
		return
	}
	s.log.InfoContext(ctx, "the outbox can be read again")
}

// handle makes one try and writes down what came of it. It is detached from the caller, who
// may be stopping: a try that is cut off would be repeated by another replica.
func (s *Sender) handle(ctx context.Context, n control.Notice) {
	ctx = context.WithoutCancel(ctx)
	o := s.try(ctx, n)
	if o.result == resultFailed && n.Tries >= s.cfg.MaxTries {
		o.result, o.why = resultDead, fmt.Sprintf("tried %d times; at last: %s", n.Tries, o.why)
	}
	// A crash here leaves the row waiting: what was sent is sent again when the lease ends.
	err := s.record(ctx, n, o)
	s.metrics.total.WithLabelValues(o.result).Inc()
	s.report(ctx, n, o, err)
}

// try sends the notice once, or finds that it is not to be sent.
func (s *Sender) try(ctx context.Context, n control.Notice) outcome {
	if n.Tries > s.cfg.MaxTries {
		return outcome{result: resultDead, why: fmt.Sprintf("the last of %d tries never ended: the gateway that made it died", s.cfg.MaxTries)}
	}
	body, err := s.body(ctx, n)
	if errors.Is(err, ErrNotWaiting) {
		return outcome{result: resultOvertaken, why: ErrNotWaiting.Error()}
	}
	if err != nil {
		return outcome{result: resultFailed, why: "the change could not be described; the gateway's log says why", cause: err}
	}
	secrets, err := readSecrets(s.cfg.SecretFile)
	if err != nil {
		return outcome{result: resultFailed, why: err.Error(), cause: err}
	}
	return s.post(ctx, n.ID.String(), body, secrets)
}

// body is what approvers are told, as it is now.
func (s *Sender) body(ctx context.Context, n control.Notice) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	data, err := s.cfg.Describe.Describe(ctx, n.ChangeID)
	if err != nil {
		return nil, fmt.Errorf("describing change %s: %w", n.ChangeID, err)
	}
	body, err := json.Marshal(struct {
		Type      string    `json:"type"`
		Timestamp time.Time `json:"timestamp"`
		Data      any       `json:"data"`
	}{eventType, n.CreatedAt.UTC(), data})
	if err != nil {
		return nil, fmt.Errorf("describing change %s: %w", n.ChangeID, err)
	}
	return body, nil
}

// record moves the row. Its own error leaves the row claimed, to be claimed again.
func (s *Sender) record(ctx context.Context, n control.Notice, o outcome) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	switch o.result {
	case resultSent:
		return s.cfg.Outbox.NoticeSent(ctx, n.ID)
	case resultFailed:
		return s.cfg.Outbox.NoticeFailed(ctx, n.ID, n.Tries, o.why, s.cfg.wait(n.Tries, o.after))
	default:
		return s.cfg.Outbox.NoticeDead(ctx, n.ID, n.Tries, o.why)
	}
}

// report is the one line per try.
func (s *Sender) report(ctx context.Context, n control.Notice, o outcome, unwritten error) {
	level := slog.LevelInfo
	if o.result == resultFailed || o.result == resultDead || unwritten != nil {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("notice", n.ID.String()), slog.String("change", n.ChangeID.String()),
		slog.Int("try", n.Tries), slog.String("result", o.result),
	}
	if o.why != "" {
		attrs = append(attrs, slog.String("why", o.why))
	}
	if o.cause != nil {
		attrs = append(attrs, slog.Any("error", o.cause))
	}
	if unwritten != nil {
		attrs = append(attrs, slog.Any("unwritten", unwritten))
	}
	s.log.LogAttrs(ctx, level, "notice", attrs...)
}
