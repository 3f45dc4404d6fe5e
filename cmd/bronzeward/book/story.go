package book

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/policy"
)

// tell prints one decision as a story: who asked, what of which machine, what the law said, what
// became of it, and where it stands in the book.
func tell(w io.Writer, d *whole, e *audit.Entry) {
	tellDecision(w, d, e)
	tellStanding(w, d)
	tellPlace(w, d)
}

// tellDecision is the story without the place.
func tellDecision(w io.Writer, d *whole, e *audit.Entry) {
	fmt.Fprintf(w, "%s  %s  %s\n\n", headWord(e), cli.Stamp(&d.Decision.Time), d.Decision.ID)
	var f policy.Facts
	if len(e.Facts) > 0 && json.Unmarshal(e.Facts, &f) != nil {
		f = policy.Facts{}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(label, value string) {
		if value != "" {
			fmt.Fprintf(t, "%s\t%s\n", label, cli.OneLine(value))
		}
	}
	line("who", whoOf(e))
	line("groups", strings.Join(e.Caller.Groups, ", "))
	line("proven by", proof(e.Caller))
	line("from", e.ClientAddress)
	line("machine", machineText(e))
	line("asked for", asked(e, d.Decision.Resource))
	line("detail", e.Detail)
	if noticed(e) {
		line("runs", e.Digest)
	} else {
		line("configuration", e.Digest)
	}
	line("active before", e.Base)
	if e.Persistent != e.Base {
		line("on disk before", e.Persistent)
	}
	line("change", e.ChangeID)
	if e.AttemptID != uuid.Nil {
		line("attempt", e.AttemptID.String())
	}
	line("gateway", e.Instance)
	_ = t.Flush() // w is a terminal or a test's buffer
	tellChanges(w, &f)
	tellLaw(w, e)
	tellApprovals(w, e, &f)
	tellOutcomes(w, e, d.Outcomes)
}

// noticed is true for what the gateway wrote down by itself: nobody asked, and nothing was decided.
func noticed(e *audit.Entry) bool {
	return e.Kind == audit.KindSystem && e.Verdict == audit.Allowed && e.Caller.Subject == ""
}

// headWord is what an entry is, in a word.
func headWord(e *audit.Entry) string {
	if noticed(e) {
		return "NOTED"
	}
	return strings.ToUpper(verdictWord(e))
}

func verdictWord(e *audit.Entry) string {
	switch e.Verdict {
	case audit.Allowed:
		return "allowed"
	case audit.Denied:
		return "denied"
	case audit.Refused:
		return "refused"
	}
	return string(e.Verdict)
}

// whoOf is who asked, or that nobody did.
func whoOf(e *audit.Entry) string {
	if noticed(e) {
		return "nobody: the gateway noticed it itself"
	}
	return who(e.Caller)
}

func who(c audit.Caller) string {
	if c.Subject == "" {
		return "nobody was proven"
	}
	text := cli.ASCII(c.Subject) + " of " + cli.ASCII(c.Issuer)
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
	text := e.MachineName
	if e.Cluster != "" {
		text += " in " + e.Cluster
	}
	if e.NodeID != "" {
		text += ", node id " + e.NodeID
	}
	return text
}

func asked(e *audit.Entry, resource string) string {
	text := e.Method
	if resource != "" {
		text += " of " + resource
	}
	if e.Class != "" {
		text = strings.TrimSpace(text + " (" + e.Class + ")")
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

// mostShown is how many changed paths a person is shown; -o json has all.
const mostShown = 40

func tellChanges(w io.Writer, f *policy.Facts) {
	if f.Config == nil {
		return
	}
	if len(f.Config.Changes) > 0 {
		fmt.Fprintln(w, "\nwhat it would change (values that may be secret are fingerprints)")
	}
	for i, c := range f.Config.Changes {
		if i == mostShown {
			fmt.Fprintf(w, "  … and %d more: -o json\n", len(f.Config.Changes)-mostShown)
			break
		}
		fmt.Fprintf(w, "  %s %s: %s -> %s\n", cli.ASCII(c.Document), cli.ASCII(c.Path), value(c.Before), value(c.After))
	}
	for _, p := range f.Config.Problems {
		fmt.Fprintf(w, "  problem: line %d: %s\n", p.Line, cli.OneLine(p.Message))
	}
}

func value(v any) string {
	if v == nil {
		return "(none)"
	}
	return cli.OneLine(fmt.Sprint(v))
}

// tellLaw says which rules said what, under which revision, or that none was asked.
func tellLaw(w io.Writer, e *audit.Entry) {
	switch {
	case e.PolicyRevision == "" && len(e.Reasons) == 0 && len(e.Codes) == 0:
		return
	case noticed(e) && len(e.Reasons) == 0 && len(e.Codes) == 0:
		fmt.Fprintf(w, "\nno law was asked; revision %s was live, at authority version %d\n", e.PolicyRevision, e.AuthorityVersion)
		return
	case e.PolicyRevision == "":
		fmt.Fprintln(w, "\nwhy, with no law asked")
	default:
		fmt.Fprintf(w, "\nwhat the law said, revision %s", e.PolicyRevision)
		if e.OPAVersion != "" {
			fmt.Fprintf(w, ", OPA %s", e.OPAVersion)
		}
		fmt.Fprintf(w, ", at authority version %d\n", e.AuthorityVersion)
	}
	for _, r := range e.Reasons {
		fmt.Fprintf(w, "  %s %-6s %s\n", r.Code, r.Severity, cli.OneLine(r.Message))
		if r.Rule != "" {
			fmt.Fprintf(w, "      said by %s\n", cli.OneLine(r.Rule))
		}
	}
	switch {
	case len(e.Reasons) > 0:
	case len(e.Codes) > 0:
		fmt.Fprintf(w, "  %s\n", cli.OneLine(strings.Join(e.Codes, ", ")))
	default:
		fmt.Fprintln(w, "  no rule had anything to say")
	}
}

// tellApprovals says who had asked for the change and who had approved it, as the law saw them.
func tellApprovals(w io.Writer, e *audit.Entry, f *policy.Facts) {
	if e.ApprovalsNeeded > 0 {
		fmt.Fprintf(w, "\napprovals required: %d\n", e.ApprovalsNeeded)
	}
	if e.Class == "act" || f.Change == nil || e.ChangeID != f.Change.ID {
		return
	}
	if e.ApprovalsNeeded == 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "  asked for by %s\n", named(f.Change.Requester))
	for _, a := range f.Change.Approvals {
		revoked := ""
		if a.Revoked {
			revoked = ", revoked"
		}
		fmt.Fprintf(w, "  approved by %s (%s)%s\n", named(a.Approver), cli.OneLine(strings.Join(a.Groups, ", ")), revoked)
	}
}

func named(p policy.Person) string { return cli.ASCII(p.Subject) + " of " + cli.ASCII(p.Issuer) }

func tellOutcomes(w io.Writer, e *audit.Entry, list []outcome) {
	fmt.Fprintln(w, "\nwhat became of it")
	switch {
	case len(list) > 0:
	case e.Verdict != audit.Allowed:
		fmt.Fprintln(w, "  nothing: it was refused, and nothing was sent to a machine")
	case e.Kind == audit.KindSystem:
		fmt.Fprintln(w, "  no outcome of its own: what the gateway notices is written down in the transaction that says it")
	case e.Kind != audit.KindRPC && e.Class == "act":
		fmt.Fprintln(w, "  no outcome of its own: an act is written down in the transaction that does it")
	default:
		fmt.Fprintln(w, "  nothing is recorded: it still runs, or the gateway ended before it could be written")
	}
	for _, o := range list {
		fmt.Fprintf(w, "  %s  %s\n", cli.Stamp(&o.Time), cli.OneLine(sentence(o)))
	}
}

// sentence says what an outcome states.
func sentence(o outcome) string {
	switch audit.OutcomeKind(o.Kind) {
	case audit.OutcomeAnswered:
		return words("the machine answered "+o.Code, o.Message)
	case audit.OutcomeUnanswered:
		return words("no answer came ("+o.Code+")", o.Message)
	case audit.OutcomeReadBack:
		text := "the machine holds " + o.Digest
		if o.Persistent != "" && o.Persistent != o.Digest {
			text += ", and on its disk " + o.Persistent
		}
		return words(text, o.Message)
	case audit.OutcomeState:
		return words("now "+o.State, o.Message)
	case audit.OutcomeAccounted:
		by := ""
		if o.Subject != "" {
			by = " by " + cli.ASCII(o.Subject)
		}
		return words("accounted for"+by+judgedAs(o), o.Message)
	case audit.OutcomeLate:
		return words("seen later: the machine holds "+o.Digest, o.Message)
	}
	return words(o.Kind, o.State, o.Code, o.Message, o.Digest)
}

// judgedAs is what a person judged, and what was seen where that contradicts it; of an accounting
// from before it was noted nothing.
func judgedAs(o outcome) string {
	switch {
	case o.Code == audit.JudgedNotLanded:
		return " as not landed"
	case o.Code == audit.JudgedLanded && o.State == "failed":
		return " as landed, though the machine holds what it held before"
	case o.Code == audit.JudgedLanded:
		return " as landed"
	}
	return ""
}

// tellStanding says how the change stands now, where that is told.
func tellStanding(w io.Writer, d *whole) {
	if d.Change == nil {
		return
	}
	fmt.Fprintf(w, "\nhow it stands now\n  the change is %s, asked for by %s\n", d.Change.State, named(policy.Person(d.Change.Requester)))
	for _, a := range d.Change.Approvals {
		fmt.Fprintf(w, "  approved by %s, %s\n", named(policy.Person(a.Approver)), cli.Stamp(&a.At))
	}
}

func tellPlace(w io.Writer, d *whole) {
	fmt.Fprintf(w, "\nin the book\n  leaf %s\n", d.Leaf)
	switch p := d.Place; {
	case !d.looked:
		fmt.Fprintf(w, "  its place, and the proof of it: bronzeward decisions prove %s\n", d.Decision.ID)
	case p == nil:
		fmt.Fprintln(w, "  not in the tree yet: that takes about a second")
	case p.Checkpoint == nil:
		fmt.Fprintf(w, "  row %d of tree %d, not under a signed checkpoint yet\n", p.Index, p.Tree)
	default:
		fmt.Fprintf(w, "  row %d of tree %d, under the checkpoint of %d rows, signed %s\n", p.Index, p.Tree, p.Checkpoint.Size, cli.Stamp(&p.Checkpoint.SignedAt))
	}
}
