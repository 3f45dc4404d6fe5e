package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// step puts the rule on a step of the ladder, which is an edit of the data, and makes that live.
// The activation is an entry of the book, and every replica judges by the new revision afterwards.
func (d *drafting) step(ctx context.Context, old, new string) (revision string, err error) {
	if err := edit(d.w.PolicyDir(), old, new); err != nil {
		return "", err
	}
	before, err := d.live(ctx)
	if err != nil {
		return "", err
	}
	out, err := d.w.Bronzeward(ctx, "sven", "policy", "activate", d.w.PolicyDir(), "--replay-since", "1d")
	if err != nil {
		return "", fmt.Errorf("activating: %w\n%s", err, out)
	}
	if revision, err = d.live(ctx); err != nil || revision == before || !strings.Contains(out, "revision "+revision+" is live (decision ") {
		return "", errors.Join(err, fmt.Errorf("it is not said which revision is live, or the old one is:\n%s", out))
	}
	var person, verdict, judgedBy string
	if err := d.db.QueryRow(ctx, `select e.caller_subject, e.verdict, e.policy_revision from audit.entries e
		join control.bundle_activations a on a.entry_id = e.id where a.revision = $1 and e.method = 'policy.activate'`, revision).Scan(&person, &verdict, &judgedBy); err != nil {
		return "", fmt.Errorf("the entry of the activation: %w", err)
	}
	if person != "sven" || verdict != "allow" || judgedBy != before {
		return "", fmt.Errorf("the activation is recorded as %s's, %s, judged by %s; want sven's, allowed, judged by %s", person, verdict, judgedBy, before)
	}
	return revision, d.everywhere(ctx, revision)
}

// tried is an approved apply to worker-2, and the reasons that its entry has.
func (d *drafting) tried(ctx context.Context) (out string, reasons []struct{ Code, Severity string }, err error, bad error) {
	before := d.applies("worker-2")
	id, file, bad := d.approved(ctx, "worker-2")
	if bad != nil {
		return "", nil, nil, bad
	}
	out, err = d.apply(ctx, "olga", "worker-2", file)
	if moved := d.applies("worker-2") - before; (err == nil) != (moved == 1) || moved > 1 {
		return "", nil, nil, fmt.Errorf("worker-2 has %d applies more, and talosctl says: %w\n%s", moved, err, out)
	}
	var raw []byte
	if bad := d.db.QueryRow(ctx, "select convert_from(record, 'UTF8')::jsonb->'reasons' from audit.entries where change_id = $1 and kind = 'rpc' order by id desc limit 1", id).Scan(&raw); bad != nil {
		return "", nil, nil, fmt.Errorf("the entry of the apply: %w", bad)
	}
	return out, reasons, err, json.Unmarshal(raw, &reasons)
}

func on(reasons []struct{ Code, Severity string }, step string) bool {
	for _, r := range reasons {
		if r.Code == "BW-SITE-001" {
			return r.Severity == step
		}
	}
	return false
}

// shadowed lets the rule watch: nobody is stopped or told, and the book knows whom it would have stopped.
func (d *drafting) shadowed(ctx context.Context) error {
	if _, err := d.step(ctx, "\nladder:\n", "\nladder:\n  BW-SITE-001: shadow\n"); err != nil {
		return err
	}
	out, reasons, err, bad := d.tried(ctx)
	if bad != nil {
		return bad
	}
	if err != nil || strings.Contains(out, "BW-SITE-001") || !on(reasons, "shadow") {
		return fmt.Errorf("a rule on shadow: %w, recorded %v\n%s", err, reasons, out)
	}
	out, err = d.auditor(ctx, d.w, "policy", "shadow", "--since", "1d")
	if err != nil || !strings.Contains(out, "BW-SITE-001") || !strings.Contains(out, "olga") {
		return fmt.Errorf("policy shadow does not name the code and the person: %w\n%s", err, out)
	}
	d.did("shadow: activated within the limit, an entry of the book, on both replicas; olga's apply passes without a word, and `policy shadow` names her")
	return nil
}

// warned lets the rule speak, in talosctl's own output.
func (d *drafting) warned(ctx context.Context) error {
	if _, err := d.step(ctx, "BW-SITE-001: shadow", "BW-SITE-001: warn"); err != nil {
		return err
	}
	out, reasons, err, bad := d.tried(ctx)
	if bad != nil {
		return bad
	}
	if err != nil || !strings.Contains(out, "BW-SITE-001") || !strings.Contains(out, "worker-2 is left alone") || !strings.Contains(out, "Applied configuration without a reboot") || !on(reasons, "warn") {
		return fmt.Errorf("a rule on warn: %w, recorded %v\n%s", err, reasons, out)
	}
	d.did("warn: the apply passes, and talosctl's own output has the rule's sentence beside the node's answer")
	return nil
}

// denied lets the rule refuse, and the machine next to it go on.
func (d *drafting) denied(ctx context.Context) error {
	id, file, err := d.approved(ctx, "worker-2")
	if err != nil {
		return err
	}
	if err := edit(d.w.PolicyDir(), "BW-SITE-001: warn", "BW-SITE-001: deny"); err != nil {
		return err
	}
	before, err := d.live(ctx)
	if err != nil {
		return err
	}
	out, err := d.w.Bronzeward(ctx, "sven", "policy", "activate", d.w.PolicyDir(), "--replay-since", "1d")
	if err := d.refused("a step that denies three past applies", out, err, "3 past allows would be denied now"); err != nil {
		return err
	}
	if err := d.stays(ctx, before); err != nil {
		return err
	}
	if out, err := d.w.Bronzeward(ctx, "sven", "policy", "activate", d.w.PolicyDir(), "--replay-since", "1d", "--max-newly-denied", "3"); err != nil {
		return fmt.Errorf("activating: %w\n%s", err, out)
	}
	now, err := d.live(ctx)
	if err != nil {
		return err
	}
	if err := d.everywhere(ctx, now); err != nil {
		return err
	}
	applies := d.applies("worker-2")
	out, err = d.apply(ctx, "olga", "worker-2", file)
	if err := d.refused("an approved apply that the rule denies", out, err, "DENIED BW-SITE-001", "worker-2 is left alone", "use worker-1; sven knows until when"); err != nil {
		return err
	}
	if d.applies("worker-2") != applies {
		return errors.New("worker-2 has one apply more")
	}
	if err := d.state(ctx, id, "approved"); err != nil {
		return err
	}
	if _, file, err = d.approved(ctx, "worker-1"); err != nil {
		return err
	}
	if out, err := d.apply(ctx, "olga", "worker-1", file); err != nil {
		return fmt.Errorf("an apply to worker-1: %w\n%s", err, out)
	}
	d.did("deny: three past applies would be denied, which has to be said to make it live; then worker-2 is refused with the rule's hint, its change unspent, and worker-1 goes on")
	return nil
}
