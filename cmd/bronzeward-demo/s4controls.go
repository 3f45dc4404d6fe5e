package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/talosd"
	"bronzeward/fixtures/world"
)

// invalidBytes sends what the node does not take: the attempt is rejected, the approval is not
// spent, and nothing has moved. What any node would refuse does not get as far.
func (p *play) invalidBytes(ctx context.Context) error {
	broken := p.w.Path("broken.yaml")
	if err := os.WriteFile(broken, []byte("machine:\n  type: worker\n  nodeLabels: [this, is, no, map]\n"), 0o600); err != nil {
		return err
	}
	before := p.applies("worker-3")
	out, err := p.apply(ctx, "olga", "worker-3", broken)
	if err := p.refused("a configuration that cannot be read", out, err, "DENIED BW-CONFIG-"); err != nil {
		return err
	}
	id, file, err := p.approved(ctx, "worker-3")
	if err != nil {
		return err
	}
	node := p.w.Nodes["worker-3"]
	_, version := node.Active()
	if err := node.Fault(talosd.Fault{Kind: talosd.ErrorBefore, Code: uint32(codes.InvalidArgument), Message: "1 error occurred: the node does not like it"}); err != nil {
		return err
	}
	out, err = p.apply(ctx, "olga", "worker-3", file)
	if err := p.refused("what the node does not like", out, err, "InvalidArgument", "the node does not like it"); err != nil {
		return err
	}
	_, after := node.Active()
	var state string
	if err := p.db.QueryRow(ctx, "select state from control.attempts order by opened_at desc limit 1").Scan(&state); err != nil {
		return err
	}
	if n := p.applies("worker-3") - before; state != "rejected" || after != version || n != 1 {
		return fmt.Errorf("the attempt is %s, the version went from %s to %s, %d applies were sent", state, version, after, n)
	}
	if err := p.state(ctx, id, "approved"); err != nil {
		return err
	}
	if out, err := p.apply(ctx, "olga", "worker-3", file); err != nil {
		return fmt.Errorf("the same command, when the node likes it: %w\n%s", err, out)
	}
	p.did("control: what the node finds invalid is `rejected`, with its own words; the approval is unspent, the version unchanged")
	return nil
}

// keysSealed seals OpenBao between approval and apply: nothing is sent, and the approval is kept.
func (p *play) keysSealed(ctx context.Context) error {
	id, file, err := p.approved(ctx, "worker-1")
	if err != nil {
		return err
	}
	before := p.applies("worker-1")
	if err := p.w.OpenBao.Seal(ctx); err != nil {
		return err
	}
	out, err := p.apply(ctx, "olga", "worker-1", file)
	if err := errors.Join(p.refused("an apply while OpenBao is sealed", out, err, "Unavailable", "BW-CHANGE-005"), p.w.OpenBao.Unseal(ctx)); err != nil {
		return err
	}
	return p.nothingSent(ctx, "OpenBao is sealed", id, file, before)
}

// databaseStopped stops PostgreSQL between approval and apply.
func (p *play) databaseStopped(ctx context.Context) error {
	id, file, err := p.approved(ctx, "worker-1")
	if err != nil {
		return err
	}
	before := p.applies("worker-1")
	if err := errors.Join(p.db.Close(ctx), p.w.Postgres.Stop()); err != nil {
		return err
	}
	out, err := p.apply(ctx, "olga", "worker-1", file)
	if err := errors.Join(p.refused("an apply while PostgreSQL is stopped", out, err, "Unavailable", "BW-BOOK-001"), p.w.Postgres.Restart(ctx)); err != nil {
		return err
	}
	if p.db, err = superuser(ctx, p.w); err != nil {
		return err
	}
	if err := p.w.Gateways["gateway-1"].Ready(ctx); err != nil {
		return err
	}
	return p.nothingSent(ctx, "PostgreSQL is stopped", id, file, before)
}

// nothingSent holds that an outage has cost nothing: not a byte, and not the approval.
func (p *play) nothingSent(ctx context.Context, when, id, file string, before int) error {
	if n := p.applies("worker-1") - before; n != 0 {
		return fmt.Errorf("while %s the worker was sent %d applies", when, n)
	}
	if err := p.state(ctx, id, "approved"); err != nil {
		return err
	}
	// A connection that died meanwhile costs a call, which is told to try again.
	if err := comesAbout(ctx, "the same command to go through", func() (bool, error) {
		out, err := p.apply(ctx, "olga", "worker-1", file)
		if err != nil && strings.Contains(out, "BW-BOOK-001") {
			return false, nil
		}
		return true, err
	}); err != nil {
		return fmt.Errorf("after it: %w", err)
	}
	p.did("control: while %s nothing is sent, and the approval is kept; afterwards the same command goes through", when)
	return nil
}

// blind hides every replica's attempts from the others, so that what is read under the machine's
// lock shows nobody else's: then the index alone is in the way.
const blind = `alter table control.attempts enable row level security;
	create policy blind on control.attempts to bronzeward_gateway
		using (instance = replace(current_setting('application_name'), 'bronzeward ', ''))`

// indexRemoved lets two replicas apply to one machine that do not see each other's attempts: the
// index holds the second off, and without the index both commit and both are sent.
func (p *play) indexRemoved(ctx context.Context) error {
	second, err := p.w.StartGateway(ctx, "gateway-2")
	if err != nil {
		return err
	}
	if _, err := p.db.Exec(ctx, "update control.clusters set rollout_limit = 5"); err != nil {
		return err
	}
	if _, err := p.db.Exec(ctx, blind); err != nil {
		return err
	}
	if n, err := p.twoAtOnce(ctx, second); err != nil || n != 1 {
		return fmt.Errorf("control: with the index %d attempts were held at once: %w", n, err)
	}
	if _, err := p.db.Exec(ctx, "drop index control.attempts_one_held_per_machine"); err != nil {
		return err
	}
	if n, err := p.twoAtOnce(ctx, second); err != nil || n != 2 {
		return fmt.Errorf("control: without the index %d attempts were held at once: %w", n, err)
	}
	p.did("control: two replicas that do not see each other's attempts are kept apart by the unique index; with it dropped both commit, and the worker is sent both at once")
	return nil
}

// twoAtOnce applies two approved changes of worker-3 at two replicas while the worker holds what
// it is sent, and gives how many it held at once.
func (p *play) twoAtOnce(ctx context.Context, second *world.Gateway) (int, error) {
	_, one, err := p.approved(ctx, "worker-3")
	if err != nil {
		return 0, err
	}
	_, two, err := p.approved(ctx, "worker-3")
	if err != nil {
		return 0, err
	}
	node := p.w.Nodes["worker-3"]
	if err := node.Fault(talosd.Fault{Kind: talosd.Pause, Times: -1}); err != nil {
		return 0, err
	}
	first := beside(func() (string, error) { return p.apply(ctx, "olga", "worker-3", one) })
	holds := func(n int, done <-chan said) error {
		return comesAbout(ctx, "worker-3 to hold an apply", func() (bool, error) { return heldNow(node.Log().Calls()) == n || len(done) > 0, nil })
	}
	if err := holds(1, first); err != nil {
		return 0, err
	}
	other := beside(func() (string, error) {
		return p.w.Talosctl(ctx, "otto", "-e", second.Endpoint, "-n", "worker-3", "apply-config", "--mode=no-reboot", "-f", two)
	})
	if err := holds(2, other); err != nil {
		return 0, err
	}
	n := heldNow(node.Log().Calls())
	node.Resume()
	<-first
	<-other
	return n, nil
}
