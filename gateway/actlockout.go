package gateway

import (
	"context"
	"fmt"
	"strings"
	"time"

	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// ErrLockOut means that a law would shut out whoever brings it, and was not made live.
var ErrLockOut = control.Worded(control.ErrConflict, "this law locks out whoever brings it")

// mayActivateAgain refuses a law under which whoever brings it could not bring another, alone or with
// as many others as it asks for: it would lock everybody out of the law.
func (a *Acts) mayActivateAgain(ctx context.Context, by Actor, b *policy.Bundle) error {
	draft := policy.New(policy.EngineConfig{})
	if err := draft.Use(ctx, b); err != nil {
		return err
	}
	now := a.Store.Snapshot().Now()
	d := draft.DecideAct(ctx, &policy.Act{
		Version: policy.FactsVersion, Act: ActPolicyActivate, Caller: actorFacts(by), Subject: b.Revision(), Now: now,
	})
	if !d.Allow {
		return fmt.Errorf("%w: %s, in %s, could not activate another one (%s); give one of these groups the role policy-admin in role_bindings. The live law stays",
			ErrLockOut, by.Caller.Subject, strings.Join(by.Caller.Groups, ", "), strings.Join(d.Codes(), ", "))
	}
	if d.Approvals.Required == 0 {
		return nil
	}
	seen, err := a.Store.SeenPeople(ctx)
	if err != nil {
		return err
	}
	able := map[policy.Person]bool{}
	for _, p := range seen {
		if p.Person == personOf(by.Caller) {
			continue
		}
		may := draft.DecideAct(ctx, &policy.Act{
			Version: policy.FactsVersion, Act: ActPolicyApprove, Subject: b.Revision(), Now: now, Caller: policy.Caller{
				Issuer: p.Issuer, Subject: p.Subject, Kind: p.Kind, Groups: p.Groups, Proof: "token", ProofEnds: now.Add(time.Hour),
			},
		})
		if may.Allow {
			able[p.Person] = true
		}
		if len(able) >= d.Approvals.Required {
			return nil
		}
	}
	return fmt.Errorf("%w: it asks for the agreement of %d besides whoever activates (policy_approvals), and only %d other people are known here who could give it; "+
		"have them agree to this one (bronzeward policy save DIR, then bronzeward policy approve %.12s), or lower policy_approvals. The live law stays",
		ErrLockOut, d.Approvals.Required, len(able), b.Revision())
}
