package gateway

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

const (
	// keepEvery is how often changes whose clock has run out are marked: lists should not
	// show them as live for long. What decides looks at the clock itself.
	keepEvery = 2 * time.Second
	// tidyEvery is how often what is kept for a while only is dropped.
	tidyEvery = time.Minute
	// keepKeys is how long an Idempotency-Key is remembered: longer than anybody retries.
	keepKeys = 48 * time.Hour
)

// Keep marks changes that are over, counts those that wait, and drops sealed bytes and
// Idempotency-Keys that are not needed any more, from the start until ctx ends. Every
// replica may run it at once.
func (g *Gateway) Keep(ctx context.Context) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	var tidied time.Time
	failing := false
	for {
		err := g.keepOnce(ctx, time.Since(tidied) >= tidyEvery)
		if err == nil && time.Since(tidied) >= tidyEvery {
			tidied = time.Now()
		}
		if err != nil && !failing && ctx.Err() == nil {
			g.log.WarnContext(ctx, "changes cannot be looked after", slog.Any("cause", err))
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (g *Gateway) keepOnce(ctx context.Context, tidy bool) error {
	if _, err := g.store.ExpireChanges(ctx); err != nil {
		return err
	}
	waiting, err := g.store.CountWaiting(ctx)
	if err != nil {
		return err
	}
	g.metrics.waiting.Set(float64(waiting))
	held, err := g.store.CountHolds(ctx)
	if err != nil {
		return err
	}
	g.metrics.holds.set(held)
	if !tidy {
		return nil
	}
	if _, err := g.store.DropSealed(ctx, g.changes.KeepSealed); err != nil {
		return err
	}
	if _, err := g.store.DropAppliedCopies(ctx, g.drift.KeepApplied); err != nil {
		return err
	}
	_, err = g.store.DropKeys(ctx, keepKeys)
	return err
}

// people remembers with which token each person was last seen, so that only news are written
// down. Safe for concurrent use.
type people struct {
	mu   sync.Mutex
	last map[policy.Person]seenProof // guarded by mu
}

// seenProof is when a token was issued, and the groups it names.
type seenProof struct {
	issued time.Time
	groups string
}

// mostPeople bounds what is remembered; beyond it all is forgotten and written again.
const mostPeople = 10_000

// news is true for a token that is not the last one seen of the person. An older one is news
// to nobody but the row, which keeps the freshest.
func (p *people) news(who policy.Person, issued time.Time, groups []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := seenProof{issued.UTC(), strings.Join(groups, "\x00")}
	if p.last[who] == one {
		return false
	}
	if p.last == nil || len(p.last) >= mostPeople {
		p.last = map[policy.Person]seenProof{}
	}
	p.last[who] = one
	return true
}

func (p *people) forget(who policy.Person) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, who)
}

// sawWithin bounds writing down somebody's groups, which nobody waits for.
const sawWithin = 5 * time.Second

// Saw notes with which groups somebody came, when a token proves it afresh: an approval then
// shows that its approver has left a group. Nothing is decided by it but what a policy asks.
// It does not wait.
func (g *Gateway) Saw(c identity.Caller) {
	if c.Proof == identity.ProofCertificate {
		return // its groups are as old as the certificate
	}
	who := personOf(c)
	if !g.seen.news(who, c.ProofIssued, c.Groups) {
		return
	}
	g.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), sawWithin)
		defer cancel()
		if err := g.store.SawPerson(ctx, who, string(c.Kind), c.Groups, c.ProofIssued); err != nil {
			g.seen.forget(who)
			g.log.DebugContext(ctx, "somebody's groups could not be noted", slog.Any("cause", err))
		}
	})
}

// Announcement is what approvers are told of a waiting change: no configuration is in it.
type Announcement struct {
	ID        string        `json:"id"`
	State     string        `json:"state"`
	Machine   string        `json:"machine"`
	Cluster   string        `json:"cluster"`
	Mode      string        `json:"mode"`
	Digest    string        `json:"digest"`
	Set       string        `json:"set"`
	Requester policy.Person `json:"requester"`
	Required  int           `json:"approvals_required"`
	Groups    []string      `json:"approval_groups"`
	Paths     []string      `json:"paths"`
	CreatedAt time.Time     `json:"created_at"`
	ApproveBy time.Time     `json:"approve_by"`
}

// mostPaths bounds how many changed paths an announcement names.
const mostPaths = 50

// Describe gives what approvers are told of a change, as it is now.
func (g *Gateway) Describe(ctx context.Context, id control.ChangeID) (any, error) {
	ch, err := g.store.GetChange(ctx, id)
	if err != nil {
		return nil, err
	}
	review, err := g.store.GetReview(ctx, id)
	if err != nil {
		return nil, err
	}
	out := Announcement{
		ID: id.String(), State: string(ch.State), Machine: ch.MachineName, Cluster: ch.Cluster, Mode: ch.Mode, Digest: ch.Digest, Set: ch.Set,
		Requester: ch.Requester, Required: ch.Asked.Required, Groups: ch.Asked.Groups, Paths: []string{}, CreatedAt: ch.CreatedAt, ApproveBy: ch.ApproveBy,
	}
	for _, c := range review.Changes {
		if len(out.Paths) == mostPaths {
			break
		}
		out.Paths = append(out.Paths, c.Document+" "+c.Path)
	}
	return out, nil
}
