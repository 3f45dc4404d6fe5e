package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"bronzeward/fixtures/world"
)

// play is what the steps of S3 share.
type play struct {
	*stage
	w  *world.World
	db *pgx.Conn // as a superuser: looks, moves clocks, and takes guards away
	n  int       // makes every configuration another one
}

// s3 is approval: of exact bytes, by enough of the right people, used once, taken back at once.
func s3(ctx context.Context, s *stage) (err error) {
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
		p.captured, p.approvedAndSpent, p.almostTheSame, p.edited, p.set, p.quorumOfTwo, p.selfApproval, p.wrongPeople,
		p.rejectedAndCancelled, p.expired, p.baseMoved, p.twoSpenders, p.approvalRevoked, p.revocationWaits,
		p.requesterRevoked, p.approverRevoked,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// config writes a configuration of the worker that differs from all before by one label, and
// gives its path.
func (p *play) config(worker string) (string, error) {
	p.n++
	active, _ := p.w.Nodes[worker].Active()
	label := fmt.Sprintf("        example.com/step: %q\n", fmt.Sprint(p.n))
	text := string(active)
	if at := regexp.MustCompile(`(?m)^        example\.com/step: .*\n`); at.MatchString(text) {
		text = at.ReplaceAllString(text, label)
	} else {
		text = strings.Replace(text, "\nmachine:\n", "\nmachine:\n    nodeLabels:\n"+label, 1)
	}
	path := p.w.Path(fmt.Sprintf("step-%d.yaml", p.n))
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// apply runs talosctl apply-config as a person.
func (p *play) apply(ctx context.Context, person, worker, file string) (string, error) {
	return p.w.Talosctl(ctx, person, "-n", worker, "apply-config", "--mode=no-reboot", "-f", file)
}

var changeID = regexp.MustCompile(`chg_[0-9a-z]{26}`)

// capture applies without an approval and gives the change that came of it.
func (p *play) capture(ctx context.Context, person, worker string) (id, file string, err error) {
	if file, err = p.config(worker); err != nil {
		return "", "", err
	}
	out, err := p.apply(ctx, person, worker, file)
	if err == nil {
		return "", "", fmt.Errorf("an apply without an approval went through:\n%s", out)
	}
	id = changeID.FindString(out)
	if !strings.Contains(out, "DENIED BW-APPROVAL-001") || id == "" {
		return "", "", fmt.Errorf("the refusal does not name a change that waits:\n%s", out)
	}
	return id, file, nil
}

// approve approves by id and digest as a person.
func (p *play) approve(ctx context.Context, person, id string) error {
	c, err := change(ctx, p.w, id)
	if err != nil {
		return err
	}
	_, err = p.w.Bronzeward(ctx, person, "changes", "approve", id, "--digest", c.Digest)
	return err
}

// refused checks that a command was refused, and that it says why.
func (p *play) refused(what, out string, err error, must ...string) error {
	if err == nil {
		return fmt.Errorf("%s went through:\n%s", what, out)
	}
	for _, m := range must {
		if !strings.Contains(out, m) {
			return fmt.Errorf("%s is refused without saying %q:\n%s", what, m, out)
		}
	}
	return nil
}

// state checks what has become of a change.
func (p *play) state(ctx context.Context, id, want string) error {
	c, err := change(ctx, p.w, id)
	if err != nil {
		return err
	}
	if string(c.State) != want {
		return fmt.Errorf("change %s is %s, want %s (%s)", id, c.State, want, c.Reason)
	}
	return nil
}

// applies is how many applies a worker's own log has.
func (p *play) applies(worker string) int { return len(p.w.Nodes[worker].Log().Applies()) }

// edit changes one place of the data of a law that lies in a folder.
func edit(dir, old, new string) error {
	path := filepath.Join(dir, "bronzeward", "data.yaml")
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text := strings.Replace(string(raw), old, new, 1)
	if text == string(raw) {
		return fmt.Errorf("the law's data do not hold %q", old)
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// law activates the live law with one edit of its data.
func (p *play) law(ctx context.Context, old, new string) error {
	if err := edit(p.w.PolicyDir(), old, new); err != nil {
		return err
	}
	_, err := p.w.Bronzeward(ctx, "sven", "policy", "activate", p.w.PolicyDir())
	return err
}

// exec changes the database behind everybody's back, triggers aside.
func (p *play) exec(ctx context.Context, sql string, args ...any) error {
	return pgx.BeginFunc(ctx, p.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set local session_replication_role = replica"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
}
