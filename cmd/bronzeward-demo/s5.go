package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"bronzeward/fixtures/talosd"
	"bronzeward/fixtures/world"
	"bronzeward/gateway/httpapi/api"
)

// s5 is drift: found at once, holding its machine, adopted, reverted, or undone by hand.
func s5(ctx context.Context, s *stage) (err error) {
	w, err := s.world(ctx, world.Config{Quorum: 1, Workers: 3})
	if err != nil {
		return err
	}
	defer func() { err = s.leave(ctx, w, err) }()
	db, err := pgx.Connect(ctx, w.Postgres.DSN(world.Database, "postgres"))
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	p := &play{stage: s, w: w, db: db}
	for _, step := range []func(context.Context) error{
		p.watched, p.driftFound, p.driftHolds, p.driftFrozenAndAdopted, p.driftReverted, p.driftReturned, p.readBeforeTheApply, p.driftUnguarded,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// watched waits until the gateway holds each worker against something.
func (p *play) watched(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		var left int
		if err := p.db.QueryRow(ctx, `select count(*) from control.machines m where m.role = 'worker' and (m.applied_active = ''
			or not exists (select from control.machine_sights s where s.machine_id = m.id)
			or not exists (select from control.applied_copies c where c.machine_id = m.id and c.digest = m.applied_active))`).Scan(&left); err != nil {
			return err
		}
		if left == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d workers are not watched after %s", left, lookWithin)
		case <-tick.C:
		}
	}
	p.did("three workers are watched, each held against what it was pinned with, and a sealed copy of that is kept")
	return nil
}

// patch changes a worker round the gateway, and gives what it ran before.
func (p *play) patch(worker string) (before []byte, err error) {
	before, _ = p.w.Nodes[worker].Active()
	file, err := p.config(worker)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return before, p.w.Nodes[worker].SetConfig(text)
}

// driftFound patches worker-1 round the gateway.
func (p *play) driftFound(ctx context.Context) error {
	began := time.Now()
	if _, err := p.patch("worker-1"); err != nil {
		return err
	}
	d, err := untilDrift(ctx, p.w, "worker-1", api.DriftStateOpen)
	if err != nil {
		return err
	}
	took := time.Since(began)
	if d.Applied.Active == d.Found.Active || d.Found.Active == "" || d.Found.Persistent != d.Found.Active || len(d.Changes) == 0 {
		return fmt.Errorf("the drift does not say what was applied and what was found: %+v", d)
	}
	out, err := p.w.Bronzeward(ctx, "vera", "drift", "show", d.ID)
	if err != nil {
		return err
	}
	for _, must := range []string{d.Applied.Active, d.Found.Active, "machine.nodeLabels", "drift revert " + d.ID} {
		if !strings.Contains(out, must) {
			return fmt.Errorf("drift show does not say %q:\n%s", must, out)
		}
	}
	if took > driftWithin {
		return fmt.Errorf("the drift was found after %s, and is to be within %s", took, driftWithin)
	}
	p.did("worker-1 is patched round the gateway: drift %s is open %s later, with both digests and what changed", d.ID, took.Round(time.Millisecond))
	return nil
}

// driftHolds tries everything else while it is open.
func (p *play) driftHolds(ctx context.Context) error {
	before := p.applies("worker-1")
	file, err := p.config("worker-1")
	if err != nil {
		return err
	}
	out, err := p.apply(ctx, "olga", "worker-1", file)
	if err := p.refused("an ordinary apply", out, err, "DENIED BW-HOLDS-004", "drf_"); err != nil {
		return err
	}
	p.did("control: an ordinary change is refused by the open drift: %s", firstLine(out))
	out, err = p.w.Bronzeward(ctx, "olga", "changes", "submit", "-n", "worker-1", "-f", file)
	if err := p.refused("proposing an ordinary change", out, err, "BW-HOLDS-004"); err != nil {
		return err
	}
	if n := p.applies("worker-1") - before; n != 0 {
		return fmt.Errorf("worker-1 was sent %d applies while its drift was open", n)
	}
	if out, err = p.w.Bronzeward(ctx, "vera", "machines", "show", "worker-1"); err != nil || !strings.Contains(out, "drift drf_") {
		return fmt.Errorf("machines show does not name the drift: %w\n%s", err, out)
	}
	p.did("while it is open nothing is captured and nothing is sent")
	return nil
}

