package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"bronzeward/fixtures/talosd"
	"bronzeward/fixtures/world"
)

// inspection is what the steps of S8 share: a house, and an auditor outside of it.
type inspection struct {
	*play
	// desk is the auditor's own folder: the public key, what was kept, what was proven. It has
	// no configuration and no credential of the house.
	desk string
	// applied, refused and lost are the decisions the story is about.
	applied, refused, lost string
}

// s8 is the auditor: answers by one query each, proofs that hold elsewhere, and a book in which
// nothing can be changed unseen.
func s8(ctx context.Context, s *stage) (err error) {
	w, err := s.world(ctx, world.Config{Quorum: 1, Workers: 2, Extra: "book:\n  checkpoint_every: 1s\n"})
	if err != nil {
		return err
	}
	defer func() { err = s.leave(ctx, w, err) }()
	db, err := pgx.Connect(ctx, w.Postgres.DSN(world.Database, "postgres"))
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	i := &inspection{play: &play{stage: s, w: w, db: db}, desk: filepath.Join(s.dir, "desk")}
	if err := os.MkdirAll(i.desk, 0o700); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		i.happened, i.accounted, i.key, i.asked, i.whole, i.proven, i.followed, i.damaged,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// happened is the story: something is lost, something approved and applied, something refused.
func (i *inspection) happened(ctx context.Context) error {
	id, file, err := i.capture(ctx, "olga", "worker-1")
	if err != nil {
		return err
	}
	if err := i.approve(ctx, "ada", id); err != nil {
		return err
	}
	if out, err := i.apply(ctx, "otto", "worker-1", file); err != nil {
		return fmt.Errorf("an approved apply: %w\n%s", err, out)
	}
	out, err := i.w.Talosctl(ctx, "vera", "-n", "worker-1", "reboot")
	if err := i.play.refused("a viewer's reboot", out, err, "DENIED"); err != nil {
		return err
	}
	if err := i.w.Nodes["worker-2"].Fault(talosd.Fault{Kind: talosd.ResetBefore}); err != nil {
		return err
	}
	if id, file, err = i.capture(ctx, "olga", "worker-2"); err != nil {
		return err
	}
	if err := i.approve(ctx, "ada", id); err != nil {
		return err
	}
	if out, err := i.apply(ctx, "olga", "worker-2", file); err == nil {
		return fmt.Errorf("an apply without answer went through:\n%s", out)
	}
	for _, one := range []struct {
		into *string
		sql  string
	}{
		{&i.lost, "select entry_id from control.attempts where state = 'unresolved'"},
		{&i.applied, "select entry_id from control.attempts where state = 'completed'"},
		{&i.refused, "select id from audit.entries where caller_subject = 'vera' and verdict = 'deny'"},
	} {
		if err := i.db.QueryRow(ctx, one.sql).Scan(one.into); err != nil {
			return fmt.Errorf("%s: %w", one.sql, err)
		}
	}
	i.did("olga asked, ada approved, otto applied to worker-1; vera was refused; an apply to worker-2 got no answer")
	return nil
}

// accounted has a person say what became of what was lost, once that may be said.
func (i *inspection) accounted(ctx context.Context) error {
	var attempt string
	if err := i.db.QueryRow(ctx, "select attempt_id from audit.entries where id = $1", i.lost).Scan(&attempt); err != nil {
		return err
	}
	for {
		out, err := i.w.Bronzeward(ctx, "rhea", "attempts", "account", attempt, "--not-landed", "--reason", "worker-2 lost power before it could take it")
		switch {
		case err == nil:
			i.did("a recovery-admin accounted for it: it never landed")
			return nil
		case !strings.Contains(out, "it may land yet"):
			return fmt.Errorf("%w\n%s", err, out)
		}
		select {
		case <-time.After(time.Second): // the settle floor has no shorter way
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// auditor runs a command with nothing but the read-only login, in the auditor's folder.
func (i *inspection) auditor(ctx context.Context, database string, args ...string) (string, error) {
	return i.w.Alone(ctx, i.desk, []string{"BRONZEWARD_AUDITOR_URL=" + i.w.Postgres.DSN(database, "auditor")}, args...)
}

// elsewhere runs a command in another folder with nothing at all.
func (i *inspection) elsewhere(ctx context.Context, args ...string) (string, error) {
	dir, err := os.MkdirTemp(i.dir, "elsewhere-")
	if err != nil {
		return "", err
	}
	for _, name := range []string{"proof.json", "book.pub"} {
		raw, err := os.ReadFile(filepath.Join(i.desk, name))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
			return "", err
		}
	}
	return i.w.Alone(ctx, dir, nil, args...)
}

// key is what the auditor is given once, by another way than the book.
func (i *inspection) key(ctx context.Context) error {
	out, err := i.w.AsOpenBaoOperator(ctx, "openbao", "checkpoint-key", "--public-key")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(i.desk, "book.pub"), []byte(out), 0o600); err != nil {
		return err
	}
	i.did("the auditor has a read-only login and a public key: %s", firstLine(out))
	return nil
}

// questions are what an auditor asks first, one query each.
var questions = []struct {
	what, sql string
	want      []string
}{
	{
		"who changed worker-1 to what, who asked, who approved",
		"select requester_subject, approvers[1], spender_subject, state, digest_asked from audit.applies where machine_name = 'worker-1'",
		[]string{"olga", "ada", "otto", "completed", "hmac-sha256:k1:"},
	},
	{
		"what was refused, and why",
		"select caller_subject, machine_name, code, message from audit.refusals where caller_subject = 'vera' order by recorded_at",
		[]string{"vera", "worker-1", "BW-", ""},
	},
	{
		"what stayed unknown, and who accounted for it",
		"select machine_name, state, accounted_by_subject, accounted_reason from audit.unresolved",
		[]string{"worker-2", "accounted", "rhea", "lost power"},
	},
	{
		"who approved what",
		"select approver_subject, machine_name, change_state, digest from audit.approvals where machine_name = 'worker-1'",
		[]string{"ada", "worker-1", "spent", "hmac-sha256:k1:"},
	},
	{
		"everything that was decided about the lost apply",
		"select verdict, caller_subject, outcome, outcome_message from audit.decisions where id = '%s'",
		[]string{"allow", "olga", "accounted", "lost power"},
	},
}

// asked answers the questions with SQL alone.
func (i *inspection) asked(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, i.w.Postgres.DSN(world.Database, "auditor"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, q := range questions {
		sql := strings.ReplaceAll(q.sql, "%s", i.lost)
		rows, err := conn.Query(ctx, sql)
		if err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
		all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]string, error) {
			values, err := row.Values()
			cells := make([]string, len(values))
			for n, v := range values {
				cells[n] = fmt.Sprint(v)
			}
			return cells, err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
		if !slices.ContainsFunc(all, func(cells []string) bool { return fits(cells, q.want) }) {
			return fmt.Errorf("%s: no row of %v has %v", sql, all, q.want)
		}
		i.did("one query: %s: %s", q.what, strings.Join(q.want, " "))
	}
	if _, err := conn.Exec(ctx, "delete from audit.entries"); err == nil {
		return errors.New("the auditor's login may delete")
	}
	i.did("control: the auditor's login can change nothing")
	return nil
}

// fits is whether each cell holds what is wanted of it.
func fits(cells, want []string) bool {
	for n, w := range want {
		if !strings.Contains(cells[n], w) {
			return false
		}
	}
	return true
}
