package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// captured is the refusal that makes a change, and makes it once.
func (p *play) captured(ctx context.Context) error {
	id, file, err := p.capture(ctx, "olga", "worker-1")
	if err != nil {
		return err
	}
	if n := p.applies("worker-1"); n != 0 {
		return fmt.Errorf("the worker was sent %d applies before any approval", n)
	}
	out, _ := p.apply(ctx, "olga", "worker-1", file)
	if again := changeID.FindString(out); again != id {
		return fmt.Errorf("the same bytes became another change: %s, then %s", id, again)
	}
	out, _ = p.apply(ctx, "otto", "worker-1", file)
	if again := changeID.FindString(out); again != id {
		return fmt.Errorf("the same bytes of another operator became another change: %s, then %s", id, again)
	}
	p.did("an apply without approval is refused and captured: %s", firstLine(out))
	shown, err := p.w.Bronzeward(ctx, "ada", "changes", "show", id)
	if err != nil {
		return err
	}
	for _, must := range []string{id, "worker-1", "olga", "no-reboot", "example.com/step", "hmac-sha256:k1:"} {
		if !strings.Contains(shown, must) {
			return fmt.Errorf("changes show does not say %q:\n%s", must, shown)
		}
	}
	p.did("an approver sees who, which machine, the mode, the digest and what would change")
	return nil
}

// approvedAndSpent is the way of a change that is wanted.
func (p *play) approvedAndSpent(ctx context.Context) error {
	id, file, err := p.capture(ctx, "olga", "worker-1")
	if err != nil {
		return err
	}
	out, err := p.w.Bronzeward(ctx, "ada", "changes", "approve", id, "--digest", "hmac-sha256:k1:"+strings.Repeat("0", 64))
	if err := p.refused("an approval that names another digest", out, err, "BW-CHANGE-003"); err != nil {
		return err
	}
	if err := p.approve(ctx, "ada", id); err != nil {
		return err
	}
	if err := p.state(ctx, id, "approved"); err != nil {
		return err
	}
	before := p.applies("worker-1")
	if out, err := p.apply(ctx, "olga", "worker-1", file); err != nil {
		return fmt.Errorf("an approved apply: %w\n%s", err, out)
	}
	if n := p.applies("worker-1") - before; n != 1 {
		return fmt.Errorf("the worker was sent %d applies for one approved change", n)
	}
	active, _ := p.w.Nodes["worker-1"].Active()
	sent, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if string(active) != string(sent) {
		return fmt.Errorf("the worker holds other bytes than were approved")
	}
	if err := p.state(ctx, id, "spent"); err != nil {
		return err
	}
	p.did("approved by id and digest; the same command again goes through, and the worker holds exactly those bytes")
	out, err = p.apply(ctx, "olga", "worker-1", file)
	if err := p.refused("the same command once more", out, err, "DENIED BW-APPROVAL-001"); err != nil {
		return err
	}
	if changeID.FindString(out) == id {
		return fmt.Errorf("a spent change is asked for again:\n%s", out)
	}
	out, err = p.w.Bronzeward(ctx, "olga", "changes", "apply", id)
	if err := p.refused("applying a spent change", out, err, "BW-CHANGE-002"); err != nil {
		return err
	}
	p.did("control: it is spent once: the same command is another change, and applying it again is refused")
	return nil
}

