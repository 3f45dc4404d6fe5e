package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"bronzeward/gateway/httpapi/api"
)

// quorumOfTwo raises the law's quorum under an approved change, and needs a second person.
func (p *play) quorumOfTwo(ctx context.Context) error {
	id, file, err := p.capture(ctx, "olga", "worker-1")
	if err != nil {
		return err
	}
	if err := p.approve(ctx, "ada", id); err != nil {
		return err
	}
	if err := p.law(ctx, "  required: 1\n", "  required: 2\n"); err != nil {
		return err
	}
	out, err := p.apply(ctx, "olga", "worker-1", file)
	if err := p.refused("one approval under a law of two", out, err, "DENIED BW-APPROVAL-001", id, "2 approvals"); err != nil {
		return err
	}
	if err := p.state(ctx, id, "waiting"); err != nil {
		return err
	}
	c, err := change(ctx, p.w, id)
	if err != nil {
		return err
	}
	out, err = p.w.Bronzeward(ctx, "ada", "changes", "approve", id, "--digest", c.Digest)
	if err := p.refused("the same person's second approval", out, err, "BW-CHANGE-007"); err != nil {
		return err
	}
	if err := p.approve(ctx, "abel", id); err != nil {
		return err
	}
	if out, err := p.apply(ctx, "olga", "worker-1", file); err != nil {
		return fmt.Errorf("two approvals under a law of two: %w\n%s", err, out)
	}
	p.did("a quorum of two: the law asks for more after the first approval, and a second person's counts")
	return p.law(ctx, "  required: 2\n", "  required: 1\n")
}

// selfApproval is refused by default, and marked where data allow it.
func (p *play) selfApproval(ctx context.Context) error {
	id, file, err := p.capture(ctx, "boris", "worker-1")
	if err != nil {
		return err
	}
	c, err := change(ctx, p.w, id)
	if err != nil {
		return err
	}
	out, err := p.w.Bronzeward(ctx, "boris", "changes", "approve", id, "--digest", c.Digest)
	if err := p.refused("approving one's own change", out, err, "BW-APPROVAL-007"); err != nil {
		return err
	}
	// Who approved somebody else's change may not be the one who spends it either.
	other, otherFile, err := p.capture(ctx, "olga", "worker-2")
	if err != nil {
		return err
	}
	if err := p.approve(ctx, "boris", other); err != nil {
		return err
	}
	out, err = p.apply(ctx, "boris", "worker-2", otherFile)
	if err := p.refused("spending what one approved", out, err, "DENIED BW-APPROVAL-001"); err != nil {
		return err
	}
	p.did("control: nobody approves their own change, and who spends it counts as its requester")
	if err := p.law(ctx, "self_approval: false", "self_approval: true"); err != nil {
		return err
	}
	if err := p.approve(ctx, "boris", id); err != nil {
		return err
	}
	out, err = p.apply(ctx, "boris", "worker-1", file)
	if err != nil {
		return fmt.Errorf("self-approved by data: %w\n%s", err, out)
	}
	if !strings.Contains(out, "BW-APPROVAL-005") {
		return fmt.Errorf("a self-approved apply is not marked:\n%s", out)
	}
	p.did("where data allow it, it goes through and says so: BW-APPROVAL-005")
	return p.law(ctx, "self_approval: true", "self_approval: false")
}

// wrongPeople tries to approve as automation, as an operator, and as an approver of another group.
func (p *play) wrongPeople(ctx context.Context) error {
	id, _, err := p.capture(ctx, "olga", "worker-1")
	if err != nil {
		return err
	}
	c, err := change(ctx, p.w, id)
	if err != nil {
		return err
	}
	for person, code := range map[string]string{"bot-ci": "BW-ACT-00", "otto": "BW-ACT-003", "vera": "BW-ACT-003", "mallory": "BW-ACT-003"} {
		out, err := p.w.Bronzeward(ctx, person, "changes", "approve", id, "--digest", c.Digest)
		if err := p.refused("an approval by "+person, out, err, code); err != nil {
			return err
		}
	}
	if err := p.law(ctx, "  groups: [talos-approvers]", "  groups: [security]"); err != nil {
		return err
	}
	out, err := p.w.Bronzeward(ctx, "ada", "changes", "approve", id, "--digest", c.Digest)
	if err := p.refused("an approval from another group", out, err, "BW-APPROVAL-006", "security"); err != nil {
		return err
	}
	var n int
	if err := p.db.QueryRow(ctx, "select count(*) from control.approvals a where a.change_id = (select change_id from control.change_states order by since desc limit 1)").Scan(&n); err != nil {
		return err
	}
	if n != 0 {
		return fmt.Errorf("refused approvals left %d rows", n)
	}
	p.did("control: automation, an operator, a viewer, nobody, and an approver of another group do not approve")
	return p.law(ctx, "  groups: [security]", "  groups: [talos-approvers]")
}

