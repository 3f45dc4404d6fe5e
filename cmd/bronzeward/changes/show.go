package changes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

type changesShowCmd struct {
	clientFlags
	ID  string `arg:"" optional:"" help:"Change id, chg_…"`
	Set string `placeholder:"NAME" help:"Show every live change of this set, its digest, and how it is approved."`

	requesterFlags
}

func (s *changesShowCmd) Run(ctx context.Context, g *cli.Globals) error {
	if (s.ID == "") == (s.Set == "") {
		return cli.Usage(errors.New("name one change by its id, or a set with --set"))
	}
	if err := s.checkRequester(s.Set); err != nil {
		return err
	}
	a, err := s.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	if s.Set != "" {
		return a.showSet(ctx, s.Set, s.requesterFlags)
	}
	whole, now, err := a.wholeChange(ctx, s.ID)
	if err != nil {
		return err
	}
	if g.Output != "table" {
		return g.Print(whole, nil, nil)
	}
	showChange(g.Out, &whole, now, a.holdsOn(ctx, &whole.Change))
	return nil
}

// wholeChange is a change as the API gives it, with its diff beside.
type wholeChange struct {
	api.Change
	Diff api.ChangeDiff `json:"diff"`
}

// wholeChange reads a change and its diff, and the gateway's time.
func (a *apiClient) wholeChange(ctx context.Context, id string) (wholeChange, time.Time, error) {
	var w wholeChange
	var said ask.Answer
	var err error
	if w.Change, said, err = ask.Received[api.Change](a.GetChange(ctx, id, nil)); err != nil {
		return w, said.Now, err
	}
	w.Diff, _, err = ask.Received[api.ChangeDiff](a.GetChangeDiff(ctx, id))
	if err == nil && w.Diff.Digest != w.Digest {
		err = fmt.Errorf("change %s and its difference name two digests; what would be changed is not shown, and not approved", id)
	}
	return w, said.Now, err
}

// showChange prints a change for a person, and what can be done with it.
func showChange(w io.Writer, c *wholeChange, now time.Time, holds []api.Hold) {
	describeChange(w, c, now, holds)
	showNext(w, nextOf(&c.Change, holds))
}

// describeChange prints a change for a person, and what holds its machine.
func describeChange(w io.Writer, c *wholeChange, now time.Time, holds []api.Hold) {
	held := stopping(&c.Change, holds)
	fmt.Fprintf(w, "%s\n\n", headline(&c.Change, len(held) > 0))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(label, value string) {
		if value != "" {
			fmt.Fprintf(t, "%s\t%s\n", label, cli.OneLine(value))
		}
	}
	line("machine", c.Machine+" in "+c.Cluster)
	for _, h := range held {
		line("held by", ask.Hold(h))
	}
	line("asked by", ask.Person(c.Requester))
	line("asked", fmt.Sprintf("%s (%s ago)", cli.Stamp(&c.CreatedAt), cli.Span(max(0, now.Sub(c.CreatedAt)))))
	line("mode", modeOf(&c.Change))
	if c.Kind != api.Apply {
		line("kind", kindText(&c.Change))
		line("drift", c.DriftID)
		line("why", c.Why)
	}
	line("digest", c.Digest)
	line("base", c.Base.Active)
	if c.Base.Persistent != c.Base.Active {
		line("base on disk", c.Base.Persistent)
	}
	line("set", cli.ASCII(c.Set))
	line("good until", clock(&c.Change, now))
	line("approvals", needed(&c.Change))
	if c.Warnings != nil {
		for _, f := range *c.Warnings {
			line("warning", f.Code+" "+f.Message)
		}
	}
	line("bytes", sealedText(&c.Change))
	line("attempt", c.AttemptID)
	line("decision", c.DecisionID)
	_ = t.Flush() // w is a terminal or a test's buffer
	if len(c.Approvals) > 0 {
		fmt.Fprintln(w, "\napproved by")
	}
	for i := range c.Approvals {
		fmt.Fprintf(w, "  %s  %s\n", c.Approvals[i].ID, cli.OneLine(approval(&c.Approvals[i])))
	}
	showDiff(w, &c.Diff, wouldOf(&c.Change))
}