// settle proposes what settles the open drift of a worker as olga, and has ada approve it.
func (p *play) settle(ctx context.Context, worker, how string) (change, drift string, err error) {
	d, err := untilDrift(ctx, p.w, worker, api.DriftStateOpen)
	if err != nil {
		return "", "", err
	}
	out, err := p.w.Bronzeward(ctx, "olga", "drift", how, d.ID, "--reason", "as the night shift agreed")
	if err != nil {
		return "", "", fmt.Errorf("%w\n%s", err, out)
	}
	id := changeID.FindString(out)
	if id == "" || !strings.Contains(out, "changes show "+id) {
		return "", "", fmt.Errorf("drift %s does not say how to go on:\n%s", how, out)
	}
	out, err = p.w.Bronzeward(ctx, "olga", "changes", "apply", id)
	if err := p.refused("settling without an approval", out, err, "BW-APPROVAL-001"); err != nil {
		return "", "", err
	}
	return id, d.ID, p.approve(ctx, "ada", id)
}

// driftFrozenAndAdopted freezes worker-1 and adopts under the freeze.
func (p *play) driftFrozenAndAdopted(ctx context.Context) error {
	if out, err := p.w.Bronzeward(ctx, "olga", "machines", "freeze", "worker-1", "--reason", "until this is understood"); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	before := p.applies("worker-1")
	id, drift, err := p.settle(ctx, "worker-1", "adopt")
	if err != nil {
		return err
	}
	if out, err := p.w.Bronzeward(ctx, "otto", "changes", "apply", id); err != nil || !strings.Contains(out, "is adopted") {
		return fmt.Errorf("adopting: %w\n%s", err, out)
	}
	d, err := untilDrift(ctx, p.w, "worker-1", api.DriftStateAdopted)
	if err != nil || d.ID != drift || d.ChangeID != id {
		return fmt.Errorf("the drift is %+v, %w", d, err)
	}
	if n := p.applies("worker-1") - before; n != 0 {
		return fmt.Errorf("adopting sent %d applies", n)
	}
	p.did("adopted under a freeze, by a change that ada approved: nothing was sent, and what runs is what is known as applied")
	out, err := p.w.Bronzeward(ctx, "olga", "machines", "unfreeze", "worker-1", "--reason", "understood")
	if err := p.refused("an unfreeze by an operator", out, err, "BW-ACT-003"); err != nil {
		return err
	}
	p.did("control: unfreeze by others than an approver is refused: %s", firstLine(out))
	_, err = p.w.Bronzeward(ctx, "ada", "machines", "unfreeze", "worker-1", "--reason", "understood")
	return err
}

// driftReverted patches again and brings back what was applied.
func (p *play) driftReverted(ctx context.Context) error {
	text, err := p.patch("worker-1")
	if err != nil {
		return err
	}
	id, drift, err := p.settle(ctx, "worker-1", "revert")
	if err != nil {
		return err
	}
	if out, err := p.w.Bronzeward(ctx, "otto", "changes", "apply", id); err != nil || !strings.Contains(out, "is completed") {
		return fmt.Errorf("reverting: %w\n%s", err, out)
	}
	d, err := untilDrift(ctx, p.w, "worker-1", api.DriftStateReverted)
	if err != nil || d.ID != drift || d.ChangeID != id {
		return fmt.Errorf("the drift is %+v, %w", d, err)
	}
	if now, _ := p.w.Nodes["worker-1"].Active(); !bytes.Equal(now, text) {
		return errors.New("worker-1 does not run what was applied, byte for byte")
	}
	p.did("patched again and reverted: worker-1 runs what was applied, byte for byte, and the two drifts are told apart")
	return nil
}

