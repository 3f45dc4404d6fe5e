package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/facts"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

// ProposeDrift captures the change that settles an open drift: an adoption takes what was found
// as applied, a revert brings back what was applied. It is judged like an apply of that
// configuration, and nothing is sent. When the very same change is live already it is that one,
// and created is false.
func (g *Gateway) ProposeDrift(ctx context.Context, by identity.Actor, id control.DriftID, kind, why string, once *control.Once) (_ control.Change, created bool, entry audit.Receipt, err error) {
	if why == "" {
		return control.Change{}, false, audit.Receipt{}, fmt.Errorf("%w: settling a drift takes a reason", control.ErrInvalid)
	}
	d, err := g.store.GetDrift(ctx, id)
	if err != nil {
		return control.Change{}, false, audit.Receipt{}, err
	}
	m, err := g.store.GetMachine(ctx, d.MachineName)
	if err != nil {
		return control.Change{}, false, audit.Receipt{}, err
	}
	if err := g.repeated(ctx, by, once); err != nil {
		return control.Change{}, false, audit.Receipt{}, err
	}
	if d.State != control.DriftOpen {
		return control.Change{}, false, audit.Receipt{}, control.DriftClosed(&d)
	}
	act := &asAct{name: ActDriftAdopt, subject: id.String(), kind: kind, drift: id, why: why, once: once}
	if kind == control.KindRevert {
		act.name = ActDriftRevert
	}
	c, err := g.applyFrom(ctx, by, &m, nil, act)
	if err != nil {
		return control.Change{}, false, audit.Receipt{}, err
	}
	if c.change == nil || len(c.decided) == 0 {
		return control.Change{}, false, audit.Receipt{}, errors.New("the proposal was neither captured nor refused")
	}
	entry = c.decided[len(c.decided)-1]
	return *c.change, c.change.EntryID == entry.ID, entry, nil
}

// AdoptChange carries out an approved adoption: on a fresh reading of the machine, what runs
// there is taken as applied and the drift is closed, in one transaction. Nothing is sent.
func (g *Gateway) AdoptChange(ctx context.Context, by identity.Actor, id control.ChangeID, once *control.Once) (control.Change, audit.Receipt, error) {
	ch, err := g.store.GetChange(ctx, id)
	if err != nil {
		return control.Change{}, audit.Receipt{}, err
	}
	if ch.Kind != control.KindAdopt {
		return control.Change{}, audit.Receipt{}, otherKind(&ch)
	}
	m, err := g.store.GetMachine(ctx, ch.MachineName)
	if err != nil {
		return control.Change{}, audit.Receipt{}, err
	}
	if err := g.repeated(ctx, by, once); err != nil {
		return control.Change{}, audit.Receipt{}, err
	}
	c, err := g.applyFrom(ctx, by, &m, nil, &asAct{name: ActChangesApply, subject: id.String(), change: &ch, once: once})
	if err != nil {
		return control.Change{}, audit.Receipt{}, err
	}
	if c.change == nil || len(c.decided) == 0 {
		return control.Change{}, audit.Receipt{}, errors.New("the adoption was neither carried out nor refused")
	}
	g.countDrifts(ctx)
	g.settled(ctx, c.change)
	return *c.change, c.decided[len(c.decided)-1], nil
}

// settled says in the log that a change has settled its drift; of an apply it says nothing.
func (g *Gateway) settled(ctx context.Context, ch *control.Change) {
	attrs := []any{slog.String("drift", ch.Drift.String()), slog.String("machine", ch.MachineName), slog.String("change", ch.ID.String())}
	switch ch.Kind {
	case control.KindAdopt:
		g.log.InfoContext(ctx, "drift is adopted", attrs...)
	case control.KindRevert:
		g.log.InfoContext(ctx, "drift is reverted", attrs...)
	}
}

// otherKind says by which way a change goes.
func otherKind(ch *control.Change) error {
	e := &control.ChangeError{Code: "BW-DRIFT-004", Hint: "bronzeward changes apply " + ch.ID.String()}
	e.Message = fmt.Sprintf("change %s is of kind %s, which sends its configuration: it is applied, not adopted", ch.ID, ch.Kind)
	if ch.Kind == control.KindAdopt {
		e.Message = fmt.Sprintf("change %s adopts what runs and sends nothing: it is adopted, not applied", ch.ID)
	}
	return e
}

