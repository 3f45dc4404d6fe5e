package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"bronzeward/gateway/facts"
	"bronzeward/policy"
)

// large measures the 10.7 MiB configurations: the one that passes, applied whole, and the
// one of labels alone, which is refused; and how long each takes to be decided.
func (h *benchHouse) large(ctx context.Context, o benchOptions) (string, error) {
	took, err := h.applyRounds(ctx, h.big, h.wide, o.times(5))
	if err != nil {
		return "", err
	}
	t := applyTable(fmt.Sprintf("apply of %d bytes (%d labels and comments; the node holds them, one label changes)", len(h.big.text), largeLabels), took)

	labels := labelsText(h.small.text)
	refusals, err := h.refusals(ctx, labels, o.times(5))
	if err != nil {
		return "", err
	}
	decided := &table{head: []string{"decided (facts read and judged, in process)", "n", "p50", "longest"}}
	var wanted aims
	for _, c := range []struct {
		what   string
		asked  []byte
		active []byte
		allow  bool
	}{
		{"10.7 MiB of labels and comments, one label changes: allowed", turnText(h.big.text, 1), h.big.text, true},
		{fmt.Sprintf("10.7 MiB of labels alone (%d of them): refused", strings.Count(string(labels), "\n        example.com/")), labels, h.small.text, false},
	} {
		s, err := h.decided(ctx, c.asked, c.active, c.allow, o.times(5))
		if err != nil {
			return "", fmt.Errorf("%s: %w", c.what, err)
		}
		decided.add(c.what, fmt.Sprint(len(s)), millis(s.p50()), millis(s.quantile(1)))
		wanted.add(s.quantile(1) < 250*time.Millisecond, "10.7 MiB decided in under 250 ms, %s: %s", c.what, millis(s.quantile(1)))
	}
	whole := fmt.Sprintf("\nThe refusal of the labels as the caller sees it (10.7 MiB sent, evidence read, judged, written): p50 %s, longest %s.\n",
		millis(refusals.p50()), millis(refusals.quantile(1)))
	return "### 10.7 MiB\n\n" + t.String() + "\n" + decided.String() + whole + wanted.String(), nil
}

// refusals sends what must be refused through Bronzeward.
func (h *benchHouse) refusals(ctx context.Context, text []byte, rounds int) (samples, error) {
	request, err := applyRequest(text)
	if err != nil {
		return nil, err
	}
	way := h.ways[len(h.ways)-1]
	conn, err := way.dial()
	if err != nil {
		return nil, err
	}
	var took samples
	for range rounds {
		began := time.Now()
		_, err := way.unary(ctx, conn, benchApply, request)
		if status.Code(err) != codes.PermissionDenied {
			return nil, fmt.Errorf("a configuration of labels alone was answered %w, which is no denial", errors.Join(errors.New(status.Code(err).String()), err))
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

// decided reads the facts of an apply and judges them, as the gateway does between the
// evidence and the entry, with the live law and nothing cached.
func (h *benchHouse) decided(ctx context.Context, asked, active []byte, allow bool, rounds int) (samples, error) {
	engine, err := h.engine(ctx)
	if err != nil {
		return nil, err
	}
	secrets, err := h.DigestSecrets(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := facts.NewKeyRing("k1", secrets)
	if err != nil {
		return nil, err
	}
	like, err := h.recordedFacts(ctx)
	if err != nil {
		return nil, err
	}
	var took samples
	for range rounds {
		reader, err := facts.NewReader(facts.ReaderConfig{Digester: keys, Cache: 1})
		if err != nil {
			return nil, err
		}
		began := time.Now()
		f := *like
		f.Config = reader.Read(ctx, asked, active, active)
		d := engine.Decide(ctx, &f)
		took = append(took, time.Since(began))
		if d.Allow != allow {
			return nil, fmt.Errorf("allow is %t: %v", d.Allow, d.Reasons)
		}
	}
	return took, nil
}

// law measures the engine alone on what a real apply of the 15 KiB configuration was
// judged on, taken out of the book.
func (h *benchHouse) law(ctx context.Context, o benchOptions) (string, error) {
	engine, err := h.engine(ctx)
	if err != nil {
		return "", err
	}
	f, err := h.recordedFacts(ctx)
	if err != nil {
		return "", err
	}
	var took samples
	for i := range o.times(4000) + 200 {
		began := time.Now()
		d := engine.Decide(ctx, f)
		if i >= 200 {
			took = append(took, time.Since(began))
		}
		if !d.Allow {
			return "", fmt.Errorf("what the gateway allowed is denied here: %v", d.Reasons)
		}
	}
	t := &table{head: []string{"Rego decision, engine alone", "n", "p50", "p99", "longest"}}
	t.add("apply of the 15 KiB worker configuration", fmt.Sprint(len(took)), millis(took.p50()), millis(took.p99()), millis(took.quantile(1)))
	var wanted aims
	wanted.add(took.p50() <= 300*time.Microsecond, "Rego decision p50 ≤ 0.3 ms: %s", millis(took.p50()))
	wanted.add(took.p99() <= time.Millisecond, "Rego decision p99 ≤ 1 ms: %s", millis(took.p99()))
	return "### The law\n\n" + t.String() + wanted.String(), nil
}

// engine has the live law.
func (h *benchHouse) engine(ctx context.Context) (*policy.Engine, error) {
	bundle, err := policy.Load(dirFS(h.PolicyDir()))
	if err != nil {
		return nil, err
	}
	engine := policy.New(policy.EngineConfig{Budget: 10 * time.Second})
	return engine, engine.Use(ctx, bundle)
}