// driftReturned undoes a patch by hand.
func (p *play) driftReturned(ctx context.Context) error {
	text, err := p.patch("worker-2")
	if err != nil {
		return err
	}
	d, err := untilDrift(ctx, p.w, "worker-2", api.DriftStateOpen)
	if err != nil {
		return err
	}
	if err := p.w.Nodes["worker-2"].SetConfig(text); err != nil {
		return err
	}
	after, err := untilDrift(ctx, p.w, "worker-2", api.DriftStateReturned)
	if err != nil || after.ID != d.ID || after.ChangeID != "" {
		return fmt.Errorf("the drift is %+v, %w", after, err)
	}
	p.did("control: a manual undo closes it as returned")
	return nil
}

// readBeforeTheApply holds an apply on worker-2 while the watch tells of its writes.
func (p *play) readBeforeTheApply(ctx context.Context) error {
	id, file, err := p.capture(ctx, "olga", "worker-2")
	if err != nil {
		return err
	}
	if err := p.approve(ctx, "ada", id); err != nil {
		return err
	}
	have, err := drifts(ctx, p.w, "worker-2")
	if err != nil {
		return err
	}
	// It lands, and its answer comes two seconds later: the watch tells of it while the attempt is open.
	if err := p.w.Nodes["worker-2"].Fault(talosd.Fault{Kind: talosd.AnswerLate, Delay: 2 * time.Second}); err != nil {
		return err
	}
	if out, err := p.apply(ctx, "olga", "worker-2", file); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	now, err := drifts(ctx, p.w, "worker-2")
	if err != nil {
		return err
	}
	if len(now) != len(have) {
		return fmt.Errorf("the gateway's own apply opened a drift: %+v", now[0])
	}
	p.did("control: what was read while the apply was under way, or before it, opens nothing")
	return nil
}

// driftUnguarded takes the trigger away that holds an attempt against the open drift, and forges one.
func (p *play) driftUnguarded(ctx context.Context) error {
	if _, err := p.patch("worker-3"); err != nil {
		return err
	}
	if _, err := untilDrift(ctx, p.w, "worker-3", api.DriftStateOpen); err != nil {
		return err
	}
	const forged = `insert into control.attempts (id, entry_id, machine_id, cluster, instance, generation, epoch, issuer, subject, request_key, mode,
		digest, base_active, base_persistent, live_type, stage, minor, node_id, talos_cluster_id, smbios, opened_at, send_by, lease_until, transport_deadline, settle_floor)
		select gen_random_uuid(), gen_random_uuid(), m.id, m.cluster, 'forged', 1, i.epoch, 'i', 's', 'k', 'no-reboot', 'd', 'b', 'b', 'worker', 'running', '1.13',
		m.node_id, m.talos_cluster_id, m.smbios, now(), now() + interval '2 seconds', now() + interval '1 hour', now() + interval '1 hour', interval '30 seconds'
		from control.machines m, control.installation i where m.name = 'worker-3'`
	if _, err := p.db.Exec(ctx, forged); err == nil || !strings.Contains(err.Error(), "is open on the machine") {
		return fmt.Errorf("an attempt beside an open drift: %w", err)
	}
	if _, err := p.db.Exec(ctx, "drop trigger attempts_drift on control.attempts"); err != nil {
		return err
	}
	if _, err := p.db.Exec(ctx, forged); err != nil {
		return fmt.Errorf("without the trigger: %w", err)
	}
	var beside int
	if err := p.db.QueryRow(ctx, `select count(*) from control.attempts a join control.drifts d on d.machine_id = a.machine_id
		where a.state = 'open' and d.state = 'open'`).Scan(&beside); err != nil || beside != 1 {
		return fmt.Errorf("%d attempts stand beside an open drift, %w", beside, err)
	}
	p.did("control: with the trigger dropped in this database, an attempt stands beside the open drift")
	return nil
}
