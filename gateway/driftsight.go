package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
	"bronzeward/gateway/facts"
	"bronzeward/gateway/upstream"
	"bronzeward/policy"
)

// sight looks at one machine and has what is seen judged: is it what was applied last, and
// does an attempt explain each step? The machine's serial is noted before the reading, and its
// identity is read over the connection that the configurations are read over (I7).
// control.ErrMoved means that nothing was judged: look again.
//
// A crash in here leaves nothing, or what RecordSight committed; the next sight of any replica
// goes on from there.
func (g *Gateway) sight(ctx context.Context, id uuid.UUID) (control.SightResult, error) {
	known, err := g.store.Watch(ctx, id)
	if err != nil {
		return "", err
	}
	m := &known.Machine
	if known.Held {
		return "", fmt.Errorf("%w: an apply is under way on %s", control.ErrMoved, m.Name)
	}
	bounded, cancel := context.WithTimeout(ctx, observeWithin)
	defer cancel()
	began := time.Now()
	e, err := g.upstream.Observe(bounded, upstreamTarget(m))
	if err != nil {
		return "", err
	}
	if !identityMatches(e, m) {
		return "", errors.New("the machine behind the address is not the one that was pinned")
	}
	o := control.Sight{MachineID: id, Observation: control.Observation{
		Began: began, NotedSerial: m.Serial, Identity: identityOf(e), Version: e.Version, Stage: e.Stage, Type: e.Type,
		Active: g.digestLike(e.Active.Text, m.ActiveDigest), Persistent: g.digestLike(e.Persistent.Text, m.PersistentDigest),
		ActiveVersion: versionPair(e.Active), PersistentVersion: versionPair(e.Persistent),
	}}
	if known.Same(&o) {
		if err := g.store.SawAgain(ctx, o); err != nil {
			return "", err
		}
		g.keepApplied(ctx, m, &e)
		return control.SightNothing, nil
	}
	if !facts.SameText(e.Active.Text, e.Persistent.Text) {
		o.Staged = append([]policy.ConfigChange{}, g.differences(ctx, e.Active.Text, e.Persistent.Text)...)
	}
	if m.ActiveDigest != "" && (o.Active != m.ActiveDigest || o.Persistent != m.PersistentDigest) {
		found := e.Active.Text
		if o.Active == m.ActiveDigest {
			found = e.Persistent.Text // only what is on its disk is another one
		}
		if applied, err := g.appliedText(ctx, m.ID, m.ActiveDigest); err == nil {
			o.Changes, o.Known = g.differences(ctx, applied, found), true
		} else if !errors.Is(err, control.ErrNotFound) {
			g.log.WarnContext(ctx, "what was applied cannot be compared with", slog.String("machine", m.Name), slog.Any("cause", err))
		}
	}
	result, err := g.store.RecordSight(ctx, o)
	if err != nil {
		return "", err
	}
	g.told(ctx, m, known.Drift, result)
	if result == control.SightBaseline || result == control.SightLate {
		m.ActiveDigest = o.Active
	}
	g.keepApplied(ctx, m, &e)
	return result, nil
}

// told says in the log what a sight came to; drift is the one that was open before, null without.
func (g *Gateway) told(ctx context.Context, m *control.Machine, drift *control.Drift, result control.SightResult) {
	machine := slog.String("machine", m.Name)
	if result == control.SightOpened {
		if now, err := g.store.Watch(ctx, m.ID); err == nil {
			drift = now.Drift
		}
	}
	id := slog.String("drift", "")
	if drift != nil {
		id = slog.String("drift", drift.ID.String())
	}
	switch result {
	case control.SightOpened:
		g.log.WarnContext(ctx, "drift is open", id, machine)
		g.countDrifts(ctx)
	case control.SightMoved:
		g.log.WarnContext(ctx, "drift has moved", id, machine)
	case control.SightReturned:
		g.log.InfoContext(ctx, "drift has returned", id, machine)
		g.countDrifts(ctx)
	case control.SightStep:
		g.log.WarnContext(ctx, "a configuration was written that changed nothing", machine)
	case control.SightLate:
		g.log.WarnContext(ctx, "an attempt has landed after it was accounted for", machine)
	case control.SightBaseline:
		g.log.InfoContext(ctx, "a machine is held against what it runs from now on", machine)
	}
}

