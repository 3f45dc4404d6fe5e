package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// entered enters recovery at one gateway; the other ends.
func (r *restoring) entered(ctx context.Context) error {
	out, err := r.w.Bronzeward(ctx, "olga", "recovery", "enter", "--yes", "--reason", "I can")
	if err := r.refused("entering by an operator", out, err, "DENIED BW-ACT-003"); err != nil {
		return err
	}
	out, err = r.w.Bronzeward(ctx, "rhea", "recovery", "enter", "--yes", "--reason", "the database was restored from the backup of last night")
	if err != nil {
		return fmt.Errorf("entering recovery: %w\n%s", err, out)
	}
	other := r.w.Gateways["gateway-2"]
	select {
	case <-other.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	if code := other.ExitCode(); code != 8 {
		return fmt.Errorf("gateway-2 ended with code %d, want 8:\n%s", code, other.Log())
	}
	if _, err := r.w.StartGatewayAt(ctx, "gateway-2", other.Endpoint); err != nil {
		return err
	}
	r.did("rhea enters recovery at gateway-1, which goes on; gateway-2 ends with its own code, and is started again")
	return r.state(ctx, r.approved, "expired")
}

// list is what is left to do, and what is refused before it was done.
func (r *restoring) list(ctx context.Context) error {
	out, err := r.w.Bronzeward(ctx, "rhea", "recovery", "status")
	if err != nil {
		return err
	}
	for _, must := range []string{
		"entered", "1 approval of the old epoch is void, and 1 change ended", "1 of 1 lost revocation was not made again",
		"3 machines were not observed since: controlplane-1, worker-1, worker-2",
	} {
		if !strings.Contains(out, must) {
			return fmt.Errorf("the list does not say %q:\n%s", must, out)
		}
	}
	fmt.Print(out)
	out, err = r.apply(ctx, "olga", "worker-2", r.file)
	if err := r.refused("an apply in recovery", out, err, "DENIED BW-RECOVERY-003"); err != nil {
		return err
	}
	out, err = r.w.Bronzeward(ctx, "olga", "changes", "apply", r.approved)
	if err := r.refused("applying what was approved in the old epoch", out, err); err != nil {
		return err
	}
	out, err = r.w.Bronzeward(ctx, "rhea", "recovery", "release", "worker-1")
	if err := r.refused("releasing a machine that was not observed", out, err, "BW-RECOVERY-004"); err != nil {
		return err
	}
	out, err = r.w.Bronzeward(ctx, "rhea", "recovery", "exit")
	if err := r.refused("ending the recovery", out, err, "BW-RECOVERY-005", "not observed", "lost revocation"); err != nil {
		return err
	}
	r.did("control: an approval of the old epoch, releasing a machine nobody looked at, and ending it now are refused")
	return nil
}

// one by one.
func (r *restoring) one(ctx context.Context) error {
	if err := r.revoke(ctx, "otto"); err != nil {
		return err
	}
	for _, name := range []string{"controlplane-1", "worker-1", "worker-2"} {
		if out, err := r.w.Bronzeward(ctx, "olga", "machines", "observe", name); err != nil {
			return fmt.Errorf("observing %s: %w\n%s", name, err, out)
		}
		if out, err := r.w.Bronzeward(ctx, "rhea", "recovery", "release", name); err != nil {
			return fmt.Errorf("releasing %s: %w\n%s", name, err, out)
		}
	}
	r.did("otto is revoked again; each machine is observed and released")
	return nil
}

// ended ends the recovery; everything works as ever.
func (r *restoring) ended(ctx context.Context) error {
	if out, err := r.w.Bronzeward(ctx, "rhea", "recovery", "exit"); err != nil {
		return fmt.Errorf("ending the recovery: %w\n%s", err, out)
	}
	out, err := r.apply(ctx, "olga", "worker-2", r.file)
	if err := r.refused("an apply with the old approval", out, err, "DENIED BW-APPROVAL-001"); err != nil {
		return err
	}
	id := changeID.FindString(out)
	if id == r.approved {
		return errors.New("the change of the old epoch lives on")
	}
	if err := r.approve(ctx, "ada", id); err != nil {
		return err
	}
	if out, err := r.apply(ctx, "olga", "worker-2", r.file); err != nil {
		return fmt.Errorf("an apply approved in the new epoch: %w\n%s", err, out)
	}
	if err := r.until(ctx, "OpenBao to remember the new tree", func() (bool, error) {
		there, err := r.anchor(ctx)
		size, _ := there["size"].(float64)
		return size > 0 && there["latched"] == nil && there["recovering"] == nil, err
	}); err != nil {
		return err
	}
	var detail string
	if err := r.db.QueryRow(ctx, `select convert_from(e.record, 'UTF8')::jsonb ->> 'detail' from audit.leaves l join audit.entries e on e.id = l.id
		where l.tree = 2 and l.index = 0`).Scan(&detail); err != nil {
		return err
	}
	if !strings.Contains(detail, "ended, with a head of") || !strings.Contains(detail, "are lost") {
		return fmt.Errorf("the new tree begins with %q", detail)
	}
	r.did("recovery ends; the old approval counts for nothing, a new one does; the new tree begins with what was lost")
	return nil
}

// withoutTheAnchor is the same restore with what notices it removed: OpenBao's anchor, and what the
// database remembers of having written it. The workers are put back too: what drifted since is noticed
// by other means.
func (r *restoring) withoutTheAnchor(ctx context.Context) error {
	for name, g := range r.w.Gateways {
		if err := g.Stop(); err != nil {
			return err
		}
		if name != "gateway-1" {
			delete(r.w.Gateways, name)
		}
	}
	if err := r.onData(ctx, func() error { return r.w.Postgres.Restore(ctx, r.backup) }); err != nil {
		return err
	}
	if _, _, err := r.w.OpenBao.API(ctx, http.MethodDelete, "bronzeward/metadata/anchor", nil); err != nil {
		return err
	}
	if err := r.exec(ctx, "update control.recovery set anchor_version = 0"); err != nil {
		return err
	}
	for name, text := range r.held {
		if err := r.w.Nodes[name].SetConfig(text); err != nil {
			return err
		}
	}
	if err := r.restart(ctx, "gateway-1"); err != nil {
		return err
	}
	if err := r.state(ctx, r.approved, "approved"); err != nil {
		return err
	}
	id, file, err := r.capture(ctx, "otto", "worker-1")
	if err != nil {
		return err
	}
	if err := r.approve(ctx, "ada", id); err != nil {
		return err
	}
	sent := r.applies("worker-1")
	if out, err := r.apply(ctx, "otto", "worker-1", file); err != nil || r.applies("worker-1") != sent+1 {
		return fmt.Errorf("otto's apply: %w\n%s", err, out)
	}
	r.did("control: with the anchor removed the same restore goes unnoticed: an old approval lives, and revoked otto applies")
	return nil
}