// rejectedAndCancelled ends changes with a reason.
func (p *play) rejectedAndCancelled(ctx context.Context) error {
	id, file, err := p.capture(ctx, "olga", "worker-1")
	if err != nil {
		return err
	}
	if err := p.approve(ctx, "ada", id); err != nil {
		return err
	}
	if out, err := p.w.Bronzeward(ctx, "abel", "changes", "reject", id, "--reason", "not on a Friday"); err != nil {
		return fmt.Errorf("rejecting: %w\n%s", err, out)
	}
	out, err := p.w.Bronzeward(ctx, "olga", "changes", "apply", id)
	if err := p.refused("applying a rejected change", out, err, "BW-CHANGE-002", "not on a Friday"); err != nil {
		return err
	}
	out, err = p.apply(ctx, "olga", "worker-1", file)
	if err := p.refused("the command of a rejected change", out, err, "DENIED BW-APPROVAL-001"); err != nil {
		return err
	}
	again := changeID.FindString(out)
	out, err = p.w.Bronzeward(ctx, "otto", "changes", "cancel", again, "--reason", "not mine")
	if err := p.refused("cancelling another's change", out, err, "BW-ACT-003"); err != nil {
		return err
	}
	if out, err := p.w.Bronzeward(ctx, "olga", "changes", "cancel", again, "--reason", "a mistake"); err != nil {
		return fmt.Errorf("cancelling: %w\n%s", err, out)
	}
	if err := p.state(ctx, again, "cancelled"); err != nil {
		return err
	}
	p.did("an approved change is rejected with a reason, and gone; its requester cancels the next; others may not")
	return nil
}

// baseMoved changes the worker round the gateway.
func (p *play) baseMoved(ctx context.Context) error {
	id, file, err := p.capture(ctx, "olga", "worker-1")
	if err != nil {
		return err
	}
	if err := p.approve(ctx, "ada", id); err != nil {
		return err
	}
	active, _ := p.w.Nodes["worker-1"].Active()
	moved := strings.Replace(string(active), "\nmachine:\n", "\nmachine:\n    # moved round the gateway\n", 1)
	if err := p.w.Nodes["worker-1"].SetConfig([]byte(moved)); err != nil {
		return err
	}
	before := p.applies("worker-1")
	out, err := p.w.Bronzeward(ctx, "olga", "changes", "apply", id)
	if err := p.refused("applying to what has moved", out, err, "BW-CHANGE-002"); err != nil {
		return err
	}
	c, err := change(ctx, p.w, id)
	if err != nil {
		return err
	}
	if string(c.State) != "superseded" || c.OvertakenBy == "" || c.OvertakenBy == c.Base.Active {
		return fmt.Errorf("the change is %s, overtaken by %q", c.State, c.OvertakenBy)
	}
	if _, err := untilDrift(ctx, p.w, "worker-1", api.DriftStateOpen); err != nil {
		return err
	}
	out, err = p.apply(ctx, "olga", "worker-1", file)
	if err := p.refused("the same command on what has moved", out, err, "DENIED BW-HOLDS-004"); err != nil {
		return err
	}
	if err := p.w.Nodes["worker-1"].SetConfig(active); err != nil {
		return err
	}
	if _, err := untilDrift(ctx, p.w, "worker-1", api.DriftStateReturned); err != nil {
		return err
	}
	if n := p.applies("worker-1") - before; n != 0 {
		return fmt.Errorf("the worker was sent %d applies on another base", n)
	}
	p.did("the base moves: the approved change is superseded, and names the digest that overtook it")
	return nil
}

