package main

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// What an apply comes to under a law that asks for approvals.
const (
	cameRefusal = "refused for a kernel parameter, nothing captured"
	cameCapture = "refused for approvals, captured as a change"
	cameKnown   = "refused for approvals, captured before"
)

// captures measures a refusal that becomes a change beside refusals that do not, in turns over
// the fleet, so that a machine has few changes waiting.
func (h *benchHouse) captures(ctx context.Context, o benchOptions) (string, error) {
	if err := h.haveFleet(ctx); err != nil {
		return "", err
	}
	if err := h.quorum(ctx, 1); err != nil {
		return "", err
	}
	took := map[string]samples{}
	const warm = 10
	for round := range o.times(150) + warm {
		m := h.fleet[round%len(h.fleet)]
		text := m.next()
		order := []string{cameRefusal, cameCapture, cameKnown}
		if round%2 == 1 {
			order = []string{cameCapture, cameKnown, cameRefusal}
		}
		for _, what := range order {
			began := time.Now()
			if err := h.comesTo(ctx, m, what, text); err != nil {
				return "", fmt.Errorf("%s: %w", what, err)
			}
			if round >= warm {
				took[what] = append(took[what], time.Since(began))
			}
		}
	}
	t := &table{head: []string{fmt.Sprintf("apply of %d bytes, evidence read", len(h.small.text)), "n", "p50", "p99", "p50 to a plain refusal", "p50 over it"}}
	bare := took[cameRefusal]
	for _, what := range []string{cameRefusal, cameCapture, cameKnown} {
		s := took[what]
		t.add(what, fmt.Sprint(len(s)), millis(s.p50()), millis(s.p99()), ratio(float64(s.p50()), float64(bare.p50())), millis(s.p50()-bare.p50()))
	}
	return "### Captures\n\n" + t.String(), h.quorum(ctx, 0)
}

// comesTo makes an apply that comes to one of the three, and checks that it did.
func (h *benchHouse) comesTo(ctx context.Context, m *benchMember, what string, text []byte) error {
	code := "BW-APPROVAL-001"
	if what == cameRefusal {
		code = "BW-CONFIG-[0-9]+"
		text = bytes.Replace(text, []byte("example_setting_0: \"0\""), []byte("example_setting_0: \"1\""), 1)
	}
	change, err := deniedFor(m.apply(ctx, text), code)
	if err == nil && (change == "") != (what == cameRefusal) {
		err = fmt.Errorf("the refusal names the change %q", change)
	}
	return err
}
