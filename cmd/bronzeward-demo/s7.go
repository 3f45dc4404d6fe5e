package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"bronzeward/fixtures/world"
)

// restoring is what the steps of S7 share: a house, and a backup of its database.
type restoring struct {
	*play
	backup string
	// approved is a change that was approved before the backup, of file for worker-2.
	approved, file string
	// held is what each worker ran when the backup was made.
	held map[string][]byte
}

// s7 is the worst day: the database is restored from an older copy, and OpenBao is not.
func s7(ctx context.Context, s *stage) (err error) {
	w, err := s.world(ctx, world.Config{Quorum: 1, Workers: 2, Extra: "book:\n  checkpoint_every: 1s\n"})
	if err != nil {
		return err
	}
	defer func() { err = s.leave(ctx, w, err) }()
	r := &restoring{play: &play{stage: s, w: w}, backup: w.Path("backup"), held: map[string][]byte{}}
	if err := r.connect(ctx); err != nil {
		return err
	}
	defer func() { _ = r.db.Close(context.WithoutCancel(ctx)) }()
	for _, step := range []func(context.Context) error{
		r.before, r.after, r.restoredUnderARunningGateway, r.noticedAtTheStart, r.entered, r.list, r.one, r.ended,
		r.withoutTheAnchor,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// connect opens the superuser's connection anew.
func (r *restoring) connect(ctx context.Context) (err error) {
	r.db, err = pgx.Connect(ctx, r.w.Postgres.DSN(world.Database, "postgres"))
	return err
}

// anchored waits until OpenBao remembers everything that is in the book.
func (r *restoring) anchored(ctx context.Context) error {
	var size int64
	if err := r.db.QueryRow(ctx, "select count(*) from audit.entries").Scan(&size); err != nil {
		return err
	}
	return r.until(ctx, "OpenBao to remember the book", func() (bool, error) {
		there, err := r.anchor(ctx)
		held, _ := there["size"].(float64)
		return held >= float64(size), err
	})
}

// anchor is what OpenBao remembers.
func (r *restoring) anchor(ctx context.Context) (map[string]any, error) {
	status, answer, err := r.w.OpenBao.API(ctx, http.MethodGet, "bronzeward/data/anchor", nil)
	if err != nil || status != http.StatusOK {
		return nil, errors.Join(err, fmt.Errorf("reading the anchor: status %d", status))
	}
	data, _ := answer["data"].(map[string]any)
	there, _ := data["data"].(map[string]any)
	return there, nil
}

// until asks until it is so; the deadline only ends a scenario that fails.
func (r *restoring) until(ctx context.Context, what string, so func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		yes, err := so()
		if err != nil || yes {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: it did not come; the gateway's log:\n%s", what, r.w.Gateways["gateway-1"].Log())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// onData does something to the stopped database's data; gateways stay up.
func (r *restoring) onData(ctx context.Context, do func() error) error {
	_ = r.db.Close(ctx)
	if err := r.w.Postgres.Stop(); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	if err := r.w.Postgres.Restart(ctx); err != nil {
		return err
	}
	return r.connect(ctx)
}

// before is the house until the backup.
func (r *restoring) before(ctx context.Context) (err error) {
	id, file, err := r.capture(ctx, "olga", "worker-1")
	if err != nil {
		return err
	}
	if err := r.approve(ctx, "ada", id); err != nil {
		return err
	}
	if out, err := r.apply(ctx, "olga", "worker-1", file); err != nil {
		return fmt.Errorf("an approved apply: %w\n%s", err, out)
	}
	if r.approved, r.file, err = r.capture(ctx, "olga", "worker-2"); err != nil {
		return err
	}
	if err := r.approve(ctx, "ada", r.approved); err != nil {
		return err
	}
	if err := r.anchored(ctx); err != nil {
		return err
	}
	if err := r.onData(ctx, func() error { return r.w.Postgres.Backup(ctx, r.backup) }); err != nil {
		return err
	}
	for _, name := range []string{"worker-1", "worker-2"} {
		r.held[name], _ = r.w.Nodes[name].Active()
	}
	r.did("worker-1 was applied to, a change for worker-2 is approved; a backup of the database is made")
	return r.ready(ctx)
}

// ready waits until the gateway decides again.
func (r *restoring) ready(ctx context.Context) error {
	return r.until(ctx, "the gateway to find the database again", func() (bool, error) {
		_, err := r.w.Bronzeward(ctx, "vera", "machines", "list")
		return err == nil, nil
	})
}

// after is what the backup does not have.
func (r *restoring) after(ctx context.Context) error {
	id, file, err := r.capture(ctx, "otto", "worker-1")
	if err != nil {
		return err
	}
	if err := r.approve(ctx, "ada", id); err != nil {
		return err
	}
	if out, err := r.apply(ctx, "otto", "worker-1", file); err != nil {
		return fmt.Errorf("an approved apply: %w\n%s", err, out)
	}
	if err := r.revoke(ctx, "otto"); err != nil {
		return err
	}
	for range 5 {
		if out, err := r.w.Talosctl(ctx, "vera", "-n", "worker-1", "version"); err != nil {
			return fmt.Errorf("a read: %w\n%s", err, out)
		}
	}
	if err := r.anchored(ctx); err != nil {
		return err
	}
	r.did("after it: another apply to worker-1, otto is revoked, reads; OpenBao remembers all of it")
	return nil
}

// restoredUnderARunningGateway puts the backup in the place of the database, and nothing else.
func (r *restoring) restoredUnderARunningGateway(ctx context.Context) error {
	if _, err := r.w.StartGateway(ctx, "gateway-2"); err != nil {
		return err
	}
	if err := r.onData(ctx, func() error { return r.w.Postgres.Restore(ctx, r.backup) }); err != nil {
		return err
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	if out, err := r.w.Talosctl(ctx, "vera", "-n", "worker-1", "version"); err != nil {
		return fmt.Errorf("a read after the restore: %w\n%s", err, out)
	}
	r.did("the database is restored under two running gateways; reads go on")
	if err := r.until(ctx, "a gateway to notice", func() (bool, error) {
		there, err := r.anchor(ctx)
		return there["latched"] != nil, err
	}); err != nil {
		return err
	}
	if err := r.refusedEverywhere(ctx); err != nil {
		return err
	}
	r.did("both notice it, and refuse the approved apply: BW-RECOVERY-001")
	return nil
}

// refusedEverywhere demands of each gateway that the approved apply is refused, naming what is lost,
// and that a read goes on.
func (r *restoring) refusedEverywhere(ctx context.Context) error {
	sent := r.applies("worker-2")
	for name, g := range r.w.Gateways {
		at := r.w.At(g)
		out := ""
		if err := r.until(ctx, name+" to refuse", func() (bool, error) {
			var err error
			out, err = at.Bronzeward(ctx, "olga", "changes", "apply", r.approved)
			return err != nil && strings.Contains(out, "BW-RECOVERY-001"), nil
		}); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		for _, must := range []string{"signed entries and outcomes are lost, of the time from", "1 revocation is lost", "bronzeward recovery status"} {
			if !strings.Contains(out, must) {
				return fmt.Errorf("%s refuses without saying %q:\n%s", name, must, out)
			}
		}
		if _, err := at.Bronzeward(ctx, "vera", "machines", "list"); err != nil {
			return err
		}
		if n, err := g.Metric(ctx, "bronzeward_recovery_rolled_back"); err != nil || n != "1" {
			return fmt.Errorf("%s: the metric is %q: %w", name, n, err)
		}
	}
	out, err := r.apply(ctx, "olga", "worker-2", r.file)
	if err := r.refused("an apply after the restore", out, err, "DENIED BW-RECOVERY-001"); err != nil {
		return err
	}
	if r.applies("worker-2") != sent {
		return errors.New("an apply went out")
	}
	return nil
}

// noticedAtTheStart starts a gateway on the restored database.
func (r *restoring) noticedAtTheStart(ctx context.Context) error {
	if err := r.restart(ctx, "gateway-1"); err != nil {
		return err
	}
	if err := r.refusedEverywhere(ctx); err != nil {
		return err
	}
	if out, err := r.w.Talosctl(ctx, "vera", "-n", "worker-1", "version"); err != nil {
		return fmt.Errorf("a read: %w\n%s", err, out)
	}
	r.did("a gateway that starts on it notices it before anything is taken, serves reads, and refuses applies")
	return nil
}

// restart ends a gateway and starts it again at the same address.
func (r *restoring) restart(ctx context.Context, instance string) error {
	g := r.w.Gateways[instance]
	if err := g.Stop(); err != nil {
		return err
	}
	g, err := r.w.StartGatewayAt(ctx, instance, g.Endpoint)
	if err == nil && instance == "gateway-1" {
		r.w = r.w.At(g)
	}
	return err
}
