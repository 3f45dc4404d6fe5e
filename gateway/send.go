package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/upstream"
	"bronzeward/policy"
)

// closeWithin is how long writing an attempt's outcome is tried again while the
// database is away; after that the attempt stays open and is settled by evidence.
const closeWithin = 30 * time.Second

// sendApply is steps 7 to 9 of an apply: send once, read back, write down, answer. The
// attempt is durable when it begins. It runs detached from the caller, because a caller
// who hangs up must not turn a sent apply into an unknown one.
//
// A crash in here leaves an open attempt: the machine is held until settle.go has
// observed what became of it.
func (c *call) sendApply(t *target, l *look, d policy.Decision, adm control.Admission) error {
	c.detached = true
	ctx := context.WithoutCancel(c.ctx)
	attempt := adm.Attempt
	stopRenewing := c.g.renewLease(ctx, attempt)
	defer stopRenewing()

	began := time.Now()
	answer := notSent("the time to send was over before the first byte")
	if began.Before(attempt.SendBefore) {
		answer = l.conn.Apply(ctx, c.body, d.UpstreamRoles, adm.Receipt.ID.String(), attempt.ResetBefore)
	}
	c.g.metrics.seconds.WithLabelValues("send").Observe(time.Since(began).Seconds())

	closing := c.g.conclude(ctx, l, attempt, answer)
	if err := c.g.closeAttempt(ctx, closing); err != nil {
		c.note(slog.Any("outcome", err))
		return c.notClosed(adm, answer, err)
	}
	c.g.metrics.attempts.WithLabelValues(string(closing.To)).Inc()
	c.note(slog.String("attempt", attempt.ID.String()), slog.String("state", string(closing.To)))
	c.attempt = attempt
	if closing.To == control.StateCompleted && c.kind() == control.KindRevert {
		c.g.settled(ctx, c.act.change)
	}
	return c.answerApply(t, l, d, adm, closing, answer)
}

func notSent(why string) upstream.Answer {
	return upstream.Answer{Code: codes.Unavailable, Message: why, Err: errors.New(why)}
}

// conclude reads the machine back and says what the attempt has become (DESIGN §4).
// Only evidence completes it, and only an answer with nothing moved rejects it.
func (g *Gateway) conclude(ctx context.Context, l *look, a *control.Attempt, answer upstream.Answer) control.Closing {
	answered := answerOutcome(l, answer)
	answered.ID = newID() // by it a repeated closing finds what it has written before
	c := control.Closing{AttemptID: a.ID, Owner: a.Owner, Outcomes: []audit.Outcome{answered}}
	if answer.NotSent() {
		c.To, c.Reason = control.StateNotSent, "no byte of the request was written: "+oneLine(answer.Message)
		return c
	}
	began := time.Now()
	back := g.readBack(ctx, l, a, answer)
	g.metrics.seconds.WithLabelValues("read-back").Observe(time.Since(began).Seconds())
	switch {
	case back.Last == nil:
	case back.OtherMachine:
		// What another machine holds is nothing this attempt has read back.
		o := readBackOutcome(back.Last, g.digester.Digest(back.Last.Active.Text), g.digester.Digest(back.Last.Persistent.Text))
		o.Message = "of another machine, node id " + printable(back.Last.NodeID)
		c.Outcomes = append(c.Outcomes, o)
	default:
		c.ReadActive = g.readDigest(back.ActiveMatches, back.Last.Active.Text, a)
		c.ReadPersistent = g.readDigest(back.PersistentMatches, back.Last.Persistent.Text, a)
		c.Outcomes = append(c.Outcomes, readBackOutcome(back.Last, c.ReadActive, c.ReadPersistent))
	}
	ok := answer.Got && answer.Code == codes.OK
	// A status that apid can make by itself while machined goes on is no refusal.
	refused := answer.Got && !ok && !answer.Relayed()
	// An apply that changes nothing leaves the digest as it was: then only the moved
	// resource, or the node's own word, shows that this one landed.
	tells := a.Digest != a.Base || back.Moved || ok
	switch {
	case back.Matched && tells:
		c.To, c.Reason = control.StateCompleted, "the machine holds the configuration that was sent"
	case refused && back.Last != nil && !back.Moved && !back.Rebooted && !back.OtherMachine:
		c.To, c.Reason = control.StateRejected, "the node answered "+answer.Code.String()+" and nothing moved"
	case back.Last == nil:
		c.To, c.Reason = control.StateUnresolved, "the machine could not be read back"
	case back.OtherMachine:
		c.To, c.Reason = control.StateUnresolved, heard(answer)+", and another machine answers at its address by now"
	case back.Rebooted:
		c.To, c.Reason = control.StateUnresolved, heard(answer)+", and the machine rebooted meanwhile and does not hold the configuration"
	case answer.Got && !answer.Relayed():
		c.To, c.Reason = control.StateUnresolved, "the node answered "+answer.Code.String()+", and what it holds says otherwise"
	default:
		c.To, c.Reason = control.StateUnresolved, "no answer came, and the machine does not hold the configuration yet"
	}
	return c
}

