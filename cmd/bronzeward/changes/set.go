package changes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// Anybody who may propose a change may name any set for it. So a set is acted on one
// requester's changes at a time, and approved by a digest over exactly those that were shown.

// requesterFlags narrow a set to what one person asked for.
type requesterFlags struct {
	Requester       string `placeholder:"SUBJECT" help:"With --set, only what this person asked for; needed where a set has changes of several requesters."`
	RequesterIssuer string `placeholder:"ISSUER" help:"The issuer of --requester, where two requesters have the same subject."`
}

// checkRequester refuses a narrowing of nothing.
func (r requesterFlags) checkRequester(set string) error {
	switch {
	case r.Requester == "" && r.RequesterIssuer != "":
		return cli.Usage(errors.New("--requester-issuer says whose --requester is meant: give both"))
	case r.Requester != "" && set == "":
		return cli.Usage(errors.New("--requester narrows a set: it goes with --set"))
	}
	return nil
}

// narrow parts changes into those asked for by whom the flags name, or all, and the others.
func (r requesterFlags) narrow(changes []api.Change) (asked, others []api.Change) {
	for _, c := range changes {
		if (r.Requester == "" || c.Requester.Subject == r.Requester) && (r.RequesterIssuer == "" || c.Requester.Issuer == r.RequesterIssuer) {
			asked = append(asked, c)
		} else {
			others = append(others, c)
		}
	}
	return asked, others
}

// setPart is what one requester has in a set.
type setPart struct {
	set       string
	requester api.Person
	changes   []api.Change
}

// partsOf are the changes of a set by requester, in the order they are given.
func partsOf(set string, changes []api.Change) []setPart {
	var out []setPart
	for _, c := range changes {
		i := slices.IndexFunc(out, func(p setPart) bool { return p.requester == c.Requester })
		if i < 0 {
			i = len(out)
			out = append(out, setPart{set: set, requester: c.Requester})
		}
		out[i].changes = append(out[i].changes, c)
	}
	return out
}

// setScheme begins the digest of a set.
const setScheme = "set-sha256:"

var setDigestForm = regexp.MustCompile("^" + setScheme + "[0-9a-f]{64}$")

// setDigest names these changes and what each is: SHA-256 over a line "ID DIGEST" for each, in
// the order of their ids.
func setDigest(changes []api.Change) string {
	sum := sha256.New()
	for _, c := range slices.SortedFunc(slices.Values(changes), func(a, b api.Change) int { return cmp.Compare(a.ID, b.ID) }) {
		fmt.Fprintf(sum, "%s %s\n", c.ID, c.Digest)
	}
	return setScheme + hex.EncodeToString(sum.Sum(nil))
}

// line says whose these live changes are, and their digest.
func (p setPart) line() string {
	return fmt.Sprintf("set %s, %s of %s: %s", cli.ASCII(p.set), cli.Plural(len(p.changes), "live change"), ask.Person(p.requester), setDigest(p.changes))
}

// flags are those that name this part in a printed command; beside are all parts it has to be
// told from.
func (p setPart) flags(beside ...setPart) string {
	text := "--set " + cli.ShellWord(p.set) + " --requester " + cli.ShellWord(p.requester.Subject)
	if slices.ContainsFunc(beside, func(o setPart) bool {
		return o.requester.Subject == p.requester.Subject && o.requester.Issuer != p.requester.Issuer
	}) {
		text += " --requester-issuer " + cli.ShellWord(p.requester.Issuer)
	}
	return text
}

// liveOfSet gives the live changes of a set, oldest first, and the gateway's time.
func (a *apiClient) liveOfSet(ctx context.Context, set string) ([]api.Change, time.Time, error) {
	params := api.ListChangesParams{Set: &set, State: &[]api.ChangeStateFilter{api.ChangeStateFilterLive}}
	now := time.Now()
	all, _, err := ask.Collect(0, "", func(limit int, cursor *string) ([]api.Change, string, error) {
		params.Limit, params.Cursor = &limit, cursor
		page, said, err := ask.Received[api.ChangeList](a.ListChanges(ctx, &params))
		now = said.Now
		return page.Items, page.Next, err
	})
	slices.Reverse(all)
	return all, now, err
}

// noneLive says that a set has no live change of whom the flags name.
func (r requesterFlags) noneLive(set string) error {
	of := ""
	if r.Requester != "" {
		of = " of " + cli.ASCII(r.Requester)
	}
	if r.RequesterIssuer != "" {
		of += " of " + cli.ASCII(r.RequesterIssuer)
	}
	return fmt.Errorf("set %s has no live change%s\ntry: bronzeward changes list --set %s", cli.ASCII(set), of, cli.ShellWord(set))
}

// onePart is nil when the live changes of a set that the flags name are those of one
// requester: an act is about no more. done says what was not done else.
func (r requesterFlags) onePart(set string, live []api.Change, done string) error {
	asked, _ := r.narrow(live)
	if len(asked) == 0 {
		return r.noneLive(set)
	}
	if parts := partsOf(set, asked); len(parts) > 1 {
		return errors.New(several(parts) + "\n" + done + ": name one with --requester SUBJECT")
	}
	return nil
}

// several says that a set is of more than one requester, who has how much in it, and how each
// part is looked at.
func several(parts []setPart) string {
	var who, look []string
	for _, p := range parts {
		who = append(who, fmt.Sprintf("%s has %d", ask.Person(p.requester), len(p.changes)))
		look = append(look, "try: bronzeward changes show "+p.flags(parts...))
	}
	return fmt.Sprintf("set %s has live changes of %d requesters: %s\n%s", cli.ASCII(parts[0].set), len(parts), strings.Join(who, ", "), strings.Join(look, "\n"))
}

// sayLeft says what of a set is "left alone", or "not shown", because others asked for it.
func sayLeft(g *cli.Globals, what, set string, others []api.Change) {
	for _, p := range partsOf(set, others) {
		fmt.Fprintf(g.ErrOut, "%s, asked by %s: %s\n", what, ask.Person(p.requester), machinesOf(p.changes))
	}
}