// approvalRevoked takes an approval back.
func (p *play) approvalRevoked(ctx context.Context) error {
	id, file, err := p.capture(ctx, "olga", "worker-1")
	if err != nil {
		return err
	}
	if err := p.approve(ctx, "ada", id); err != nil {
		return err
	}
	c, err := change(ctx, p.w, id)
	if err != nil {
		return err
	}
	if len(c.Approvals) != 1 {
		return fmt.Errorf("the change has %d approvals", len(c.Approvals))
	}
	if out, err := p.w.Bronzeward(ctx, "abel", "approvals", "revoke", c.Approvals[0].ID, "--reason", "looked again"); err != nil {
		return fmt.Errorf("revoking an approval: %w\n%s", err, out)
	}
	out, err := p.apply(ctx, "olga", "worker-1", file)
	if err := p.refused("an apply on a revoked approval", out, err, "DENIED BW-APPROVAL-001", id); err != nil {
		return err
	}
	if err := p.state(ctx, id, "waiting"); err != nil {
		return err
	}
	if err := p.approve(ctx, "ada", id); err != nil {
		return err
	}
	if out, err := p.apply(ctx, "olga", "worker-1", file); err != nil {
		return fmt.Errorf("approved again: %w\n%s", err, out)
	}
	p.did("a revoked approval counts no more: the change waits again, and goes through when approved again")
	return nil
}

// revoke takes a person's authority away.
func (p *play) revoke(ctx context.Context, subject string) error {
	out, err := p.w.Bronzeward(ctx, "rhea", "identities", "revoke", "--issuer", p.w.PeopleIssuer(), "--subject", subject, "--reason", "scenario", "--yes")
	if err != nil {
		return fmt.Errorf("revoking %s: %w\n%s", subject, err, out)
	}
	return nil
}

// approverRevoked takes the approver's authority away between approval and apply.
func (p *play) approverRevoked(ctx context.Context) error {
	id, file, err := p.capture(ctx, "olga", "worker-2")
	if err != nil {
		return err
	}
	if err := p.approve(ctx, "abel", id); err != nil {
		return err
	}
	if err := p.revoke(ctx, "abel"); err != nil {
		return err
	}
	out, err := p.apply(ctx, "olga", "worker-2", file)
	if err := p.refused("an apply on a revoked person's approval", out, err, "DENIED BW-APPROVAL-001", id); err != nil {
		return err
	}
	c, err := change(ctx, p.w, id)
	if err != nil {
		return err
	}
	if len(c.Approvals) != 1 || !c.Approvals[0].Revoked {
		return errors.New("the approval of a revoked person is not marked")
	}
	out, err = p.w.Bronzeward(ctx, "abel", "changes", "approve", id, "--digest", c.Digest)
	if err := p.refused("an approval by a revoked person", out, err); err != nil {
		return err
	}
	p.did("the approver is revoked: the approval is marked and counts no more")
	return nil
}

// requesterRevoked takes the requester's authority away: the change ends, whoever would apply it.
func (p *play) requesterRevoked(ctx context.Context) error {
	id, file, err := p.capture(ctx, "boris", "worker-3")
	if err != nil {
		return err
	}
	if err := p.approve(ctx, "ada", id); err != nil {
		return err
	}
	if err := p.revoke(ctx, "boris"); err != nil {
		return err
	}
	if err := p.state(ctx, id, "revoked"); err != nil {
		return err
	}
	before := p.applies("worker-3")
	for _, try := range []func() (string, error){
		func() (string, error) { return p.apply(ctx, "boris", "worker-3", file) },
		func() (string, error) { return p.apply(ctx, "olga", "worker-3", file) },
		func() (string, error) { return p.w.Bronzeward(ctx, "olga", "changes", "apply", id) },
	} {
		out, err := try()
		if err := p.refused("an apply of a revoked requester's change", out, err); err != nil {
			return err
		}
	}
	if n := p.applies("worker-3") - before; n != 0 {
		return fmt.Errorf("the worker was sent %d applies of a revoked requester's change", n)
	}
	p.did("the requester is revoked: the change ends, for everybody, and the person is refused")
	return nil
}
