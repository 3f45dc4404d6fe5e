package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"bronzeward/audit"
	"bronzeward/gateway/facts"
	"bronzeward/policy"
)

// understand answers what is asked and of which machines. Whatever it cannot
// understand it refuses, with an entry; nothing has touched a node by then.
func (c *call) understand() error {
	method, known := facts.Lookup(c.name)
	if !known || !method.In(facts.SupportedMinor) {
		return c.deny(policy.Deny("BW-METHODS-001",
			fmt.Sprintf("%s is no method this gateway knows for Talos %s", printable(c.name), facts.SupportedMinor), ""))
	}
	c.method = method
	if method.ClientStream {
		// Nothing of an upload is read: it could not be judged whole.
		return c.deny(policy.Deny("BW-METHODS-002",
			fmt.Sprintf("%s takes a stream from the caller, and what cannot be read whole is never forwarded", c.name), ""))
	}
	if err := c.holdBody(); err != nil {
		return c.refuseRequest("BW-REQUEST-001", err)
	}
	if err := c.receive(); err != nil {
		return c.refuseRequest("BW-REQUEST-001", err)
	}
	if !method.Applies() {
		if len(c.body) > maxRequest {
			c.body = nil
			return c.refuseRequest("BW-REQUEST-001", errLargeMessage)
		}
		c.dropBody()
	}
	asked, err := facts.ParseCall(method, c.body)
	if err != nil {
		return c.refuseRequest("BW-REQUEST-002", err)
	}
	c.asked = asked
	return c.aim()
}

// aim resolves the targets the metadata names to machines. A call that changes
// something has exactly one.
func (c *call) aim() error {
	asked, err := facts.ParseTargets(c.md)
	if err != nil {
		return c.denyTarget(err)
	}
	snap := c.g.store.Snapshot()
	found, err := facts.Resolve(c.method, asked, index{snap})
	if err != nil {
		return c.denyTarget(err)
	}
	// Only answers of methods that can go to several nodes have a place for the name; in
	// others, a COSI resource say, the same bytes would mean something else.
	c.hostname = asked.Form == "nodes" && c.method.Nodes
	names := make([]string, 0, len(found))
	for _, f := range found {
		id, _ := uuid.Parse(f.Machine)
		machine := snap.Machines[id]
		if machine == nil {
			return c.denyTarget(fmt.Errorf("machine %s went away meanwhile", f.Spelled))
		}
		if machine.Retired != nil {
			return c.denyAbout(&target{spelled: f.Spelled, machine: machine}, retired(machine))
		}
		c.targets = append(c.targets, target{spelled: f.Spelled, machine: machine})
		names = append(names, machine.Name)
	}
	ids := make([]uuid.UUID, len(c.targets))
	for i := range c.targets {
		ids[i] = c.targets[i].machine.ID
	}
	c.g.sessions.aim(c.ctx, ids)
	c.note(slog.Any("machines", names))
	return nil
}

// deny writes a refusal that Go itself words (a method nobody knows, a target nobody
// knows) and answers with it.
func (c *call) deny(d policy.Decision) error {
	e := c.entry(nil, d)
	receipt, err := c.g.write(c.ctx, e)
	if err != nil {
		return c.notWritten(e.ID, err)
	}
	c.decided = append(c.decided, receipt)
	return denial(receipt, d)
}

func (c *call) denyTarget(err error) error {
	hint := ""
	var refused *facts.Refusal
	if errors.As(err, &refused) {
		hint = refused.Hint
	}
	return c.deny(policy.Deny("BW-TARGET-001", err.Error(), hint))
}

// refuseRequest answers a request that is not well-formed: InvalidArgument, or
// ResourceExhausted for one that is too large, written down as refused.
func (c *call) refuseRequest(code string, cause error) error {
	grpcCode := codes.InvalidArgument
	message := cause.Error()
	if st, ok := status.FromError(cause); ok && st.Code() != codes.Unknown {
		grpcCode, message = st.Code(), st.Message()
	}
	e := c.entry(nil, policy.Deny(code, message, ""))
	e.Verdict = audit.Refused
	// gRPC answers by itself and ends the call when a message is malformed or too large,
	// and a caller may go away in the middle of one: the refusal is written all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), keepWithin)
	defer cancel()
	receipt, err := c.g.write(ctx, e)
	if err != nil {
		return c.notWritten(e.ID, err)
	}
	c.decided = append(c.decided, receipt)
	return refusal(grpcCode, receipt, code, message)
}

// limited answers a caller that is over a limit; one entry per person, limit and
// second is written for all such answers.
func (c *call) limited(limit, message string) error {
	c.g.metrics.limited.WithLabelValues(limit).Inc()
	e := c.entry(nil, policy.Deny("BW-LIMIT-002", message, ""))
	e.Verdict = audit.Refused
	who := sha256.Sum256([]byte(c.caller.Issuer + "\x00" + c.caller.Subject))
	receipt, err := c.g.book.Refuse(c.ctx, c.address, fmt.Sprintf("limit-%s-%x", limit, who[:6]), e)
	if err != nil {
		return c.notWritten(e.ID, err)
	}
	c.decided = append(c.decided, receipt)
	return refusal(codes.ResourceExhausted, receipt, "BW-LIMIT-002", message)
}

// printable is a stranger's text as it may stand in a message or log line: quoted when
// it holds anything but printable characters, and cut.
func printable(s string) string {
	const most = 200
	if len(s) > most {
		s = cut(s, most)
	}
	if q := strconv.QuoteToGraphic(s); q != `"`+s+`"` {
		return q
	}
	return s
}
