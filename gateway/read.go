package gateway

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/status"

	"bronzeward/audit"
	"bronzeward/policy"
)

// rounds is how often a call is judged again because authority moved between judging
// and writing; after that the caller is asked to try again.
const rounds = 3

// errMoving is the end of the rounds.
var errMoving = errors.New("authority or the machine kept changing while this call was judged")

// verdict is one written Decision about one target.
type verdict struct {
	target   *target
	decision policy.Decision
	id       uuid.UUID
}

// read is the way of every call that changes nothing: one Decision for each target,
// all durable before a byte goes on, then the answers of those that were allowed.
func (c *call) read() error {
	verdicts := make([]verdict, len(c.targets))
	group, ctx := errgroup.WithContext(c.ctx)
	for i := range c.targets {
		group.Go(contained(func() (err error) {
			verdicts[i], err = c.decide(ctx, &c.targets[i], "final")
			return err
		}))
	}
	if err := group.Wait(); err != nil {
		rethrow(err)
		return c.notWritten(uuid.Nil, err)
	}
	for _, v := range verdicts {
		c.decided = append(c.decided, v.id)
	}
	if len(verdicts) == 1 {
		return c.readOne(verdicts[0])
	}
	return c.readMany(verdicts)
}

// decide judges a call that needs no Evidence and writes the Entry in the group
// commit. What was judged under an older authority version is judged again.
func (c *call) decide(ctx context.Context, t *target, phase string) (verdict, error) {
	for range rounds {
		snap := c.g.laws.current(ctx, c.g)
		f := c.facts(t, snap, phase)
		began := time.Now()
		d := c.g.laws.judge(ctx, c.g, snap, f)
		c.g.metrics.seconds.WithLabelValues("judge").Observe(time.Since(began).Seconds())
		e, err := withFacts(c.entry(t, d), f)
		if err != nil {
			return verdict{}, err
		}
		e.AuthorityVersion, e.Epoch = snap.AuthorityVersion, snap.Epoch
		began = time.Now()
		receipt, err := c.g.book.Write(ctx, e)
		c.g.metrics.seconds.WithLabelValues("commit").Observe(time.Since(began).Seconds())
		var stale *audit.StaleError
		if errors.As(err, &stale) {
			if _, err := c.g.store.Refresh(ctx, stale.Current); err != nil {
				return verdict{}, err
			}
			continue
		}
		if err != nil {
			return verdict{}, err
		}
		c.g.countDecision(e)
		return verdict{target: t, decision: d, id: receipt.ID}, nil
	}
	return verdict{}, errMoving
}

// write puts an Entry that no policy judged into the book. It is about no machine, so
// it holds whatever the authority version is: it is written under the current one.
func (g *Gateway) write(ctx context.Context, e audit.Entry) (audit.Receipt, error) {
	for range rounds {
		receipt, err := g.book.Write(ctx, e)
		var stale *audit.StaleError
		if errors.As(err, &stale) {
			if _, err := g.store.Refresh(ctx, stale.Current); err != nil {
				return receipt, err
			}
			e.AuthorityVersion = stale.Current
			continue
		}
		if err == nil {
			g.countDecision(e)
		}
		return receipt, err
	}
	return audit.Receipt{}, errMoving
}

// bookStranger writes the refusal of a caller nobody proved: one entry per address,
// class and second, with a count.
func (g *Gateway) bookStranger(c *call, code, class, message string) (uuid.UUID, error) {
	e := c.entry(nil, policy.Deny(code, class+": "+message, ""))
	e.Verdict, e.Detail = audit.Refused, class
	receipt, err := g.book.Refuse(c.ctx, c.address, class, e)
	if err != nil {
		c.note(slog.Any("book", err))
		return uuid.Nil, err
	}
	g.countDecision(e)
	return receipt.ID, nil
}

func (g *Gateway) countDecision(e audit.Entry) {
	g.metrics.decisions.WithLabelValues(string(e.Verdict), first(e.Codes)).Inc()
}

// notWritten answers when an Entry is not known to be durable: nothing is forwarded (I2).
func (c *call) notWritten(id uuid.UUID, err error) error {
	c.note(slog.Any("book", err))
	if cause := context.Cause(c.ctx); cause != nil {
		return status.FromContextError(c.ctx.Err()).Err()
	}
	if errors.Is(err, errMoving) {
		return unavailable(id, "BW-AUTHORITY-002", errMoving.Error())
	}
	return unavailable(id, "BW-BOOK-001", "the decision could not be written down")
}
