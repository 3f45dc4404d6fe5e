package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"google.golang.org/grpc"

	"bronzeward/gateway/upstream"
)

// wayBare is the bare shape of an apply: a fresh one-shot connection, the evidence reads
// side by side, the apply, the read-back; nothing judged, nothing recorded.
const wayBare = "bare shape"

// applies measures the whole apply of the 15 KiB configuration, four ways.
func (h *benchHouse) applies(ctx context.Context, o benchOptions) (string, error) {
	took, err := h.applyRounds(ctx, h.small, h.ways, o.times(300))
	if err != nil {
		return "", err
	}
	t := applyTable(fmt.Sprintf("apply of %d bytes, one label changes", len(h.small.text)), took)
	var wanted aims
	bare, ours := took[wayBare], took[wayGate]
	wanted.add(ours.p50()-bare.p50() <= 3*time.Millisecond, "apply p50 ≤ bare shape + 3 ms: %s over it", millis(ours.p50()-bare.p50()))
	wanted.add(ours.p99()-bare.p99() <= 10*time.Millisecond, "apply p99 ≤ bare shape + 10 ms: %s over it", millis(ours.p99()-bare.p99()))
	steps, err := h.steps(ctx)
	if err != nil {
		return "", err
	}
	return "### Applies\n\n" + t.String() + wanted.String() + "\n" + steps, nil
}

func applyTable(what string, took map[string]samples) *table {
	t := &table{head: []string{what, "n", "p50", "p99", "p50 to bare shape", "p50 over bare shape"}}
	bare := took[wayBare]
	for _, name := range []string{wayDirect, wayProxy, wayBare, wayGate} {
		s := took[name]
		t.add(name, fmt.Sprint(len(s)), millis(s.p50()), millis(s.p99()), ratio(float64(s.p50()), float64(bare.p50())), millis(s.p50()-bare.p50()))
	}
	return t
}

// applyRounds applies in turns. Every apply changes one label of what the node holds.
func (h *benchHouse) applyRounds(ctx context.Context, n *benchNode, to []benchWay, rounds int) (map[string]samples, error) {
	pool, err := upstream.NewPool(upstream.Config{Credential: &upstream.FileCredential{
		Cert: h.Path("pki", "talos.crt"), Key: h.Path("pki", "talos.key"), CA: h.Path("pki", "talos-ca.crt"),
	}})
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	address, err := netip.ParseAddrPort(n.address)
	if err != nil {
		return nil, err
	}
	target := upstream.Target{Machine: n.name, Addresses: []netip.AddrPort{address}}
	ways := append([]benchWay{{name: wayBare}}, to...)
	conns := map[string]*grpc.ClientConn{}
	for _, way := range to {
		if conns[way.name], err = way.dial(); err != nil {
			return nil, err
		}
	}
	took := map[string]samples{}
	turn := 0
	err = takeTurns(rounds+1, ways, func(round int, way benchWay) error {
		turn++
		text := turnText(n.text, turn)
		request, err := applyRequest(text)
		if err != nil {
			return err
		}
		began := time.Now()
		if way.name == wayBare {
			err = bareShape(ctx, pool, target, request, text)
		} else {
			_, err = way.unary(ctx, conns[way.name], benchApply, request)
		}
		if round > 0 {
			took[way.name] = append(took[way.name], time.Since(began))
		}
		return err
	})
	return took, err
}

// bareShape is what every apply through the gateway does to the node, and no more.
func bareShape(ctx context.Context, pool *upstream.Pool, target upstream.Target, request, text []byte) error {
	conn, err := pool.Open(ctx, target)
	if err != nil {
		return err
	}
	defer conn.Close()
	before, err := conn.Evidence(ctx)
	if err != nil {
		return err
	}
	answer := conn.Apply(ctx, request, []string{upstream.RoleAdmin}, "", time.Now().Add(30*time.Second))
	if !answer.Got || answer.Code != 0 {
		return fmt.Errorf("the node answered %s: %s", answer.Code, answer.Message)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	back := conn.ReadBack(ctx, upstream.ReadBackConfig{Before: before, Want: func(got []byte) bool { return bytes.Equal(got, text) }})
	if !back.Matched {
		return errors.Join(errors.New("the node does not hold what was applied"), back.Err)
	}
	return nil
}
