package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/facts"
	"bronzeward/gateway/identity"
)

// applyMethod is the method of every apply.
const applyMethod = "/machine.MachineService/ApplyConfiguration"

// Propose captures a change without talosctl: judged like an apply of these bytes, and never
// sent. When the very same change is live already it is that one, and created is false.
// entry is the receipt of the decision about this proposal.
func (g *Gateway) Propose(ctx context.Context, by identity.Actor, s control.Submission, once *control.Once) (_ control.Change, created bool, entry audit.Receipt, err error) {
	m, err := g.store.GetMachine(ctx, s.Machine)
	if err != nil {
		return control.Change{}, false, audit.Receipt{}, err
	}
	if s.Mode != "no-reboot" {
		return control.Change{}, false, audit.Receipt{}, fmt.Errorf("%w: mode %q: only no-reboot is forwarded", control.ErrInvalid, printable(s.Mode))
	}
	if err := g.repeated(ctx, by, once); err != nil {
		return control.Change{}, false, audit.Receipt{}, err
	}
	c, err := g.applyFrom(ctx, by, &m, s.Text, &asAct{name: ActChangesSubmit, subject: m.Name, set: s.Set, once: once})
	if err != nil {
		return control.Change{}, false, audit.Receipt{}, err
	}
	if c.change == nil || len(c.decided) == 0 {
		return control.Change{}, false, audit.Receipt{}, errors.New("the proposal was neither captured nor refused")
	}
	entry = c.decided[len(c.decided)-1]
	return *c.change, c.change.EntryID == entry.ID, entry, nil
}

// ApplyChange sends the sealed bytes of an approved change, the way every apply goes: judged,
// spent, written, sent once, read back. It returns once the attempt has its state, which is
// not always completed.
func (g *Gateway) ApplyChange(ctx context.Context, by identity.Actor, id control.ChangeID, once *control.Once) (control.Applied, error) {
	ch, err := g.store.GetChange(ctx, id)
	if err != nil {
		return control.Applied{}, err
	}
	if ch.Kind == control.KindAdopt {
		return control.Applied{}, otherKind(&ch)
	}
	m, err := g.store.GetMachine(ctx, ch.MachineName)
	if err != nil {
		return control.Applied{}, err
	}
	if err := g.repeated(ctx, by, once); err != nil {
		return control.Applied{}, err
	}
	c, err := g.applyFrom(ctx, by, &m, nil, &asAct{name: ActChangesApply, subject: id.String(), change: &ch, once: once})
	if c == nil || c.attempt == nil {
		return control.Applied{}, err
	}
	attempt, readErr := g.store.GetAttempt(ctx, c.attempt.ID)
	if readErr != nil {
		return control.Applied{}, readErr
	}
	out := control.Applied{Attempt: attempt, Receipt: c.decided[len(c.decided)-1]}
	if err != nil {
		out.Message = status.Convert(err).Message()
		return out, nil
	}
	out.Message, out.Warnings = c.stream.(*ownStream).said()
	return out, nil
}

// repeated answers a repetition with what the first came to, before a machine or a key is
// asked for anything; a revoked person's is judged like any other call.
func (g *Gateway) repeated(ctx context.Context, by identity.Actor, once *control.Once) error {
	if once == nil {
		return nil
	}
	snap, err := g.store.Refresh(ctx, 0)
	if err != nil || snap.Revoked(by.Caller.Issuer, by.Caller.Subject) {
		return err
	}
	return g.store.Replayed(ctx, once, by.Caller.Issuer, by.Caller.Subject)
}

// openOwn opens the change that is applied by its id. What was sealed must be what the
// database says was captured and approved.
func (c *call) openOwn(t *target) ([]byte, error) {
	ch := c.act.change
	text, err := c.g.openChange(c.ctx, ch)
	if err != nil {
		return nil, c.notOpened(t, ch.ID, err)
	}
	if c.adopts() && string(text) == notKept {
		return text, nil // what is adopted is what is read of the machine
	}
	switch same, err := c.g.digester.Same(text, ch.Digest); {
	case err != nil:
		return nil, c.notOpened(t, ch.ID, err)
	case !same:
		return nil, c.notSealed(t, ch.ID)
	}
	return text, nil
}