// kind is what the change is, or would be, that this call asks for.
func (c *call) kind() string {
	switch {
	case c.act == nil:
		return control.KindApply
	case c.act.change != nil:
		return c.act.change.Kind
	case c.act.kind != "":
		return c.act.kind
	}
	return control.KindApply
}

// drift is the one that the change settles; zero for an apply.
func (c *call) drift() control.DriftID {
	switch {
	case c.act == nil:
		return control.DriftID{}
	case c.act.change != nil:
		return c.act.change.Drift
	}
	return c.act.drift
}

// adopts is true for what takes the machine as it is: it sends nothing.
func (c *call) adopts() bool { return c.kind() == control.KindAdopt }

// openApplied opens, for what settles a drift, the copy of what was applied last: a revert is
// made of it, and an adoption is held against it. An adoption goes on where no copy is kept,
// and says so: else nothing could ever be done about the drift.
func (c *call) openApplied(t *target) ([]byte, error) {
	d, err := c.g.store.GetDrift(c.ctx, c.drift())
	if err != nil {
		return nil, err
	}
	text, err := c.g.appliedText(c.ctx, d.MachineID, d.AppliedActive)
	switch {
	case err == nil:
		return text, nil
	case errors.Is(err, control.ErrNotFound) && c.adopts():
		c.act.unknown = true
		return nil, nil
	case errors.Is(err, control.ErrNotFound):
		message, hint := "no copy of what was applied to %s is kept, so it cannot be brought back", "bronzeward drift adopt "+d.ID.String()+" --reason TEXT, and then propose the configuration that is wanted"
		if t.machine.Role != "worker" {
			message = "%s is a control plane: nothing is applied to it, and no copy of its configuration is kept, so nothing brings it back"
			hint = "undo it on the node by hand, or take it: bronzeward drift adopt " + d.ID.String() + " --reason TEXT"
		}
		return nil, c.refuseChange(t, control.ChangeID{}, "BW-DRIFT-003", fmt.Sprintf(message, d.MachineName), hint)
	default:
		return nil, c.notOpenedCopy(t, &d, err)
	}
}

// alsoOnDisk adds to what an adoption changes what the disk holds besides: the next reboot brings
// it, and it is taken as applied too. What both hold is one difference.
func alsoOnDisk(c, disk *policy.Config) {
	type place struct{ document, path string }
	there := make(map[place]*policy.ConfigChange, len(c.Changes))
	for i := range c.Changes {
		there[place{c.Changes[i].Document, c.Changes[i].Path}] = &c.Changes[i]
	}
	changes := slices.Clone(c.Changes)
	for i := range disk.Changes {
		one := &disk.Changes[i]
		if same := there[place{one.Document, one.Path}]; same == nil || !reflect.DeepEqual(same, one) {
			changes = append(changes, *one)
		}
	}
	c.Changes = changes[:min(len(changes), facts.MaxChanges)]
	c.ChangesKnown = c.ChangesKnown && disk.ChangesKnown
	c.Identical = c.Identical && disk.Identical
	c.Problems = append(c.Problems, disk.Problems...)
	for _, d := range disk.Documents {
		if !slices.Contains(c.Documents, d) {
			c.Documents = append(c.Documents, d)
		}
	}
	for _, d := range disk.Collections {
		if !slices.Contains(c.Collections, d) {
			c.Collections = append(c.Collections, d)
		}
	}
}

// notOpenedCopy answers when a copy is there and cannot be opened.
func (c *call) notOpenedCopy(t *target, d *control.Drift, cause error) error {
	c.noteSeal(cause)
	var bad altered
	if errors.As(cause, &bad) && bad.Altered() {
		return c.refuseChange(t, control.ChangeID{}, "BW-CHANGE-006",
			fmt.Sprintf("the copy of what was applied to %s is not what was sealed", d.MachineName), "somebody has changed the database, or the key; nothing was done")
	}
	return c.refuseKeys(t, control.ChangeID{}, keysAwayOf(cause), fmt.Sprintf("the copy of what was applied to %s cannot be opened now", d.MachineName))
}
