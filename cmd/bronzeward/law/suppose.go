package law

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway"
	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

// supposeFlags are of an apply that nobody has made.
type supposeFlags struct {
	Proposed   string            `group:"A supposed apply" placeholder:"FILE" help:"The machine configuration that is applied; - reads standard input."`
	Current    string            `group:"A supposed apply" placeholder:"FILE" help:"What the machine runs; left out, the very same, so that nothing changes."`
	Persistent string            `group:"A supposed apply" placeholder:"FILE" help:"What is on its disk; left out, what it runs, so that nothing is staged."`
	As         string            `group:"A supposed apply" placeholder:"NAME" help:"Who applies it: the common name of their certificate, or a token's sub."`
	Group      []string          `group:"A supposed apply" help:"A group they are in; may be given again."`
	Kind       string            `group:"A supposed apply" placeholder:"KIND" completion-enum:"human,automation" help:"What they are: human or automation; human when left out."`
	Issuer     string            `group:"A supposed apply" placeholder:"URL" help:"Who says who they are, and who the approvers are."`
	Mode       string            `group:"A supposed apply" placeholder:"MODE" completion-enum:"no-reboot,auto,staged,reboot,try" help:"How it is applied, as talosctl spells it: no-reboot, auto, staged, reboot or try; no-reboot when left out."`
	DryRun     bool              `group:"A supposed apply" help:"It is a dry run."`
	Machine    string            `group:"A supposed apply" placeholder:"NAME" help:"The machine's name; worker-1 when left out."`
	Cluster    string            `group:"A supposed apply" placeholder:"NAME" help:"The machine's cluster; cluster-1 when left out."`
	Role       string            `group:"A supposed apply" placeholder:"ROLE" completion-enum:"worker,controlplane" help:"The role it is expected to have: worker or controlplane; worker when left out."`
	Label      map[string]string `group:"A supposed apply" placeholder:"KEY=VALUE" help:"A label of the machine; may be given again."`
	Talos      string            `group:"A supposed apply" placeholder:"VERSION" help:"The Talos version it runs, such as v1.13.6; the one that applies are judged for when left out."`
	Stage      string            `group:"A supposed apply" placeholder:"STAGE" help:"The stage it is in; running when left out."`
	ApprovedBy []string          `group:"A supposed apply" sep:"none" placeholder:"NAME:GROUP,…" help:"Somebody who approved this very apply, with the groups they are in; may be given again."`
	At         string            `group:"A supposed apply" placeholder:"TIME" help:"When it is judged, such as 2026-11-30T08:00:00Z; now when left out."`
}

// What is supposed where nothing is said.
const (
	supposedIssuer  = "https://issuer.example"
	supposedMachine = "worker-1"
	supposedCluster = "cluster-1"
	supposedVersion = "v" + gateway.SupportedMinor + ".0"
)

