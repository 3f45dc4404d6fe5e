package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"bronzeward/audit"
	"bronzeward/gateway/upstream"
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
	receipt  audit.Receipt
	// seen is who answered when the machine had to be identified first; nil otherwise.
	seen *upstream.Evidence
	// ours is what is answered when the refusal is no policy's verdict; nil otherwise.
	ours *refusedError
}

// refusal is the answer to a call that is not forwarded.
func (v verdict) refusal() error {
	if v.ours != nil {
		return v.ours
	}
	return denial(v.receipt, v.decision)
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
		c.decided = append(c.decided, v.receipt)
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
		// What a row says is authority too: where it is reached, what it is labelled, and that it is in service still.
		t.renew(snap)
		f := c.facts(t, snap, phase)
		began := time.Now()
		d, raw := c.g.memo.judge(ctx, c.g, snap, f)
		d = everyCall(f, d)
		if t.machine.Retired != nil {
			d.Allow, d.Reasons = false, append(retired(t.machine).Reasons, d.Reasons...)
		}
		c.g.metrics.seconds.WithLabelValues("judge").Observe(time.Since(began).Seconds())
		var (
			seen *upstream.Evidence
			ours *refusedError
		)
		if d.Allow && c.asked.Call.Class == policy.ClassConfigRead {
			seen, ours, d = c.whose(ctx, t, d)
		}
		e := c.entry(t, d)
		if ours != nil {
			e.Verdict, e.Detail = audit.Refused, ours.class
		}
		e.Facts = raw
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
		if ours != nil {
			ours.entry = receipt
		}
		return verdict{target: t, decision: d, receipt: receipt, seen: seen, ours: ours}, nil
	}
	return verdict{}, errMoving
}

// whose identifies the machine behind the address before its configuration is read, which
// holds every secret of its cluster: what a row says of a machine is an operator's word.
// No policy can waive that it is the pinned one, and a worker. Without a credential of ours
// nobody can look, which is no verdict about the caller.
func (c *call) whose(ctx context.Context, t *target, d policy.Decision) (*upstream.Evidence, *refusedError, policy.Decision) {
	refuse := func(code, message, hint string) (*upstream.Evidence, *refusedError, policy.Decision) {
		d.Allow = false
		d.Reasons = append(d.Reasons, policy.Deny(code, message, hint).Reasons...)
		return nil, nil, d
	}
	if !t.machine.Pinned() {
		return refuse("BW-INVARIANT-003", "the machine is not pinned to an identity", "bronzeward machines pin "+t.machine.Name)
	}
	seen, err := c.g.upstream.Identify(ctx, upstreamTarget(t.machine))
	switch {
	case upstream.OurCredential(err):
		c.note(slog.Any("evidence", err))
		code, message := unreadable(t.machine.Name, "identified", err)
		_, _, d = refuse(code, message, "")
		return nil, &refusedError{
			status: codes.Unavailable, code: code, message: message, class: string(upstream.ClassOf(err)), hints: []string{sentNothing},
		}, d
	case err != nil:
		c.note(slog.Any("evidence", err))
		return refuse("BW-UPSTREAM-001", fmt.Sprintf("machine %s cannot be identified: %s", t.machine.Name, oneLine(err.Error())), "")
	case !identityMatches(seen, t.machine):
		return refuse("BW-INVARIANT-007", "the machine behind the address is not the one that was pinned", "")
	case seen.Type != "worker":
		return refuse("BW-INVARIANT-006", fmt.Sprintf("the machine says it is a %s, not a worker", seen.Type), "")
	}
	return &seen, nil, d
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
func (g *Gateway) bookStranger(c *call, code, class, message string) (audit.Receipt, error) {
	e := c.entry(nil, policy.Deny(code, class+": "+message, ""))
	e.Verdict, e.Detail = audit.Refused, class
	receipt, err := g.book.Refuse(c.ctx, c.address, class, e)
	if err != nil {
		c.note(slog.Any("book", err))
		return audit.Receipt{}, err
	}
	g.countDecision(e)
	return receipt, nil
}

func (g *Gateway) countDecision(e audit.Entry) {
	g.metrics.decisions.WithLabelValues(string(e.Verdict), first(e.Codes)).Inc()
}

// movedOn answers, and writes down, that a call could not be judged on anything that
// stood still.
func (c *call) movedOn() error {
	var t *target
	if len(c.targets) == 1 {
		t = &c.targets[0]
	}
	e := c.entry(t, policy.Deny("BW-AUTHORITY-002", errMoving.Error(), ""))
	e.Verdict = audit.Refused
	receipt, err := c.g.write(c.ctx, e)
	if err != nil {
		c.note(slog.Any("book", err))
		return unavailable(audit.Receipt{ID: e.ID}, "BW-BOOK-001", "the decision could not be written down")
	}
	c.decided = append(c.decided, receipt)
	return unavailable(receipt, "BW-AUTHORITY-002", errMoving.Error())
}

// notWritten answers when an Entry is not known to be durable: nothing is forwarded (I2).
func (c *call) notWritten(id uuid.UUID, err error) error {
	c.note(slog.Any("book", err))
	if cause := context.Cause(c.ctx); cause != nil {
		return status.FromContextError(c.ctx.Err()).Err()
	}
	if errors.Is(err, errMoving) {
		return c.movedOn()
	}
	return unavailable(audit.Receipt{ID: id}, "BW-BOOK-001", "the decision could not be written down")
}
