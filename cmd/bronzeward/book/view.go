package book

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/policy"
)

// decisionView is a decision as commands list it.
type decisionView struct {
	ID         string    `json:"id"`
	Time       time.Time `json:"time"`
	Kind       string    `json:"kind"`
	Verdict    string    `json:"verdict"`
	Codes      []string  `json:"codes"`
	Issuer     string    `json:"issuer"`
	Subject    string    `json:"subject"`
	Client     string    `json:"client_address"`
	Machine    string    `json:"machine"`
	Cluster    string    `json:"cluster"`
	Method     string    `json:"method"`
	Class      string    `json:"class"`
	Mode       string    `json:"mode"`
	DryRun     bool      `json:"dry_run"`
	Digest     string    `json:"digest"`
	Base       string    `json:"base_digest"`
	Persistent string    `json:"persistent_digest"`
	Change     string    `json:"change"`
	Attempt    string    `json:"attempt"`
	Revision   string    `json:"policy_revision"`
	Count      int64     `json:"count"`
	Outcome    string    `json:"outcome"`
}

func viewDecision(r *audit.Row) decisionView {
	v := decisionView{
		ID: r.ID.String(), Time: r.RecordedAt, Kind: string(r.Kind), Verdict: string(r.Verdict), Codes: r.Codes,
		Issuer: r.Issuer, Subject: r.Subject, Client: r.ClientAddress, Machine: r.MachineName, Cluster: r.Cluster,
		Method: r.Method, Class: r.Class, Mode: r.Mode, DryRun: r.DryRun, Digest: r.Digest, Base: r.Base, Persistent: r.Persistent,
		Change: r.ChangeID, Revision: r.PolicyRevision, Count: r.Count,
	}
	if v.Codes == nil {
		v.Codes = []string{} // a list in JSON, so that a script can walk it
	}
	if r.AttemptID != [16]byte{} {
		v.Attempt = r.AttemptID.String()
	}
	if r.Last != nil {
		v.Outcome = outcomeWord(r.Last)
	}
	return v
}

// outcomeWord is the last outcome in one word: the attempt's state, or the node's code.
func outcomeWord(o *audit.OutcomeRow) string {
	if o.State != "" {
		return o.State
	}
	return o.Code
}

type outcomeView struct {
	Time       time.Time `json:"time"`
	Kind       string    `json:"kind"`
	State      string    `json:"state"`
	Code       string    `json:"code"`
	Message    string    `json:"message"`
	Digest     string    `json:"digest"`
	Persistent string    `json:"persistent_digest"`
	Subject    string    `json:"subject"`
	Instance   string    `json:"instance"`
}

func viewOutcomes(rows []audit.OutcomeRow) []outcomeView {
	out := make([]outcomeView, 0, len(rows))
	for _, r := range rows {
		v := outcomeView{
			Time: r.RecordedAt, Kind: string(r.Kind), State: r.State, Code: r.Code, Digest: r.Digest, Persistent: r.Persistent,
			Subject: r.Subject, Instance: r.Instance,
		}
		if o, err := audit.ParseOutcome(r.Record); err == nil {
			v.Message = o.Message
		}
		out = append(out, v)
	}
	return out
}

// showDecision prints one decision for a person.
func showDecision(w io.Writer, r *audit.Row, e *audit.Entry) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(label string, value string) {
		if value != "" {
			fmt.Fprintf(t, "%s\t%s\n", label, value)
		}
	}
	line("decision", r.ID.String())
	line("verdict", string(e.Verdict))
	line("time", cli.Stamp(&r.RecordedAt))
	line("who", who(e.Caller))
	line("groups", strings.Join(e.Caller.Groups, ", "))
	line("proof", proof(e.Caller))
	line("from", e.ClientAddress)
	line("machine", machineText(e))
	line("asked", asked(e))
	line("digest after", e.Digest)
	line("digest before", e.Base)
	if e.Persistent != e.Base {
		line("on disk before", e.Persistent)
	}
	line("change", e.ChangeID)
	if e.AttemptID != [16]byte{} {
		line("attempt", e.AttemptID.String())
	}
	line("detail", e.Detail)
	line("policy", e.PolicyRevision)
	line("engine", engine(e.OPAVersion))
	line("approvals required", fmt.Sprint(e.ApprovalsNeeded))
	line("authority version", fmt.Sprint(e.AuthorityVersion))
	line("gateway", e.Instance)
	line("leaf", fmt.Sprintf("%x", r.Leaf))
	_ = t.Flush() // w is a terminal or a test's buffer
	showApprovals(w, e)
	showReasons(w, e.Reasons)
	showChanges(w, e.Facts)
	showOutcomes(w, e, r.Outcomes)
}