// given are the flags that were given.
func (s *supposeFlags) given() (out []string) {
	for name, given := range map[string]bool{
		"--proposed": s.Proposed != "", "--current": s.Current != "", "--persistent": s.Persistent != "", "--as": s.As != "", "--group": len(s.Group) > 0,
		"--kind": s.Kind != "", "--issuer": s.Issuer != "", "--mode": s.Mode != "", "--dry-run": s.DryRun, "--machine": s.Machine != "",
		"--cluster": s.Cluster != "", "--role": s.Role != "", "--label": len(s.Label) > 0, "--talos": s.Talos != "", "--stage": s.Stage != "",
		"--approved-by": len(s.ApprovedBy) > 0, "--at": s.At != "",
	} {
		if given {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// assumed says what was supposed because nothing was said.
func (s *supposeFlags) assumed() []string {
	var out []string
	add := func(missing bool, format string, args ...any) {
		if missing {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(s.Current == "", "the machine runs what is proposed already, so that nothing changes (--current FILE)")
	add(s.Persistent == "", "its disk has what it runs, so that nothing is staged (--persistent FILE)")
	add(s.Machine == "", "the machine is %s (--machine)", supposedMachine)
	add(s.Cluster == "", "its cluster is %s (--cluster)", supposedCluster)
	add(len(s.Label) == 0, "it has no labels (--label)")
	add(s.Talos == "", "it runs Talos %s (--talos)", supposedVersion)
	add(len(s.Group) == 0, "%s is in no group (--group)", cli.OneLine(s.As))
	add(s.Kind == "", "%s is a person (--kind)", cli.OneLine(s.As))
	add(s.Issuer == "", "the issuer is %s (--issuer)", supposedIssuer)
	add(len(s.ApprovedBy) == 0, "nobody has approved it (--approved-by)")
	return append(out,
		"the machine is pinned, answers as itself and is not held; the caller is not revoked, and their certificate is good",
		"digests and fingerprints are of a key made for this once: a gateway's are other ones")
}

// suppose gives the facts that a gateway would judge the apply on, and what it would decide by a law.
func (s *supposeFlags) suppose(ctx context.Context, g *cli.Globals, engine *policy.Engine) (*policy.Facts, policy.Decision, error) {
	var of gateway.Supposed
	var err error
	if s.Proposed == "-" && (s.Current == "-" || s.Persistent == "-") || s.Current == "-" && s.Persistent == "-" {
		return nil, policy.Decision{}, errors.New("standard input is one configuration: give the others as files")
	}
	for _, file := range []struct {
		name string
		into *[]byte
	}{{s.Proposed, &of.Proposed}, {s.Current, &of.Current}, {s.Persistent, &of.Persistent}} {
		if file.name == "" {
			continue
		}
		if *file.into, err = read(g, file.name, gateway.MaxConfiguration); err != nil {
			return nil, policy.Decision{}, err
		}
	}
	of.Now = time.Now().UTC()
	if s.At != "" {
		at, err := cli.Moment("--at", s.At)
		if err != nil {
			return nil, policy.Decision{}, err
		}
		of.Now = at.UTC()
	}
	of.Caller = identity.Caller{
		Issuer: cmp.Or(s.Issuer, supposedIssuer), Subject: s.As, Kind: identity.Kind(cmp.Or(s.Kind, string(identity.KindHuman))),
		Groups: slices.Compact(slices.Sorted(slices.Values(s.Group))), Proof: identity.ProofCertificate, ProofEnds: of.Now.Add(time.Hour),
	}
	of.Machine = control.Machine{Name: cmp.Or(s.Machine, supposedMachine), Cluster: cmp.Or(s.Cluster, supposedCluster), Role: cmp.Or(s.Role, "worker"), Labels: s.Label}
	of.Mode, of.DryRun, of.Version, of.Stage = cmp.Or(s.Mode, "no-reboot"), s.DryRun, cmp.Or(s.Talos, supposedVersion), cmp.Or(s.Stage, "running")
	if of.Approvals, err = s.approvals(of.Caller.Issuer); err != nil {
		return nil, policy.Decision{}, err
	}
	if err := s.checkWords(&of); err != nil {
		return nil, policy.Decision{}, err
	}
	return of.Facts(ctx, func(f *policy.Facts) policy.Decision { return engine.Decide(ctx, f) })
}

// checkWords refuses words that no gateway would have in its facts.
func (s *supposeFlags) checkWords(of *gateway.Supposed) error {
	switch {
	case of.Caller.Kind != identity.KindHuman && of.Caller.Kind != identity.KindAutomation:
		return fmt.Errorf("--kind %q: human or automation", s.Kind)
	case of.Machine.Role != "worker" && of.Machine.Role != "controlplane":
		return fmt.Errorf("--role %q: worker or controlplane", s.Role)
	}
	return nil
}

// approvals reads who approved: a name, and after the last colon the groups.
func (s *supposeFlags) approvals(issuer string) (out []control.Approval, err error) {
	for _, text := range s.ApprovedBy {
		at := strings.LastIndex(text, ":")
		if at <= 0 || at == len(text)-1 {
			return nil, fmt.Errorf("--approved-by %q: a name and the groups they are in, such as bob:approvers", text)
		}
		out = append(out, control.Approval{
			Approver: policy.Person{Issuer: issuer, Subject: text[:at]}, Kind: string(identity.KindHuman), Groups: strings.Split(text[at+1:], ","),
		})
	}
	return out, nil
}
