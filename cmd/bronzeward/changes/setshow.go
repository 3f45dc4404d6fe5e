package changes

import (
	"context"
	"fmt"
	"slices"
	"time"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// shownSet is what one requester has live in a set, whole, with the digest that approves it.
type shownSet struct {
	Set       string        `json:"set"`
	Requester api.Person    `json:"requester"`
	Digest    string        `json:"digest"`
	Changes   []wholeChange `json:"changes"`
}

// showSet shows every live change of a set whole, requester by requester, and after each how
// exactly these are approved.
func (a *apiClient) showSet(ctx context.Context, set string, r requesterFlags) error {
	all, _, err := a.liveOfSet(ctx, set)
	if err != nil {
		return err
	}
	asked, others := r.narrow(all)
	if len(asked) == 0 {
		return r.noneLive(set)
	}
	whole, now, err := a.wholeChanges(ctx, asked)
	if err != nil {
		return err
	}
	parts, beside := partsOf(set, changesOf(whole)), partsOf(set, all)
	shown := []shownSet{} // a list in JSON, so that a script can walk it
	for _, p := range parts {
		one := shownSet{Set: set, Requester: p.requester, Digest: setDigest(p.changes)}
		for _, c := range whole {
			if c.Requester == p.requester {
				one.Changes = append(one.Changes, c)
			}
		}
		shown = append(shown, one)
	}
	if a.Output != "table" {
		sayLeft(a.Globals, "not shown", set, others)
		return a.Print(shown, nil, nil)
	}
	for i, p := range parts {
		for j := range shown[i].Changes {
			describeChange(a.Out, &shown[i].Changes[j], now, a.holdsOn(ctx, &shown[i].Changes[j].Change))
			fmt.Fprintln(a.Out)
		}
		fmt.Fprintln(a.Out, p.line())
		showNext(a.Out, p.next(beside))
		if i < len(parts)-1 {
			fmt.Fprintln(a.Out)
		}
	}
	if len(parts) > 1 {
		fmt.Fprintf(a.ErrOut, "this set has changes of %d requesters; one act approves those of one\n", len(parts))
	}
	sayLeft(a.Globals, "not shown", set, others)
	return nil
}

// next is what can be done with this part of a set, which has these parts.
func (p setPart) next(all []setPart) []string {
	flags := "--set " + cli.ShellWord(p.set)
	if len(all) > 1 {
		flags = p.flags(all...)
	}
	steps := []string{"bronzeward changes approve " + flags + " --digest " + setDigest(p.changes)}
	if slices.ContainsFunc(p.changes, func(c api.Change) bool { return c.State == api.ChangeStateApproved }) {
		steps = append(steps, "bronzeward changes apply "+flags)
	}
	return steps
}

// wholeChanges reads each of these changes with its diff. It errs when one is not live any
// more, so that what is shown can be acted on.
func (a *apiClient) wholeChanges(ctx context.Context, changes []api.Change) (out []wholeChange, now time.Time, err error) {
	defer a.Busy("reading %s", cli.Plural(len(changes), "change"))()
	for i := range changes {
		var one wholeChange
		if one, now, err = a.wholeChange(ctx, changes[i].ID); err != nil {
			return nil, now, err
		}
		if one.Digest != changes[i].Digest || one.Requester != changes[i].Requester {
			return nil, now, fmt.Errorf("change %s reads differently in the list and by itself; nothing is shown", one.ID)
		}
		if !live(&one.Change) {
			return nil, now, cli.Changed(fmt.Errorf("%s\nit was live a moment ago: look again", ended(&one.Change)))
		}
		out = append(out, one)
	}
	return out, now, nil
}

func changesOf(whole []wholeChange) []api.Change {
	out := make([]api.Change, len(whole))
	for i := range whole {
		out[i] = whole[i].Change
	}
	return out
}
