package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"bronzeward/fixtures/faults"
	"bronzeward/fixtures/talosd"
	"bronzeward/fixtures/world"
)

// interruption is S6: a steady replica, and others that die or hang beside it.
type interruption struct {
	*play
	db *faults.Database
}

// victim is a replica with its database behind a proxy.
type victim struct {
	*world.Gateway
	proxy *faults.Proxy
}

// s6 is interruption: gateways killed and stopped between any two durable steps, answers that are
// lost, applies that land late, and people who account for what nobody can answer for.
func s6(ctx context.Context, s *stage) (err error) {
	w, err := s.world(ctx, world.Config{Quorum: 1, Workers: 6, Extra: "apply:\n  transport_deadline: 3s\n  verify_deadline: 3s\n  settle_floor: 45s\n"})
	if err != nil {
		return err
	}
	defer func() { err = s.leave(ctx, w, err) }()
	i := &interruption{play: &play{stage: s, w: w}}
	if i.play.db, err = superuser(ctx, w); err != nil {
		return err
	}
	defer func() { _ = i.play.db.Close(context.WithoutCancel(ctx)) }()
	if i.db, err = faults.OpenDatabase(ctx, w.Postgres.DSN(world.Database, "postgres")); err != nil {
		return err
	}
	defer i.db.Close()
	// No machine of the scenario waits for another.
	if err := i.db.Exec(ctx, "update control.clusters set rollout_limit = 100"); err != nil {
		return err
	}
	late, err := i.landsLate(ctx)
	if err != nil {
		return err
	}
	early, lost, err := i.killedBeforeTheSend(ctx)
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		i.killedAtTheCapture, i.killedAtTheApproval, i.killedAtTheOutcome, early, i.answerLost, i.pausedPastSendBy, i.unreachable, i.staleReplica,
		late, lost, i.neverTwice,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// victim starts one more replica.
func (i *interruption) victim(ctx context.Context) (*victim, error) {
	proxy, err := faults.NewProxy(i.w.Postgres.Socket(), i.w.Postgres.Port())
	if err != nil {
		return nil, err
	}
	i.w.DatabaseHost = proxy.Dir()
	defer func() { i.w.DatabaseHost = "" }()
	g, err := i.w.StartGateway(ctx, fmt.Sprintf("victim-%d", len(i.w.Gateways)))
	if err != nil {
		return nil, errors.Join(err, proxy.Close())
	}
	return &victim{g, proxy}, nil
}

// ends kills the replica, and with it whatever the proxy still holds of it.
func (v *victim) ends() error {
	err := v.Kill()
	v.proxy.Sever()
	return errors.Join(err, v.proxy.Close())
}

// applyAt runs talosctl apply-config at one replica.
func (i *interruption) applyAt(ctx context.Context, at *world.Gateway, person, worker, file string) (string, error) {
	return i.w.Talosctl(ctx, person, "-e", at.Endpoint, "-n", worker, "apply-config", "--mode=no-reboot", "-f", file)
}

// metBy waits until a COMMIT has met its fault, while a command runs.
func metBy(ctx context.Context, f *faults.Fault, done <-chan said) error {
	select {
	case <-f.Met():
		return nil
	case s := <-done:
		return fmt.Errorf("the command ended before the COMMIT came: %w\n%s", s.err, s.out)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// attempts are the states of a worker's attempts, oldest first.
func (i *interruption) attempts(ctx context.Context, worker string) (string, error) {
	states, err := i.db.Texts(ctx, `select a.state from control.attempts a join control.machines m on m.id = a.machine_id
		where m.name = $1 order by a.opened_at`, worker)
	return strings.Join(states, " "), err
}

// becomes waits for the states of a worker's attempts.
func (i *interruption) becomes(ctx context.Context, worker, want string) error {
	return comesAbout(ctx, worker+"'s attempts to be "+want, func() (bool, error) {
		got, err := i.attempts(ctx, worker)
		return got == want, err
	})
}

// attempt is the id of a worker's newest attempt.
func (i *interruption) attempt(ctx context.Context, worker string) (string, error) {
	ids, err := i.db.Texts(ctx, `select a.id::text from control.attempts a join control.machines m on m.id = a.machine_id
		where m.name = $1 order by a.opened_at desc limit 1`, worker)
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("%s has no attempt", worker)
	}
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

// landsLate sends an apply that lands after 27 s, and gives the step that finds it.
func (i *interruption) landsLate(ctx context.Context) (func(context.Context) error, error) {
	const worker = "worker-2"
	_, file, err := i.approved(ctx, worker)
	if err != nil {
		return nil, err
	}
	if err := i.w.Nodes[worker].Fault(talosd.Fault{Kind: talosd.LandLate, Delay: 27 * time.Second}); err != nil {
		return nil, err
	}
	out, err := i.apply(ctx, "olga", worker, file)
	if err := i.refused("an apply without an answer", out, err, "DeadlineExceeded", "BW-ATTEMPT-004"); err != nil {
		return nil, err
	}
	id, err := i.attempt(ctx, worker)
	if err != nil {
		return nil, err
	}
	again, err := i.apply(ctx, "olga", worker, file)
	if err := i.refused("the same apply again", again, err, "BW-HOLDS-002", id); err != nil {
		return nil, err
	}
	i.did("an apply without an answer is no success: attempt %s is unresolved, the machine is held, the same command sends nothing", id)
	return func(ctx context.Context) error {
		if err := i.becomes(ctx, worker, "completed"); err != nil {
			return err
		}
		n, err := i.db.Count(ctx, "select count(*) from audit.outcomes where attempt_id::text = $1 and kind = 'late-landing'", id)
		if sent := i.applies(worker); err != nil || n != 1 || sent != 1 {
			return fmt.Errorf("%d outcomes tell of the late landing, and %d applies were sent: %w", n, sent, err)
		}
		i.did("it lands after 27 s, and is recognised as that attempt's: `completed`, sent once")
		return nil
	}, nil
}

// neverTwice holds the workers' own logs against each other: no decision was sent twice.
func (i *interruption) neverTwice(context.Context) error {
	seen := map[string]string{}
	for name, n := range i.w.Nodes {
		for _, c := range n.Log().Of(talosd.MethodApply) {
			id := strings.Join(c.Metadata["bronzeward-decision"], " ")
			if other, twice := seen[id]; twice || id == "" {
				return fmt.Errorf("%s and %s were sent decision %q", other, name, id)
			}
			seen[id] = name
		}
	}
	i.did("of %d applies that reached a worker none was sent twice", len(seen))
	return nil
}