// heard says what came back of the send, for what it left open.
func heard(answer upstream.Answer) string {
	if answer.Got && !answer.Relayed() {
		return "the node answered " + answer.Code.String()
	}
	return "no answer came"
}

// readDigest is the digest of a text read back: the attempt's own when it is that text,
// whatever key is current by now.
func (g *Gateway) readDigest(matches bool, text []byte, a *control.Attempt) string {
	if matches {
		return a.Digest
	}
	return g.digester.Digest(text)
}

// readBack polls until both resources hold what was sent, or the deadline. After a
// refusal one whole reading is enough.
func (g *Gateway) readBack(ctx context.Context, l *look, a *control.Attempt, answer upstream.Answer) upstream.ReadBack {
	ctx, cancel := context.WithTimeout(ctx, g.verifyDeadline)
	defer cancel()
	cfg := upstream.ReadBackConfig{
		Before: l.evidence,
		Want: func(text []byte) bool {
			same, err := g.digester.Same(text, a.Digest)
			return err == nil && same
		},
		Once: answer.Got && answer.Code != codes.OK && !answer.Relayed(),
	}
	back := l.conn.ReadBack(ctx, cfg)
	if cfg.Once && back.Last == nil {
		cfg.Once = false
		back = l.conn.ReadBack(ctx, cfg)
	}
	return back
}

// renewLease keeps the attempt this process's while it works on it.
func (g *Gateway) renewLease(ctx context.Context, a *control.Attempt) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(control.DefaultLease / 3)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := g.store.RenewLease(ctx, a.ID, a.Owner); errors.Is(err, control.ErrNotOwner) {
					return // CloseAttempt will be told the same
				}
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// closeAttempt writes the outcome, trying again while the database is away.
func (g *Gateway) closeAttempt(ctx context.Context, c control.Closing) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := g.store.CloseAttempt(ctx, c)
		if err != nil && !errors.Is(err, control.ErrUnavailable) {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithMaxElapsedTime(closeWithin))
	return err
}

// notClosed answers when the outcome is not known to be written: never a success. That nothing
// left is still said: the caller must not think that the machine may have been changed.
func (c *call) notClosed(adm control.Admission, answer upstream.Answer, err error) error {
	why := "its outcome could not be written down"
	if errors.Is(err, control.ErrNotOwner) {
		why = "another gateway has taken it over"
	}
	show := "bronzeward attempts show " + adm.Attempt.ID.String()
	if answer.NotSent() {
		return refusal(codes.Unavailable, adm.Receipt, "BW-ATTEMPT-003", fmt.Sprintf("no byte of attempt %s was written, and %s", adm.Attempt.ID, why),
			"nothing was sent to the machine, and it stays held until somebody has accounted for the attempt", show)
	}
	sent := "may have been sent"
	if answer.Got {
		sent = "was sent"
	}
	return refusal(codes.Unavailable, adm.Receipt, "BW-ATTEMPT-002", fmt.Sprintf("the apply %s as attempt %s, and %s", sent, adm.Attempt.ID, why),
		"the machine stays held until it has been observed", show)
}

// dryRun sends a dry run: judged and written like an apply, without an attempt, because
// nothing lands.
func (c *call) dryRun(t *target, l *look, d policy.Decision, adm control.Admission) error {
	deadline := time.Now().Add(c.g.transportDeadline)
	if due, ok := c.stream.Context().Deadline(); ok && due.Before(deadline) {
		deadline = due.Add(-deadlineMargin)
	}
	began := time.Now()
	answer := l.conn.Apply(c.ctx, c.body, d.UpstreamRoles, adm.Receipt.ID.String(), deadline)
	o := answerOutcome(l, answer)
	o.ID, o.EntryID, o.Duration, o.Instance = newID(), adm.Receipt.ID, time.Since(began), c.g.instance
	c.keepOutcome(o)
	switch {
	case !answer.Got:
		return refusal(codes.Unavailable, adm.Receipt, "BW-UPSTREAM-002", "the machine did not answer the dry run: "+oneLine(answer.Message))
	case answer.Code != codes.OK:
		return c.nodeRefusal(l, d, answer)
	}
	return c.sendAnswer(t, l, d, answer.Response)
}

// nodeRefusal is the node's own status, with what may be secret in its words redacted.
func (c *call) nodeRefusal(l *look, d policy.Decision, answer upstream.Answer) error {
	message := answer.Message
	if d.Redact {
		message = l.redactor.Text(message)
	}
	return status.Error(answer.Code, message)
}
