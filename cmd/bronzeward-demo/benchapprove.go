package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"bronzeward/gateway/httpapi/api"
	"bronzeward/gateway/httpapi/apiclient"
)

// Two laws and two paces: what an apply costs that spends an approved change, beside one that
// needs none.
const (
	lawNone = "no approval asked"
	lawOne  = "one approval spent"

	paceOne = "one after the other"
	paceAll = "all at once"
)

// pacing is one law and pace: the whole applies as their callers see them, and two steps of
// them as the gateway measures them: the one that decides, and the one that opens the sealed
// bytes of a change and compares them with what was asked for.
type pacing struct {
	took        samples
	admit, open histogram
}

// approvals measures applies to fifty machines in fifty clusters.
func (h *benchHouse) approvals(ctx context.Context, o benchOptions) (string, error) {
	if err := h.haveFleet(ctx); err != nil {
		return "", err
	}
	all := map[[2]string]*pacing{}
	laws := []string{lawNone, lawOne}
	for round := range o.times(4) + 1 {
		for i := range laws {
			law := laws[(i+round)%len(laws)]
			if err := h.quorum(ctx, slices.Index(laws, law)); err != nil {
				return "", err
			}
			for _, pace := range []string{paceOne, paceAll} {
				one, err := h.pace(ctx, law, pace)
				if err != nil {
					return "", fmt.Errorf("%s, %s: %w", law, pace, err)
				}
				key := [2]string{pace, law}
				if all[key] == nil {
					all[key] = &pacing{admit: histogram{}, open: histogram{}}
				}
				if round > 0 {
					all[key].took = append(all[key].took, one.took...)
					all[key].admit.plus(one.admit)
					all[key].open.plus(one.open)
				}
			}
		}
	}
	t := &table{head: []string{
		fmt.Sprintf("%d machines in %d clusters", fleetSize, fleetSize), "", "n", "apply p50", "apply p99", "to no approval",
		"decision mean", "to no approval", "decision p99", "decisions within 9.8 ms",
	}}
	var wanted aims
	for _, pace := range []string{paceOne, paceAll} {
		bare := all[[2]string{pace, lawNone}]
		for _, law := range laws {
			p := all[[2]string{pace, law}]
			within := p.admit.within(0.0098)
			t.add(pace, law, fmt.Sprint(len(p.took)), millis(p.took.p50()), millis(p.took.p99()), ratio(float64(p.took.p50()), float64(bare.took.p50())),
				millis(p.admit.mean()), ratio(float64(p.admit.mean()), float64(bare.admit.mean())), "≤ "+millis(p.admit.atMost(0.99)), fmt.Sprintf("%.1f %%", within*100))
			if law == lawOne {
				wanted.add(within >= 0.99, "a decision with approvals, its transaction included, p99 ≤ 10 ms, %s: p99 ≤ %s", pace, millis(p.admit.atMost(0.99)))
			}
		}
	}
	one, bare := all[[2]string{paceOne, lawOne}], all[[2]string{paceOne, lawNone}]
	over := one.took.p50() - bare.took.p50()
	check := fmt.Sprintf("\nThe use-time check (the change's sealed bytes are read from PostgreSQL, their key is unwrapped by OpenBao on loopback, and they are compared) takes %s in the mean, one after the other, and %s all at once.\n",
		millis(one.open.mean()), millis(all[[2]string{paceAll, lawOne}].open.mean()))
	wanted.add(one.open.mean() <= 3*time.Millisecond, "the use-time check adds ≤ 3 ms to an apply, one after the other: mean %s, p50 in the bucket up to %s (an apply that spends a change takes %s more in all at p50)",
		millis(one.open.mean()), millis(one.open.atMost(0.5)), millis(over))
	return "### Approvals\n\n" + t.String() + check + wanted.String(), h.quorum(ctx, 0)
}

// pace applies to every machine once; with approvals, what is applied was captured and
// approved before.
func (h *benchHouse) pace(ctx context.Context, law, pace string) (*pacing, error) {
	texts := make([][]byte, len(h.fleet))
	for i, m := range h.fleet {
		texts[i] = m.next()
	}
	if law == lawOne {
		if err := h.approved(ctx, texts); err != nil {
			return nil, err
		}
	}
	before, err := h.pacedSteps(ctx)
	if err != nil {
		return nil, err
	}
	p := &pacing{took: make(samples, len(h.fleet))}
	atOnce := 1
	if pace == paceAll {
		atOnce = len(h.fleet)
	}
	err = h.together(ctx, atOnce, func(ctx context.Context, i int, m *benchMember) error {
		began := time.Now()
		err := m.apply(ctx, texts[i])
		p.took[i] = time.Since(began)
		return err
	})
	if err != nil {
		return nil, err
	}
	after, err := h.pacedSteps(ctx)
	if err != nil {
		return nil, err
	}
	p.admit, p.open = after[0].since(before[0]), after[1].since(before[1])
	if n := p.admit.count(); n != float64(len(h.fleet)) {
		return nil, fmt.Errorf("%d applies were decided %g times", len(h.fleet), n)
	}
	return p, nil
}

// pacedSteps are the two histograms of pacing.
func (h *benchHouse) pacedSteps(ctx context.Context) (both [2]histogram, err error) {
	for i, name := range []string{"admit", "open"} {
		if both[i], err = h.step(ctx, name); err != nil {
			return both, err
		}
	}
	return both, nil
}

// approved has each text captured on its machine, and all of them approved in one act.
func (h *benchHouse) approved(ctx context.Context, texts [][]byte) error {
	ids := make([]string, len(h.fleet))
	err := h.together(ctx, 4, func(ctx context.Context, i int, m *benchMember) (err error) {
		ids[i], err = deniedFor(m.apply(ctx, texts[i]), "BW-APPROVAL-001")
		return err
	})
	if err != nil {
		return err
	}
	ada, err := h.api("ada")
	if err != nil {
		return err
	}
	digests, err := waitingDigests(ctx, ada)
	if err != nil {
		return err
	}
	body := api.NewApproval{Digest: digests[ids[0]], Also: &[]api.AlsoApproved{}}
	for _, id := range ids[1:] {
		*body.Also = append(*body.Also, api.AlsoApproved{ID: id, Digest: digests[id]})
	}
	done, err := ada.ApproveChangeWithResponse(ctx, ids[0], nil, body)
	return answered(done, err, http.StatusCreated)
}

// waitingDigests are the digests of the newest waiting changes, by id.
func waitingDigests(ctx context.Context, c *apiclient.ClientWithResponses) (map[string]string, error) {
	limit := 500
	list, err := c.ListChangesWithResponse(ctx, &api.ListChangesParams{State: &[]api.ChangeStateFilter{"waiting"}, Limit: &limit})
	if err := answered(list, err, http.StatusOK); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, c := range list.JSON200.Items {
		out[c.ID] = c.Digest
	}
	return out, nil
}
