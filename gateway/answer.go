package gateway

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/gateway/upstream"
	"bronzeward/policy"
)

// answerApply answers talosctl once the attempt's new state is durable.
func (c *call) answerApply(t *target, l *look, d policy.Decision, adm control.Admission, closing control.Closing, answer upstream.Answer) error {
	a := adm.Attempt
	switch closing.To {
	case control.StateCompleted:
		if answer.Got && answer.Code == codes.OK {
			return c.sendAnswer(t, l, d, answer.Response)
		}
		return c.sendOwnAnswer(t, l, d, a)
	case control.StateRejected:
		return c.nodeRefusal(l, d, answer)
	case control.StateNotSent:
		return refusal(codes.Unavailable, adm.Receipt, "BW-ATTEMPT-003", closing.Reason, sentNothing)
	default:
		code := codes.DeadlineExceeded
		if answer.Got {
			code = codes.Aborted
		}
		return refusal(code, adm.Receipt, "BW-ATTEMPT-004",
			fmt.Sprintf("attempt %s is unresolved: %s", a.ID, closing.Reason),
			"the machine is held; it is observed, and the attempt completes if the configuration shows up",
			"bronzeward attempts show "+a.ID.String())
	}
}

// sendAnswer passes the node's answer on, with the policy's warnings added and, unless
// the caller may see secrets, its diff redacted.
func (c *call) sendAnswer(t *target, l *look, d policy.Decision, raw []byte) error {
	var answer machine.ApplyConfigurationResponse
	if err := proto.Unmarshal(raw, &answer); err != nil {
		return status.Error(codes.Internal, "the node's answer is not one this gateway can read")
	}
	return c.sendApplyAnswer(t, l, d, &answer)
}

// sendOwnAnswer stands in for a lost answer once the read-back has shown the
// configuration: a success with evidence, and it says so.
func (c *call) sendOwnAnswer(t *target, l *look, d policy.Decision, a *control.Attempt) error {
	return c.sendApplyAnswer(t, l, d, &machine.ApplyConfigurationResponse{Messages: []*machine.ApplyConfiguration{{
		Mode:        machine.ApplyConfigurationRequest_NO_REBOOT,
		ModeDetails: fmt.Sprintf("Applied configuration without a reboot (the node's answer was lost; the read-back of attempt %s shows it)", a.ID),
	}}})
}

func (c *call) sendApplyAnswer(t *target, l *look, d policy.Decision, answer *machine.ApplyConfigurationResponse) error {
	for _, m := range answer.GetMessages() {
		if d.Redact && m.GetModeDetails() != appliedDetails {
			m.ModeDetails = l.redactor.Text(m.GetModeDetails())
		}
		for i, w := range m.GetWarnings() {
			if d.Redact {
				m.Warnings[i] = l.redactor.Text(w)
			}
		}
		for _, r := range d.Warnings() {
			m.Warnings = append(m.Warnings, fmt.Sprintf("%s: %s", r.Code, oneLine(r.Message)))
		}
	}
	raw, err := proto.Marshal(answer)
	if err != nil {
		return status.Error(codes.Internal, "the node's answer cannot be encoded again")
	}
	var sent int64
	return c.send(t, raw, &sent)
}

// mostSaid is how many bytes of a node's words an outcome keeps.
const mostSaid = 2000

// appliedDetails is what Talos 1.13 says of a plain no-reboot apply: nothing to redact.
const appliedDetails = "Applied configuration without a reboot"

// answerOutcome is what the node answered, or that it did not.
func answerOutcome(l *look, answer upstream.Answer) audit.Outcome {
	o := audit.Outcome{Kind: audit.OutcomeAnswered, Code: answer.Code.String()}
	if answer.Message != "" {
		o.Message = cut(oneLine(l.redactor.Text(answer.Message)), mostSaid)
	}
	if !answer.Got {
		o.Kind = audit.OutcomeUnanswered
		if o.Message == context.DeadlineExceeded.Error() {
			o.Message = "" // the code says it
		}
	}
	return o
}

// readBackOutcome is what the machine held afterwards.
func readBackOutcome(e *upstream.Evidence, active, persistent string) audit.Outcome {
	return audit.Outcome{
		Kind: audit.OutcomeReadBack, Digest: active, Persistent: persistent,
		ActiveVersion: versionPair(e.Active), PersistentVersion: versionPair(e.Persistent),
	}
}

// versionPair is a resource's (created, version): versions start again at each boot.
func versionPair(d upstream.Document) string {
	return d.Created.UTC().Format(time.RFC3339Nano) + "/" + d.Version
}
