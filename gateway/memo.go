package gateway

import (
	"context"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// memoSize is how many decisions are kept; each is gone a second later anyway.
const memoSize = 2048

// memo remembers decisions on reads for as long as all their facts are the same, the
// second they are made in included: a dashboard and a loop ask the same thing many times
// within one. Safe for concurrent use.
//
// It changes no decision. The clock a read is judged by is the database's, cut to its
// second before judging and recording, so equal facts are judged to equal decisions by
// one revision; the end of a proof is held to the instant by sessions.go.
type memo struct {
	kept *lru.Cache[string, policy.Decision]
}

func newMemo() (memo, error) {
	kept, err := lru.New[string, policy.Decision](memoSize)
	return memo{kept}, err
}

// judge is laws.judge for a read; it gives the facts as they go into the entry, too.
func (m memo) judge(ctx context.Context, g *Gateway, snap *control.Snapshot, f *policy.Facts) (policy.Decision, []byte) {
	f.Now = f.Now.Truncate(time.Second)
	raw, err := encodeFacts(f)
	if err != nil {
		return policy.Deny("BW-BOOK-002", "the facts of this call cannot be written down", ""), nil
	}
	key := snap.LiveRevision + string(raw)
	if d, ok := m.kept.Get(key); ok {
		return d, raw
	}
	d := g.laws.judge(ctx, g, snap, f)
	if d.Revision == "" || d.Revision != snap.LiveRevision || slices.ContainsFunc(d.Reasons, ofTheEngine) {
		return d, raw // not the law's own decision: an engine that failed may do better next time
	}
	// Whoever adds a reason must not write into what is kept.
	d.Reasons = d.Reasons[:len(d.Reasons):len(d.Reasons)]
	m.kept.Add(key, d)
	return d, raw
}

func ofTheEngine(r policy.Reason) bool { return strings.HasPrefix(r.Code, "BW-POLICY-") }