// differences are what one text changes in another, without a secret. What cannot be read is
// one difference that says so.
func (g *Gateway) differences(ctx context.Context, before, after []byte) []policy.ConfigChange {
	read := g.reader.Read(ctx, after, before, after)
	out := read.Changes
	if len(read.Problems) > 0 {
		out = append(out, policy.ConfigChange{Document: "v1alpha1", After: "it cannot be read whole: " + read.Problems[0].Message})
	}
	return out
}

// digestLike is the digest of a text under the key of another digest, or under the current one
// without that key.
func (g *Gateway) digestLike(text []byte, like string) string {
	return digestLike(g.digester, text, like)
}

func digestLike(d facts.Digester, text []byte, like string) string {
	if like != "" {
		if digest, err := d.Under(text, like); err == nil {
			return digest
		}
	}
	return d.Digest(text)
}

// appliedText opens the copy of a configuration that was applied. control.ErrNotFound when none
// is kept; other errors are an outage, or say that the copy is not what was sealed.
func (g *Gateway) appliedText(ctx context.Context, machine uuid.UUID, digest string) ([]byte, error) {
	sealedFor, sealed, err := g.store.AppliedCopy(ctx, machine, digest)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, sealWithin)
	defer cancel()
	text, err := g.sealer.Open(bounded, sealed, sealContext(sealedFor, machine, digest))
	if err != nil {
		return nil, err
	}
	same, err := g.digester.Same(text, digest)
	if err != nil {
		return nil, err
	}
	if !same {
		return nil, errOtherCopy
	}
	return text, nil
}

var errOtherCopy = otherCopy{}

// otherCopy says that a copy is not of the configuration that it is kept for.
type otherCopy struct{}

func (otherCopy) Error() string { return "the copy is of another configuration" }
func (otherCopy) Altered() bool { return true }

// copied says whether what a machine runs may be kept, sealed. What its row says of it is an operator's word, so that the machine is
// asked too.
func copied(m *control.Machine, e *upstream.Evidence) bool {
	return m.Role == "worker" && e.Type == "worker"
}

// notKept is sealed in the place of a control plane's configuration.
const notKept = "no copy of a control plane's configuration is kept"

// keepApplied keeps a sealed copy of what a machine runs, when that is what was applied last
// and there is none: after a baseline, and after an apply that needed no change. Without a
// copy nobody can go back. A control plane's is not kept: nothing is ever sent to one, and it
// holds the keys of the cluster.
func (g *Gateway) keepApplied(ctx context.Context, m *control.Machine, e *upstream.Evidence) {
	if !copied(m, e) || m.ActiveDigest == "" {
		return
	}
	text := e.Active.Text
	if same, err := g.digester.Same(text, m.ActiveDigest); err != nil || !same {
		return
	}
	has, err := g.store.HasAppliedCopy(ctx, m.ID, m.ActiveDigest)
	if err != nil || has {
		return
	}
	id := newChangeID()
	bounded, cancel := context.WithTimeout(ctx, sealWithin)
	defer cancel()
	sealed, err := g.sealer.Seal(bounded, text, sealContext(id, m.ID, m.ActiveDigest))
	if err == nil {
		err = g.store.KeepAppliedCopy(ctx, m.ID, m.ActiveDigest, id, sealed)
	}
	if err != nil && ctx.Err() == nil {
		g.log.WarnContext(ctx, "no copy of what was applied could be kept", slog.String("machine", m.Name), slog.Any("cause", err))
	}
}