// kindText says what a change of a drift does.
func kindText(c *api.Change) string {
	switch c.Kind {
	case api.Adopt:
		return "adopt: what the machine runs is taken as applied, and nothing is sent"
	case api.Revert:
		return "revert: back to what was applied before the drift"
	}
	return string(c.Kind)
}

// headline says where a change stands; held is true while something else comes first.
func headline(c *api.Change, held bool) string {
	switch c.State {
	case api.ChangeStateWaiting:
		n := max(0, c.ApprovalsNeeded.Required-c.ApprovalsCounting)
		text := fmt.Sprintf("change %s waits for %s", c.ID, cli.Plural(n, "more approval"))
		if len(c.ApprovalsNeeded.Groups) > 0 {
			text += " from " + cli.ASCII(strings.Join(c.ApprovalsNeeded.Groups, " or "))
		}
		return text
	case api.ChangeStateApproved:
		if held {
			return fmt.Sprintf("change %s is approved, and its machine is held: it cannot be %s now", c.ID, doneTo(c))
		}
		return fmt.Sprintf("change %s is approved and can be %s once", c.ID, doneTo(c))
	}
	return ended(c)
}

// doneTo is what is done with an approved change.
func doneTo(c *api.Change) string {
	if c.Kind == api.Adopt {
		return "adopted"
	}
	return "applied"
}

func clock(c *api.Change, now time.Time) string {
	end := until(c)
	if end == nil {
		return ""
	}
	what := "approved"
	if c.State == api.ChangeStateApproved {
		what = doneTo(c)
	}
	left := goodFor(c, now)
	if left != "over" {
		left = "for " + left
	}
	return fmt.Sprintf("%s, to be %s (%s)", cli.Stamp(end), what, left)
}

func needed(c *api.Change) string {
	text := fmt.Sprintf("%d of %d", c.ApprovalsCounting, c.ApprovalsNeeded.Required)
	if len(c.ApprovalsNeeded.Groups) > 0 {
		text += " from " + cli.ASCII(strings.Join(c.ApprovalsNeeded.Groups, " or "))
	}
	if c.ApprovalsNeeded.SelfApproval {
		text += "; one's own counts"
	}
	return text
}

// approval is one line about one person's approval, with what a reader should know.
func approval(v *api.Approval) string {
	text := fmt.Sprintf("%s, %s", ask.Person(v.Approver), cli.Stamp(&v.At))
	if v.Revoked {
		text += "; revoked"
		if v.RevokedReason != "" {
			text += ": " + v.RevokedReason
		}
	}
	for _, self := range v.Self {
		text += "; own change, as its " + self
	}
	for _, note := range v.Notes {
		text += "; " + note
	}
	return text
}

func sealedText(c *api.Change) string {
	if !c.Sealed {
		return fmt.Sprintf("%d, no longer kept", c.Size)
	}
	return fmt.Sprintf("%d, sealed", c.Size)
}

// nextOf is what can be done with a change, ready to be copied.
func nextOf(c *api.Change, holds []api.Hold) []string {
	switch c.State {
	case api.ChangeStateWaiting:
		steps := []string{
			fmt.Sprintf("bronzeward changes approve %s --digest %s", c.ID, c.Digest),
			fmt.Sprintf("bronzeward changes reject %s --reason TEXT", c.ID),
		}
		if c.Set != "" {
			steps = append(steps, "bronzeward changes show --set "+cli.ShellWord(c.Set))
		}
		return steps
	case api.ChangeStateApproved:
		if len(stopping(c, holds)) > 0 {
			return []string{"bronzeward machines show " + cli.ShellWord(c.Machine) + "   # until nothing holds it", "bronzeward changes apply " + c.ID}
		}
		steps := []string{"bronzeward changes apply " + c.ID}
		if c.Set != "" {
			steps = append(steps, "bronzeward changes apply "+setPart{set: c.Set, requester: c.Requester}.flags())
		}
		return steps
	case api.ChangeStateSpent:
		if c.AttemptID == "" {
			return []string{"bronzeward drift show " + c.DriftID}
		}
		return []string{"bronzeward attempts show " + c.AttemptID}
	}
	return again(c, holds)
}

func showNext(w io.Writer, steps []string) {
	fmt.Fprintln(w, "\nnext")
	for _, s := range steps {
		fmt.Fprintf(w, "  %s\n", s)
	}
}
