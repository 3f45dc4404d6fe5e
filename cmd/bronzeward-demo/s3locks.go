package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"bronzeward/fixtures/world"
)

// said is what a command printed, and how it ended.
type said struct {
	out string
	err error
}

// beside runs a command beside the scenario.
func beside(run func() (string, error)) <-chan said {
	done := make(chan said, 1)
	go func() {
		out, err := run()
		done <- said{out, err}
	}()
	return done
}

// twoSpenders lets two operators apply one approved change through two replicas at once.
func (p *play) twoSpenders(ctx context.Context) error {
	second, err := p.w.StartGateway(ctx, "gateway-2")
	if err != nil {
		return err
	}
	id, _, err := p.capture(ctx, "olga", "worker-2")
	if err != nil {
		return err
	}
	if err := p.approve(ctx, "ada", id); err != nil {
		return err
	}
	before := p.applies("worker-2")
	// Both decisions wait for the machine's row, so that they are judged one right after the other.
	release, err := p.hold(ctx, "select from control.machines where name = 'worker-2' for update")
	if err != nil {
		return err
	}
	other := p.w.At(second)
	one := beside(func() (string, error) { return p.w.Bronzeward(ctx, "olga", "changes", "apply", id) })
	two := beside(func() (string, error) { return other.Bronzeward(ctx, "otto", "changes", "apply", id) })
	if err := p.waiting(ctx, 2); err != nil {
		return errors.Join(err, release())
	}
	if err := release(); err != nil {
		return err
	}
	first, last := <-one, <-two
	won := 0
	for _, s := range []said{first, last} {
		if s.err == nil {
			won++
		}
	}
	if n := p.applies("worker-2") - before; won != 1 || n != 1 {
		return fmt.Errorf("%d of two spenders won, and the worker was sent %d applies:\n%s\n%s", won, n, first.out, last.out)
	}
	loser := first
	if first.err == nil {
		loser = last
	}
	p.did("two operators apply one change at two replicas: one wins; the other is told: %s", firstLine(loser.out))
	return second.Stop()
}

// hold takes a lock as somebody else, and gives what lets go of it.
func (p *play) hold(ctx context.Context, sql string) (release func() error, err error) {
	conn, err := pgx.Connect(ctx, p.w.Postgres.DSN(world.Database, "postgres"))
	if err != nil {
		return nil, err
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	if _, err := tx.Exec(ctx, sql); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return func() error { return errors.Join(tx.Rollback(ctx), conn.Close(ctx)) }, nil
}

// waiting returns once so many sessions wait for a lock.
func (p *play) waiting(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var found int
		err := p.db.QueryRow(ctx, `select count(distinct pid) from pg_locks l join pg_stat_activity a using (pid)
			where not l.granted and a.datname = current_database()`).Scan(&found)
		if err != nil {
			return fmt.Errorf("waiting for %d sessions to wait for a lock: %w", n, err)
		}
		if found >= n {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d sessions wait for a lock, not %d", found, n)
		case <-tick.C:
		}
	}
}

// revocationWaits stops a decision within its COMMIT, and takes authority away meanwhile: the
// revocation waits for the decision. Without the authority lock it returns, and the decision
// commits after it, of a person who is revoked.
func (p *play) revocationWaits(ctx context.Context) error {
	if _, err := p.db.Exec(ctx, `
		create function control.pause() returns trigger language plpgsql as
			$$ begin perform pg_advisory_xact_lock(4242); return null; end $$;
		create constraint trigger pause after insert on control.attempts
			deferrable initially deferred for each row execute function control.pause()`); err != nil {
		return err
	}
	approval := func(id string) []string { return []string{"ada", "approvals", "revoke", id, "--reason", "scenario"} }
	if _, err := p.revokeDuring(ctx, "olga", true, approval); err != nil {
		return err
	}
	p.did("revoking an approval waits for the decision that holds it; what is spent stays spent")

	if _, err := p.db.Exec(ctx, `
		create or replace function control.lock_authority_shared() returns void language sql as 'select null::void';
		create or replace function control.lock_authority() returns void language sql as 'select null::void'`); err != nil {
		return err
	}
	spender := func(string) []string {
		return []string{"rhea", "identities", "revoke", "--issuer", p.w.PeopleIssuer(), "--subject", "otto", "--reason", "scenario", "--yes"}
	}
	early, err := p.revokeDuring(ctx, "otto", false, spender)
	if err != nil {
		return err
	}
	if !early {
		return errors.New("control: without the authority lock the revocation waited all the same")
	}
	p.did("control: with the lock's functions taken away the revocation returns first, and the revoked person's apply is sent")
	return p.restoreGuards(ctx)
}

// revokeDuring revokes while a decision is held off between its judgement and its commit, and
// gives whether the revocation had returned by then.
func (p *play) revokeDuring(ctx context.Context, spender string, locked bool, revocation func(approval string) []string) (early bool, err error) {
	id, file, err := p.capture(ctx, "olga", "worker-1")
	if err != nil {
		return false, err
	}
	if err := p.approve(ctx, "ada", id); err != nil {
		return false, err
	}
	c, err := change(ctx, p.w, id)
	if err != nil {
		return false, err
	}
	release, err := p.hold(ctx, "select pg_advisory_xact_lock(4242)")
	if err != nil {
		return false, err
	}
	before := p.applies("worker-1")
	apply := beside(func() (string, error) { return p.apply(ctx, spender, "worker-1", file) })
	if err := p.waiting(ctx, 1); err != nil {
		return false, errors.Join(err, release())
	}
	args := revocation(c.Approvals[0].ID)
	revoke := beside(func() (string, error) { return p.w.Bronzeward(ctx, args[0], args[1:]...) })
	if locked {
		if err := p.waiting(ctx, 2); err != nil {
			return false, errors.Join(err, release())
		}
	} else {
		s := <-revoke
		if s.err != nil {
			return false, errors.Join(fmt.Errorf("revoking: %w\n%s", s.err, s.out), release())
		}
		early = true
	}
	if err := release(); err != nil {
		return false, err
	}
	went := <-apply
	if n := p.applies("worker-1") - before; went.err != nil || n != 1 {
		return false, fmt.Errorf("the apply that was being decided was sent %d times: %w\n%s", n, went.err, went.out)
	}
	if locked {
		<-revoke // refused once the attempt has ended, and otherwise too late to stop it: see the change
		return false, p.state(ctx, id, "spent")
	}
	return early, nil
}

// restoreGuards brings back what the control took away, as the product's migrations wrote it.
func (p *play) restoreGuards(ctx context.Context) error {
	_, err := p.db.Exec(ctx, `
		create or replace function control.lock_authority_shared() returns void
			language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as
			$$ begin lock table control_gate.authority in row share mode; end $$;
		create or replace function control.lock_authority() returns void
			language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as
			$$ begin lock table control_gate.authority in exclusive mode; end $$;
		drop trigger pause on control.attempts;
		drop function control.pause()`)
	return err
}
