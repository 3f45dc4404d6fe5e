package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"bronzeward/gateway/control"
	"bronzeward/gateway/facts"
	"bronzeward/gateway/identity"
	"bronzeward/gateway/upstream"
	"bronzeward/policy"
)

// SupportedMinor is the Talos minor that applies are judged for, "1.13".
const SupportedMinor = facts.SupportedMinor

// MaxConfiguration is the largest configuration text in bytes that an apply can carry: the message
// around it has some bytes of its own.
const MaxConfiguration = facts.MaxMessage - 64

// talosctlRollback is the rollback time that talosctl sends with every apply, whatever its mode.
const talosctlRollback = time.Minute

// Supposed is an apply that nobody has made: talosctl's, of a configuration, by somebody, to a machine
// that is pinned, answers and is not held. No machine is asked and nothing is written.
type Supposed struct {
	// Proposed is the configuration that is asked for. Required.
	Proposed []byte
	// Current is what the machine runs, and Persistent what is on its disk; null is the same as
	// Proposed, and the same as Current.
	Current, Persistent []byte
	// Mode is as talosctl spells it; talosctl leaves "reboot" out of its request.
	Mode   string
	DryRun bool
	Caller identity.Caller
	// Cluster is the `context` talosctl sends: the cluster of its talosconfig; may be empty.
	Cluster string
	// Machine has a Name, Cluster, Role and Labels; the rest is supposed.
	Machine control.Machine
	// Version is the Talos version the machine runs, "v1.13.6", and Stage its stage, "running".
	Version, Stage string
	// Approvals have an Approver, Kind and Groups, and are supposed to be of this very apply, which is
	// then a change that the caller asked for.
	Approvals []control.Approval
	// Now is the database's clock.
	Now time.Time
	// Digester makes digests and fingerprints; null takes a random key for this time alone, so that
	// nobody can test guesses of a value by what is printed, and a gateway's are other ones.
	Digester facts.Digester
}

// Facts are what a gateway would judge the apply on for good, by the functions that it judges by
// itself, and d is what it would decide. decide is the judge; it may be asked several times. Errors
// say what of the supposition cannot be, and hold no value of a configuration.
func (s *Supposed) Facts(ctx context.Context, decide func(*policy.Facts) policy.Decision) (f *policy.Facts, d policy.Decision, err error) {
	active, persistent, err := s.texts()
	if err != nil {
		return nil, d, err
	}
	e := upstream.Evidence{
		Stage: s.Stage, NodeID: "supposed", ClusterID: "supposed",
		Active: upstream.Document{Text: active}, Persistent: upstream.Document{Text: persistent},
	}
	if e.Version, e.Minor, err = upstream.ReadVersion(s.Version); err != nil {
		return nil, d, fmt.Errorf("the version %q of Talos: %w", s.Version, err)
	}
	if e.Type, err = facts.MachineType(ctx, active); err != nil && s.Current == nil {
		return nil, d, fmt.Errorf("the proposed configuration cannot be read, nor held against what a machine runs: %w", err)
	} else if err != nil {
		return nil, d, fmt.Errorf("what the machine runs cannot be read: %w", err)
	}
	asked, err := s.request()
	if err != nil {
		return nil, d, err
	}
	digester := s.Digester
	if digester == nil {
		key := make([]byte, 32)
		rand.Read(key) // never fails: crypto/rand ends the process instead
		if digester, err = facts.NewKeyRing("k1", map[string][]byte{"k1": key}); err != nil {
			return nil, d, err
		}
	}
	m := s.Machine
	m.Identity, m.PinnedAt = identityOf(e), &s.Now
	f = callFacts(asked.Call, s.Caller, "final", s.Now)
	f.Call.Targets, f.Call.Cluster = 1, facts.Word(s.Cluster)
	f.Machine, f.Evidence = machineFacts(&m), evidenceFacts(e, &m)
	f.Config = facts.ReadConfig(ctx, asked.Apply.Data, active, persistent, digester)

	epoch := uuid.UUID{1}
	match := s.change(f.Config.Digest, epoch)
	if match != nil {
		// How many approvals are asked for, the law says only of a change that it sees.
		f.Change = changeFacts(match, personOf(s.Caller), epoch)
		quorum := decide(f).Approvals
		if len(match.Counting(quorum, personOf(s.Caller), epoch)) >= quorum.Required {
			match.State = control.ChangeApproved
		}
	}
	d = judgeApply(f, match, pendingChange(newChangeID(), control.KindApply, control.DriftID{}, personOf(s.Caller)), personOf(s.Caller), epoch, decide)
	return f, d, nil
}

// texts are what the machine runs and what is on its disk.
func (s *Supposed) texts() (active, persistent []byte, err error) {
	active, persistent = s.Current, s.Persistent
	if active == nil {
		active = s.Proposed
	}
	if persistent == nil {
		persistent = active
	}
	switch {
	case len(s.Proposed) == 0:
		return nil, nil, errors.New("no configuration is proposed")
	case len(s.Proposed) > MaxConfiguration || len(active) > MaxConfiguration || len(persistent) > MaxConfiguration:
		return nil, nil, fmt.Errorf("a configuration has more than %d bytes: no apply can carry it", MaxConfiguration)
	}
	return active, persistent, nil
}

// request is talosctl's request, read as a gateway reads it.
func (s *Supposed) request() (facts.Parsed, error) {
	mode, known := machine.ApplyConfigurationRequest_Mode_value[strings.ToUpper(strings.ReplaceAll(s.Mode, "-", "_"))]
	if !known {
		return facts.Parsed{}, fmt.Errorf("talosctl has no mode %q", s.Mode)
	}
	body, err := proto.Marshal(&machine.ApplyConfigurationRequest{
		Data: s.Proposed, Mode: machine.ApplyConfigurationRequest_Mode(mode), DryRun: s.DryRun, TryModeTimeout: durationpb.New(talosctlRollback),
	})
	if err != nil {
		return facts.Parsed{}, fmt.Errorf("making the request: %w", err)
	}
	method, _ := facts.Lookup(applyMethod)
	return facts.ParseCall(method, body)
}

// change is the change that the approvals are of; null without approvals.
func (s *Supposed) change(digest string, epoch uuid.UUID) *control.Change {
	if len(s.Approvals) == 0 {
		return nil
	}
	c := &control.Change{
		ID: newChangeID(), State: control.ChangeWaiting, Requester: personOf(s.Caller),
		Binding: control.Binding{Kind: control.KindApply, Mode: s.Mode, Digest: digest, Epoch: epoch},
	}
	for _, a := range s.Approvals {
		a.Digest, a.Epoch = digest, epoch
		c.Approvals = append(c.Approvals, a)
	}
	return c
}