// almostTheSame walks spellings of "almost the same" on one approval.
func (p *play) almostTheSame(ctx context.Context) error {
	id, file, err := p.capture(ctx, "olga", "worker-2")
	if err != nil {
		return err
	}
	if err := p.approve(ctx, "ada", id); err != nil {
		return err
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, before := string(raw), p.applies("worker-2")
	for what, other := range map[string]string{
		"one more newline at the end": text + "\n",
		"a comment":                   text + "# x\n",
		"a space":                     strings.Replace(text, "machine:\n", "machine: \n", 1),
		"a document marker":           "---\n" + text,
	} {
		path := p.w.Path("almost.yaml")
		if err := os.WriteFile(path, []byte(other), 0o600); err != nil {
			return err
		}
		out, err := p.apply(ctx, "olga", "worker-2", path)
		if err := p.refused(what, out, err, "DENIED BW-APPROVAL-001"); err != nil {
			return err
		}
		if changeID.FindString(out) == id {
			return fmt.Errorf("%s is the same change:\n%s", what, out)
		}
	}
	if n := p.applies("worker-2") - before; n != 0 {
		return fmt.Errorf("the worker was sent %d applies of almost the same", n)
	}
	out, err := p.apply(ctx, "olga", "worker-3", file)
	if err == nil {
		return fmt.Errorf("what was approved for one machine went to another:\n%s", out)
	}
	p.did("control: a newline, a comment, a space, a marker or another machine is another change")
	out, err = p.apply(ctx, "olga", "worker-2", file)
	if err != nil {
		return fmt.Errorf("the approved bytes themselves: %w\n%s", err, out)
	}
	return nil
}

// edited captures an edit, which cannot be repeated byte for byte, and applies it by its id.
func (p *play) edited(ctx context.Context) error {
	out, err := p.w.Talosctl(ctx, "olga", "-n", "worker-1", "patch", "machineconfig", "--mode=no-reboot",
		"-p", `{"machine":{"nodeLabels":{"example.com/patched":"yes"}}}`)
	id := changeID.FindString(out)
	if err == nil && id == "" {
		return fmt.Errorf("a patch without an approval went through:\n%s", out)
	}
	if id == "" {
		return fmt.Errorf("the refusal of a patch names no change: %w\n%s", err, out)
	}
	if err := p.approve(ctx, "ada", id); err != nil {
		return err
	}
	out, err = p.w.Bronzeward(ctx, "vera", "changes", "apply", id)
	if err := p.refused("an apply by a viewer", out, err, "DENIED BW-ACT-003"); err != nil {
		return err
	}
	if out, err := p.w.Bronzeward(ctx, "otto", "changes", "apply", id); err != nil {
		return fmt.Errorf("applying a patch by its change: %w\n%s", err, out)
	}
	active, _ := p.w.Nodes["worker-1"].Active()
	if !strings.Contains(string(active), "example.com/patched") {
		return fmt.Errorf("the patch is not on the worker")
	}
	p.did("a patch is captured, approved, and sent by its id by another operator; a viewer may not")
	return nil
}

// set proposes for two machines without talosctl, approves both in one act by the digest the
// set was shown with, and applies them. What another operator adds to the set is not in it.
func (p *play) set(ctx context.Context) error {
	file, err := p.config("worker-2")
	if err != nil {
		return err
	}
	if out, err := p.w.Bronzeward(ctx, "olga", "changes", "submit", "-n", "worker-2,worker-3", "--set", "labels", "-f", file); err != nil {
		return fmt.Errorf("proposing a set: %w\n%s", err, out)
	}
	shown, err := p.w.Bronzeward(ctx, "ada", "changes", "show", "--set", "labels")
	if err != nil {
		return fmt.Errorf("looking at a set: %w\n%s", err, shown)
	}
	digest := regexp.MustCompile(`set-sha256:[0-9a-f]{64}`).FindString(shown)
	if digest == "" {
		return fmt.Errorf("a set is shown without its digest:\n%s", shown)
	}
	other, err := p.config("worker-2")
	if err != nil {
		return err
	}
	added, err := p.w.Bronzeward(ctx, "otto", "changes", "submit", "-n", "worker-2", "--set", "labels", "-f", other)
	if err != nil {
		return fmt.Errorf("adding to another's set: %w\n%s", err, added)
	}
	out, err := p.w.Bronzeward(ctx, "ada", "changes", "approve", "--set", "labels", "--digest", digest)
	if err := p.refused("approving a set that another operator added to", out, err, "nothing was approved", changeID.FindString(added), "otto", "--requester"); err != nil {
		return err
	}
	var acts, moments int
	count := func() error {
		return p.db.QueryRow(ctx, `select count(*), count(distinct a.at) from control.approvals a
			join control.changes c on c.id = a.change_id where c.set_name = 'labels'`).Scan(&acts, &moments)
	}
	if err := count(); err != nil {
		return err
	}
	if acts != 0 {
		return fmt.Errorf("a set that is not as it was shown got %d approvals", acts)
	}
	p.did("control: a change that another operator adds to a set after it was shown makes its digest approve nothing")
	if out, err := p.w.Bronzeward(ctx, "ada", "changes", "approve", "--set", "labels", "--requester", "olga", "--digest", digest); err != nil {
		return fmt.Errorf("approving a set: %w\n%s", err, out)
	}
	if err := count(); err != nil {
		return err
	}
	if acts != 2 || moments != 1 {
		return fmt.Errorf("a set of two has %d approvals of %d moments", acts, moments)
	}
	if err := p.state(ctx, changeID.FindString(added), "waiting"); err != nil {
		return err
	}
	if out, err := p.w.Bronzeward(ctx, "olga", "changes", "apply", "--set", "labels", "--requester", "olga"); err != nil {
		return fmt.Errorf("applying a set: %w\n%s", err, out)
	}
	p.did("two machines proposed as a set, approved in one transaction by its digest, applied one after the other")
	return nil
}

// expired moves each of the two clocks past its end.
func (p *play) expired(ctx context.Context) error {
	id, file, err := p.capture(ctx, "olga", "worker-1")
	if err != nil {
		return err
	}
	if err := p.exec(ctx, "update control.changes set created_at = created_at - interval '25 hours', approve_by = approve_by - interval '25 hours' where id = (select change_id from control.change_states where state = 'waiting' order by since desc limit 1)"); err != nil {
		return err
	}
	c, err := change(ctx, p.w, id)
	if err != nil {
		return err
	}
	out, err := p.w.Bronzeward(ctx, "ada", "changes", "approve", id, "--digest", c.Digest)
	if err := p.refused("an approval after approve_by", out, err, "BW-CHANGE-002", "expired"); err != nil {
		return err
	}
	out, err = p.apply(ctx, "olga", "worker-1", file)
	if err := p.refused("an apply after approve_by", out, err, "DENIED BW-APPROVAL-001"); err != nil {
		return err
	}
	second := changeID.FindString(out)
	if second == id {
		return fmt.Errorf("an expired change is asked for again:\n%s", out)
	}
	if err := p.approve(ctx, "ada", second); err != nil {
		return err
	}
	if err := p.exec(ctx, "update control.change_states set use_by = clock_timestamp() - interval '1 millisecond' where state = 'approved'"); err != nil {
		return err
	}
	before := p.applies("worker-1")
	out, err = p.apply(ctx, "olga", "worker-1", file)
	if err := p.refused("an apply after use_by", out, err, "DENIED BW-APPROVAL-001"); err != nil {
		return err
	}
	if n := p.applies("worker-1") - before; n != 0 {
		return fmt.Errorf("the worker was sent %d applies after use_by", n)
	}
	p.did("not approved within %s, or not applied within %s of the approval: expired, by the database's clock", 24*time.Hour, time.Hour)
	return nil
}