func engine(opa string) string {
	if opa == "" {
		return ""
	}
	return "OPA " + opa
}

func who(c audit.Caller) string {
	if c.Subject == "" {
		return "nobody was proven"
	}
	text := c.Subject + " of " + c.Issuer
	if c.Name != "" && c.Name != c.Subject {
		text = c.Name + ", " + text
	}
	if c.Kind != "" && c.Kind != "human" {
		text += " (" + c.Kind + ")"
	}
	return text
}

func proof(c audit.Caller) string {
	var parts []string
	if strings.Contains(c.Proof, "certificate") {
		parts = append(parts, strings.TrimSpace("certificate "+c.CertificateSerial))
	}
	if strings.Contains(c.Proof, "token") {
		parts = append(parts, strings.TrimSpace("token "+c.TokenID))
	}
	return strings.Join(parts, " and ")
}

func machineText(e *audit.Entry) string {
	if e.MachineName == "" {
		return ""
	}
	text := e.MachineName + " in " + e.Cluster
	if e.NodeID != "" {
		text += ", node id " + e.NodeID
	}
	return text
}

func asked(e *audit.Entry) string {
	text := e.Method
	if e.Class != "" {
		text += " (" + e.Class + ")"
	}
	if e.Mode != "" {
		text += ", mode " + e.Mode
	}
	if e.DryRun {
		text += ", dry run"
	}
	if e.Count > 1 {
		text += fmt.Sprintf(", %d times", e.Count)
	}
	return text
}

func showReasons(w io.Writer, reasons []policy.Reason) {
	if len(reasons) == 0 {
		return
	}
	fmt.Fprintln(w, "\nreasons")
	for _, r := range reasons {
		fmt.Fprintf(w, "  %s %-6s %s\n         said by %s\n", r.Code, r.Severity, r.Message, r.Rule)
	}
}

// showApprovals prints who had asked for the change and who had approved it, as the law saw
// them.
func showApprovals(w io.Writer, e *audit.Entry) {
	var f policy.Facts
	if e.Class == "act" || len(e.Facts) == 0 || json.Unmarshal(e.Facts, &f) != nil || f.Change == nil || e.ChangeID != f.Change.ID {
		return
	}
	fmt.Fprintf(w, "\nasked for by %s of %s\n", f.Change.Requester.Subject, f.Change.Requester.Issuer)
	for _, a := range f.Change.Approvals {
		revoked := ""
		if a.Revoked {
			revoked = ", revoked"
		}
		fmt.Fprintf(w, "approved by %s of %s (%s)%s\n", a.Approver.Subject, a.Approver.Issuer, strings.Join(a.Groups, ", "), revoked)
	}
}

// mostShown is how many changed paths a person is shown; -o json has all.
const mostShown = 40

func showChanges(w io.Writer, facts []byte) {
	var f policy.Facts
	if len(facts) == 0 || json.Unmarshal(facts, &f) != nil || f.Config == nil {
		return
	}
	if len(f.Config.Changes) > 0 {
		fmt.Fprintln(w, "\nwould change (values that may be secret are fingerprints)")
	}
	for i, c := range f.Config.Changes {
		if i == mostShown {
			fmt.Fprintf(w, "  … and %d more: -o json\n", len(f.Config.Changes)-mostShown)
			break
		}
		fmt.Fprintf(w, "  %s %s: %s -> %s\n", c.Document, c.Path, value(c.Before), value(c.After))
	}
	for _, p := range f.Config.Problems {
		fmt.Fprintf(w, "  problem: line %d: %s\n", p.Line, p.Message)
	}
}

func value(v any) string {
	if v == nil {
		return "(none)"
	}
	return fmt.Sprint(v)
}

func showOutcomes(w io.Writer, e *audit.Entry, rows []audit.OutcomeRow) {
	fmt.Fprintln(w, "\nwhat became of it")
	switch {
	case len(rows) > 0:
	case e.Verdict != audit.Allowed:
		fmt.Fprintln(w, "  nothing: it was refused, and nothing was sent to a machine")
	case e.Kind != audit.KindRPC && e.Class == "act":
		fmt.Fprintln(w, "  no outcome of its own: an act is written down in the transaction that does it")
	default:
		fmt.Fprintln(w, "  nothing is recorded: it still runs, or the gateway ended before it could be written")
	}
	for _, o := range viewOutcomes(rows) {
		text := o.Kind
		for _, part := range []string{o.State, o.Code, o.Message, o.Digest} {
			if part != "" {
				text += "  " + part
			}
		}
		fmt.Fprintf(w, "  %s  %s\n", cli.Stamp(&o.Time), text)
	}
}
