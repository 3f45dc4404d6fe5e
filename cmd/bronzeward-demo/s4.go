package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"bronzeward/fixtures/oracle"
	"bronzeward/fixtures/talosd"
	"bronzeward/fixtures/world"
	"bronzeward/gateway/httpapi/api"
)

// s4 is a safe apply: approved, written down before a byte of it is sent, read back, and one at a
// time.
func s4(ctx context.Context, s *stage) (err error) {
	// The database says when each transaction was committed.
	w, err := s.world(ctx, world.Config{Quorum: 1, Workers: 3, Settings: map[string]string{"track_commit_timestamp": "on"}})
	if err != nil {
		return err
	}
	defer func() { err = s.leave(ctx, w, err) }()
	p := &play{stage: s, w: w}
	if p.db, err = superuser(ctx, w); err != nil {
		return err
	}
	defer func() { _ = p.db.Close(context.WithoutCancel(ctx)) }()
	for _, step := range []func(context.Context) error{
		p.rowBeforeBytes, p.warned, p.oneAtATime, p.invalidBytes, p.keysSealed, p.databaseStopped, p.indexRemoved,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// rowBeforeBytes applies an approved change, and puts what the database and the worker say in order.
func (p *play) rowBeforeBytes(ctx context.Context) error {
	id, file, err := p.approved(ctx, "worker-1")
	if err != nil {
		return err
	}
	node := p.w.Nodes["worker-1"]
	_, versionBefore := node.Active()
	if out, err := p.apply(ctx, "otto", "worker-1", file); err != nil {
		return fmt.Errorf("an approved apply: %w\n%s", err, out)
	}
	sent := node.Log().Applies()
	if len(sent) != 1 || !sent[0].Landed {
		return fmt.Errorf("the worker was sent %d applies", len(sent))
	}
	var state string
	var decided, completed bool
	if err := p.db.QueryRow(ctx, `select a.state, pg_xact_commit_timestamp(e.xmin) < $2, pg_xact_commit_timestamp(a.xmin) > $3
		from control.attempts a join audit.entries e on e.id = a.entry_id where e.id::text = $1`,
		strings.Join(sent[0].Metadata["bronzeward-decision"], " "), sent[0].At, sent[0].LandedAt).Scan(&state, &decided, &completed); err != nil {
		return fmt.Errorf("the attempt of what the worker was sent: %w", err)
	}
	if state != "completed" || !decided || !completed {
		return fmt.Errorf("the attempt is %s; committed before the first byte: %t; completed after it landed: %t", state, decided, completed)
	}
	p.did("on the timeline: approved, decision and attempt committed, sent to worker-1, landed, read back, `completed`")
	return p.holdsWhatWasApproved(ctx, id, file, versionBefore, sent[0])
}

// holdsWhatWasApproved compares the approved digest with what the worker has, and its resource's version.
func (p *play) holdsWhatWasApproved(ctx context.Context, id, file, before string, sent talosd.Call) error {
	c, err := change(ctx, p.w, id)
	if err != nil {
		return err
	}
	text, after := p.w.Nodes["worker-1"].Active()
	out, err := p.w.Bronzeward(ctx, "otto", "attempts", "list", "--machine", "worker-1", "-o", "json")
	if err != nil {
		return err
	}
	var attempts []api.Attempt
	if err := json.Unmarshal([]byte(out), &attempts); err != nil {
		return fmt.Errorf("reading the attempts: %w", err)
	}
	readBack := slices.ContainsFunc(attempts, func(a api.Attempt) bool { return a.Read.Active == c.Digest })
	if sha := oracle.SHA256(text); sha != sent.Apply.ConfigSHA256 || !readBack {
		return fmt.Errorf("worker-1 holds %s and was sent %s; read back was not %s:\n%s", sha, sent.Apply.ConfigSHA256, c.Digest, out)
	}
	moved, err := movedByOne(before, after)
	if err != nil || !moved {
		return fmt.Errorf("the resource's version went from %s to %s: %w", before, after, err)
	}
	if err := p.state(ctx, id, "spent"); err != nil {
		return err
	}
	p.did("the digest on worker-1 is the approved one, its resource's version moved by one, the change is spent")
	again, err := p.apply(ctx, "otto", "worker-1", file)
	if err := p.refused("the same apply again", again, err, "BW-APPROVAL-001"); err != nil {
		return err
	}
	if n := p.applies("worker-1"); n != 1 {
		return fmt.Errorf("worker-1 was sent %d applies", n)
	}
	return nil
}

func movedByOne(before, after string) (bool, error) {
	var from, to int
	if _, err := fmt.Sscan(before+" "+after, &from, &to); err != nil {
		return false, err
	}
	return to == from+1, nil
}

// warned lets an approval of the requester's own count, which the law then warns of in talosctl's
// own output, after what the node says.
func (p *play) warned(ctx context.Context) error {
	const no, yes = "self_approval: false", "self_approval: true"
	if err := p.law(ctx, no, yes); err != nil {
		return err
	}
	id, file, err := p.capture(ctx, "boris", "worker-2")
	if err != nil {
		return err
	}
	if err := p.approve(ctx, "boris", id); err != nil {
		return err
	}
	out, err := p.apply(ctx, "boris", "worker-2", file)
	if err != nil || !strings.Contains(out, "BW-APPROVAL-005") || !strings.Contains(out, "Applied configuration without a reboot") {
		return fmt.Errorf("an apply that the law warns of: %w\n%s", err, out)
	}
	p.did("a warning of the law stands in talosctl's output, beside the node's answer: BW-APPROVAL-005")
	return p.law(ctx, yes, no)
}

// oneAtATime holds a second apply off while the first is on its way, on the machine and in the cluster.
func (p *play) oneAtATime(ctx context.Context) error {
	_, first, err := p.approved(ctx, "worker-1")
	if err != nil {
		return err
	}
	_, same, err := p.approved(ctx, "worker-1")
	if err != nil {
		return err
	}
	_, other, err := p.approved(ctx, "worker-2")
	if err != nil {
		return err
	}
	done, err := p.holding(ctx, "worker-1", func() (string, error) { return p.apply(ctx, "olga", "worker-1", first) })
	if err != nil {
		return err
	}
	out, errSame := p.apply(ctx, "otto", "worker-1", same)
	out2, errOther := p.apply(ctx, "otto", "worker-2", other)
	p.w.Nodes["worker-1"].Resume()
	s := <-done
	if err := errors.Join(
		p.refused("a second apply to the machine", out, errSame, "DENIED BW-HOLDS-001"),
		p.refused("an apply to another machine of the cluster", out2, errOther, "DENIED BW-HOLDS-007"), s.err,
	); err != nil {
		return fmt.Errorf("%w\n%s", err, s.out)
	}
	if out, err := p.apply(ctx, "otto", "worker-2", other); err != nil {
		return fmt.Errorf("after the first has ended: %w\n%s", err, out)
	}
	p.did("while one apply is on its way another is held off, on the machine and in the cluster; afterwards it goes through")
	return nil
}

// holding starts a command and returns when the worker holds its apply.
func (p *play) holding(ctx context.Context, worker string, run func() (string, error)) (<-chan said, error) {
	node := p.w.Nodes[worker]
	if err := node.Fault(talosd.Fault{Kind: talosd.Pause}); err != nil {
		return nil, err
	}
	done := beside(run)
	return done, comesAbout(ctx, worker+" to hold the apply", func() (bool, error) {
		return heldNow(node.Log().Calls()) > 0 || len(done) > 0, nil
	})
}

// heldNow is how many calls a worker holds.
func heldNow(calls []talosd.Call) (n int) {
	for _, c := range calls {
		if c.Held {
			n++
		}
	}
	return n
}

// approved captures a change of a worker as olga, has ada approve it, and gives its id and file.
func (p *play) approved(ctx context.Context, worker string) (id, file string, err error) {
	if id, file, err = p.capture(ctx, "olga", worker); err != nil {
		return "", "", err
	}
	return id, file, p.approve(ctx, "ada", id)
}

// superuser connects as one: to look, to hold locks, and to take guards away.
func superuser(ctx context.Context, w *world.World) (*pgx.Conn, error) {
	return pgx.Connect(ctx, w.Postgres.DSN(world.Database, "postgres"))
}

// comesAbout asks every few milliseconds whether something has come about; the time only ends a
// scenario that goes wrong.
func comesAbout(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := done()
		if err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: it did not come", what)
		case <-tick.C:
		}
	}
}
