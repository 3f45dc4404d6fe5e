package law

import (
	"context"
	"fmt"
	"time"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/policy"
)

type policyStatusCmd struct{ WayFlags }

// lawStatus is what `policy status` prints.
type lawStatus struct {
	LiveRevision    string           `json:"live_revision"`
	Counter         int64            `json:"counter"`
	Activated       *activatedStatus `json:"activated"` // null when it is not recorded
	Signed          *signedStatus    `json:"signed"`    // null when the law is saved without a signature
	ShippedRevision string           `json:"shipped_revision"`
	OPA             string           `json:"opa"`
	// ReplicasAgree is yes, no or unknown.
	ReplicasAgree string          `json:"replicas_agree"`
	Replicas      []replicaStatus `json:"replicas"`
}

type activatedStatus struct {
	By       string    `json:"by"` // empty for a watched directory
	Issuer   string    `json:"issuer"`
	At       time.Time `json:"at"`
	Way      string    `json:"way"`
	Decision string    `json:"decision"`
}

type signedStatus struct {
	Key     string `json:"key"` // empty when no key was pinned as it came
	Counter int64  `json:"counter"`
}

type replicaStatus struct {
	Instance       string     `json:"instance"`
	Process        string     `json:"process"`
	LoadedRevision string     `json:"loaded_revision"`
	Counter        int64      `json:"counter"`
	LoadedAt       *time.Time `json:"loaded_at"`
	WantedRevision string     `json:"wanted_revision"`
	FailedWhy      string     `json:"failed_why"`
	Version        string     `json:"version"`
	StartedAt      time.Time  `json:"started_at"`
	HeardAt        time.Time  `json:"heard_at"`
	SilentSeconds  int64      `json:"silent_seconds"`
	// State is current, lagging or silent.
	State string `json:"state"`
}

func (p *policyStatusCmd) Run(ctx context.Context, g *cli.Globals) error {
	s, err := p.status(ctx, g)
	if err != nil {
		return err
	}
	return showStatus(g, s)
}

func (p *policyStatusCmd) status(ctx context.Context, g *cli.Globals) (lawStatus, error) {
	if asks, err := p.asks(); err != nil || asks {
		if err != nil {
			return lawStatus{}, err
		}
		client, err := p.Open(g)
		if err != nil {
			return lawStatus{}, err
		}
		defer client.Close()
		status, _, err := ask.Received[api.PolicyStatus](client.GetPolicyStatus(ctx))
		return statusAt(&status), err
	}
	store, done, err := openStore(ctx, g)
	if err != nil {
		return lawStatus{}, err
	}
	defer done()
	live, err := store.LiveLaw(ctx)
	if err != nil {
		return lawStatus{}, err
	}
	shipped, err := policy.Shipped()
	if err != nil {
		return lawStatus{}, err
	}
	return statusOf(live, shipped.Revision()), nil
}

// statusAt is what a gateway says, whose program has the shipped law and the engine that it names.
func statusAt(a *api.PolicyStatus) lawStatus {
	s := lawStatus{
		LiveRevision: a.LiveRevision, Counter: a.Counter, ShippedRevision: a.ShippedRevision, OPA: a.Opa,
		ReplicasAgree: string(a.ReplicasAgree), Replicas: []replicaStatus{},
	}
	if one := a.Activated; one != nil {
		s.Activated = &activatedStatus{At: one.At, Way: string(one.Way), Decision: one.DecisionID}
		if one.By != nil {
			s.Activated.By, s.Activated.Issuer = one.By.Subject, one.By.Issuer
		}
	}
	if a.Signed != nil {
		s.Signed = &signedStatus{Key: a.Signed.Key, Counter: a.Signed.Counter}
	}
	for _, r := range a.Replicas {
		s.Replicas = append(s.Replicas, replicaStatus{
			Instance: r.Instance, Process: r.Process, LoadedRevision: r.LoadedRevision, Counter: r.Counter, LoadedAt: r.LoadedAt, WantedRevision: r.WantedRevision,
			FailedWhy: r.FailedWhy, Version: r.Version, StartedAt: r.StartedAt, HeardAt: r.HeardAt, SilentSeconds: r.SilentSeconds, State: string(r.State),
		})
	}
	return s
}

func statusOf(live control.LiveLaw, shipped string) lawStatus {
	s := lawStatus{
		LiveRevision: live.Live, Counter: live.Counter, ShippedRevision: shipped, OPA: policy.OPAVersion(),
		ReplicasAgree: live.Agree(), Replicas: []replicaStatus{},
	}
	if a := live.Activation; a != nil {
		s.Activated = &activatedStatus{By: a.Subject, Issuer: a.Issuer, At: a.At.UTC(), Way: a.Way, Decision: a.EntryID.String()}
	}
	if live.Proof != nil {
		s.Signed = &signedStatus{Key: live.Proof.KeyID, Counter: live.Proof.Counter}
	}
	for _, r := range live.List {
		s.Replicas = append(s.Replicas, replicaStatus{
			Instance: r.Instance, Process: r.Process.String(), LoadedRevision: r.Loaded, Counter: r.Counter, LoadedAt: r.LoadedAt, WantedRevision: r.Wanted,
			FailedWhy: r.FailedWhy, Version: r.Version, StartedAt: r.StartedAt, HeardAt: r.HeardAt, SilentSeconds: int64(r.Silent.Seconds()), State: live.StateOf(r),
		})
	}
	return s
}

func showStatus(g *cli.Globals, s lawStatus) error {
	err := g.Print(s, []string{"FIELD", "VALUE"}, func(row func(...string)) {
		row("live revision", s.LiveRevision)
		row("activations", fmt.Sprint(s.Counter))
		if a := s.Activated; a != nil {
			row("made live by", cli.ASCII(a.By))
			row("made live at", a.At.Format(time.RFC3339))
			row("made live in", "decision "+a.Decision)
		}
		row("signed", s.Signed.words())
		row("shipped with this binary", s.ShippedRevision)
		row("opa", s.OPA)
		row("replicas agree", s.ReplicasAgree)
	})
	if err != nil || g.Output != "table" || len(s.Replicas) == 0 {
		return err
	}
	fmt.Fprintln(g.Out)
	return g.Table([]string{"REPLICA", "LOADED", "STATE", "HEARD", "VERSION", "WHY"}, func(row func(...string)) {
		for _, r := range s.Replicas {
			heard := cli.Span(time.Duration(r.SilentSeconds)*time.Second) + " ago"
			if r.State == "silent" {
				heard = "last heard " + heard
			}
			row(cli.ASCII(r.Instance), fmt.Sprintf("%.12s", r.LoadedRevision), r.State, heard, cli.ASCII(r.Version), cli.ASCII(r.FailedWhy))
		}
	})
}

func (s *signedStatus) words() string {
	switch {
	case s == nil:
		return "no"
	case s.Key == "":
		return fmt.Sprintf("with counter %d; no key was pinned when it came", s.Counter)
	}
	return fmt.Sprintf("by the key %s, with counter %d", cli.ASCII(s.Key), s.Counter)
}