// stillLive reads the change that is applied by its id once more. It comes after the
// machine's serial was noted: whoever spends the change later moves that serial.
func (c *call) stillLive() error {
	if c.act == nil || c.act.change == nil {
		return nil
	}
	ch, err := c.g.store.GetChange(c.ctx, c.act.change.ID)
	switch {
	case err != nil:
		return c.notWritten(uuid.Nil, err)
	case ch.State.Live():
		c.act.change = &ch
		return nil
	}
	if err := c.g.repeated(c.ctx, identity.Actor{Caller: c.caller}, c.act.once); err != nil {
		return err
	}
	return control.NotLive(&ch)
}

// applyFrom carries out the way of one apply for a request of the HTTP door: of text, or of
// the sealed bytes of the act's change.
func (g *Gateway) applyFrom(ctx context.Context, by identity.Actor, m *control.Machine, text []byte, act *asAct) (_ *call, err error) {
	ctx, _, leave, err := g.sessions.enter(ctx, by.Caller, nil)
	if errors.Is(err, errStopping) {
		return nil, refusal(codes.Unavailable, audit.Receipt{}, "BW-GATEWAY-001", errStopping.Error())
	}
	if err != nil {
		return nil, refusal(codes.ResourceExhausted, audit.Receipt{}, "BW-LIMIT-002", err.Error())
	}
	defer leave()
	c := g.newOwnCall(ctx, by, act)
	defer func() { err = c.finish(err) }()
	c.targets = []target{{spelled: m.Name, machine: m}}
	if err := c.deniedAct(&c.targets[0]); err != nil {
		return c, err
	}
	if act.change != nil {
		if err := c.stillLive(); err != nil {
			return c, err // its bytes may be gone
		}
		if text, err = c.openOwn(&c.targets[0]); err != nil {
			return c, err
		}
		c.opened = act.change.ID
	}
	if c.adopts() || act.kind == control.KindRevert {
		if act.applied, err = c.openApplied(&c.targets[0]); err != nil {
			return c, err
		}
		if act.change == nil {
			text = act.applied // an adoption's is what is read of the machine
		}
	}
	c.body, err = proto.Marshal(&machine.ApplyConfigurationRequest{Data: text, Mode: machine.ApplyConfigurationRequest_NO_REBOOT})
	if err != nil {
		return c, fmt.Errorf("%w: %w", control.ErrInvalid, err)
	}
	if c.asked, err = facts.ParseCall(c.method, c.body); err != nil {
		return c, fmt.Errorf("%w: %w", control.ErrInvalid, err)
	}
	return c, c.apply()
}

// newOwnCall is a call that came through the HTTP door, its caller proven there.
func (g *Gateway) newOwnCall(ctx context.Context, by identity.Actor, act *asAct) *call {
	method, _ := facts.Lookup(applyMethod)
	return &call{
		g: g, started: time.Now(), arrived: g.store.Snapshot().Now(), stream: &ownStream{ctx: ctx}, ctx: ctx,
		name: applyMethod, method: method, caller: by.Caller, address: by.Address, act: act,
		attrs: []slog.Attr{slog.String("act", act.name)},
	}
}

// ownStream stands in for talosctl's end of a call: it keeps the answer.
type ownStream struct {
	ctx    context.Context //nolint:containedctx // grpc.ServerStream has it
	answer []byte
}

func (s *ownStream) SetHeader(metadata.MD) error  { return nil }
func (s *ownStream) SendHeader(metadata.MD) error { return nil }
func (s *ownStream) SetTrailer(metadata.MD)       {}
func (s *ownStream) Context() context.Context     { return s.ctx }
func (s *ownStream) RecvMsg(any) error            { return errNoMessage }

// SendMsg keeps the one answer of an apply.
func (s *ownStream) SendMsg(m any) error {
	if answer, ok := m.(*message); ok {
		s.answer = answer.bytes
	}
	return nil
}

// said is the answer's text and its warnings.
func (s *ownStream) said() (text string, warnings []string) {
	var answer machine.ApplyConfigurationResponse
	if err := proto.Unmarshal(s.answer, &answer); err != nil {
		return "", nil
	}
	for _, m := range answer.GetMessages() {
		text, warnings = m.GetModeDetails(), append(warnings, m.GetWarnings()...)
	}
	return text, warnings
}
