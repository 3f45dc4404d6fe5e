package gateway

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// Codes of a house that may be older than it was, or is in recovery.
const (
	codeRolledBack   = "BW-RECOVERY-001"
	codeOlderOpenBao = "BW-RECOVERY-002"
	codeInRecovery   = "BW-RECOVERY-003"
)

// standingReason says why nothing that changes a machine goes out now.
func standingReason(s control.Standing) policy.Reason {
	r := policy.Reason{Rule: "bronzeward/recovery", Severity: policy.SeverityDeny, Hint: "bronzeward recovery status"}
	switch s.State {
	case control.RecoveryRolledBack:
		r.Code, r.Message = codeRolledBack, s.Message+"; a recovery-admin enters recovery"
	case control.RecoveryOlderOpenBao:
		r.Code, r.Message = codeOlderOpenBao, s.Message+"; a recovery-admin brings it back, or enters recovery"
	default:
		r.Code, r.Message = codeInRecovery, "the house is in recovery; nothing is sent to a machine that changes it until that has ended"
	}
	return r
}

// inRecovery denies what would change a machine while the house may be older than it was, or is in
// recovery, whatever the law says (I18).
func inRecovery(s control.Standing, d policy.Decision) policy.Decision {
	if !s.Stops() {
		return d
	}
	d.Allow = false
	d.Reasons = append([]policy.Reason{standingReason(s)}, d.Reasons...)
	return d
}

// openInDoubt are the acts that are done although the database may be older than it was: none of them
// gives anybody anything that authority could have been taken away from meanwhile. Whatever ends in
// ".read" is among them.
var openInDoubt = []string{
	"decisions.own", "decisions.follow", "decisions.export",
	ActRecoveryEnter, ActIdentitiesRevoke, ActMachinesFreeze, ActCertificates, ActDigestsCompute,
}

// actInDoubt denies an act while the database, or OpenBao, may be older than it was.
func actInDoubt(s control.Standing, act string, d policy.Decision) policy.Decision {
	if !d.Allow || !s.Doubtful() || strings.HasSuffix(act, ".read") || slices.Contains(openInDoubt, act) {
		return d
	}
	return inRecovery(s, d)
}

// standingNow is the recovery field of /readyz, and a sentence for its warnings while there is
// something to say. It makes no replica unready: reads go on.
func standingNow(s control.Standing) (state map[string]any, warnings []string) {
	state = map[string]any{"state": control.RecoveryNone, "message": s.Message}
	if !s.Stops() {
		return state, nil
	}
	state["state"] = s.State
	if !s.Since.IsZero() {
		state["since"] = s.Since.Format(time.RFC3339)
	}
	r := standingReason(s)
	return state, []string{r.Code + ": " + r.Message}
}

// standingMetrics are 1 while the house stands so; every replica says the same within a second.
func standingMetrics(now func() control.Standing) []prometheus.Collector {
	gauge := func(o prometheus.GaugeOpts, states ...control.RecoveryState) prometheus.Collector {
		return prometheus.NewGaugeFunc(o, func() float64 {
			if slices.Contains(states, now().State) {
				return 1
			}
			return 0
		})
	}
	return []prometheus.Collector{
		gauge(prometheus.GaugeOpts{
			Name: "bronzeward_recovery_rolled_back", Help: "1 while the database, or OpenBao, is found to be older than it was.",
		}, control.RecoveryRolledBack, control.RecoveryOlderOpenBao),
		gauge(prometheus.GaugeOpts{Name: "bronzeward_recovery_entered", Help: "1 from entering a recovery to its end."}, control.RecoveryEntered),
	}
}
