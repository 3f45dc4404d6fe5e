package changes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// mostEnded is how many ended changes of a set are looked through for what went from it.
const mostEnded = 50

// asShown is nil when the live changes of a set that the flags name are those of one
// requester, with the digest a person looked at. Else it says what came and what went since.
// It never names the digest there is now: who has not looked shall not have it to copy.
func (a *apiClient) asShown(ctx context.Context, set string, r requesterFlags, live []api.Change, digest string) error {
	asked, _ := r.narrow(live)
	if setDigest(asked) == digest {
		return r.onePart(set, live, "nothing was approved")
	}
	text := []string{fmt.Sprintf("set %s is not as it was when that digest was shown: nothing was approved", cli.ASCII(set))}
	parts := partsOf(set, asked)
	if i := slices.IndexFunc(parts, func(p setPart) bool { return setDigest(p.changes) == digest }); i >= 0 {
		text = append(text, "that digest is of what "+ask.Person(parts[i].requester)+" has in it")
		for j := range asked {
			if asked[j].Requester != parts[i].requester {
				text = append(text, "not in that digest: "+oneOf(&asked[j]))
			}
		}
	} else {
		text = append(text, a.moves(ctx, set, r, asked, digest)...)
	}
	if len(parts) > 1 {
		return cli.Changed(errors.New(strings.Join(append(text, several(parts)), "\n")))
	}
	again := "--set " + cli.ShellWord(set)
	if r.Requester != "" && len(parts) == 1 {
		again = parts[0].flags(partsOf(set, live)...)
	}
	return cli.Changed(errors.New(strings.Join(append(text, "try: bronzeward changes show "+again), "\n")))
}

// moves says, in lines, what came to a set and what went from it since it had this digest; or
// what there is, where that cannot be told.
func (a *apiClient) moves(ctx context.Context, set string, r requesterFlags, now []api.Change, digest string) (lines []string) {
	states := []api.ChangeStateFilter{
		api.ChangeStateFilterSpent, api.ChangeStateFilterSuperseded, api.ChangeStateFilterCancelled,
		api.ChangeStateFilterRejected, api.ChangeStateFilterExpired, api.ChangeStateFilterRevoked,
	}
	// Without the ended ones it can only be told what came.
	page, _, _ := ask.Received[api.ChangeList](a.ListChanges(ctx, &api.ListChangesParams{Set: &set, State: &states, Limit: new(mostEnded)}))
	ended, _ := r.narrow(page.Items)
	came, went, told := whatMoved(now, ended, digest)
	if !told {
		lines = append(lines, "what came or went cannot be told from that digest; was it copied whole?")
		for i := range now {
			lines = append(lines, "there now: "+oneOf(&now[i]))
		}
		return lines
	}
	for i := range came {
		lines = append(lines, "came since: "+oneOf(&came[i]))
	}
	for i := range went {
		lines = append(lines, "went since: "+becameOf(&went[i]))
	}
	return lines
}

func oneOf(c *api.Change) string {
	return fmt.Sprintf("change %s of %s, asked by %s", c.ID, c.Machine, ask.Person(c.Requester))
}

func becameOf(c *api.Change) string { return ended(c) + ", asked by " + ask.Person(c.Requester) }

// whatMoved looks for the set that had this digest among the likely ones: that the live
// changes now (oldest first) are without those that came, and with those of the ended ones
// (newest first) that went.
func whatMoved(live, ended []api.Change, digest string) (came, went []api.Change, told bool) {
	newest := slices.Clone(live)
	slices.Reverse(newest)
	for _, went := range likely(ended) {
		for _, came := range likely(newest) {
			before := slices.Clone(went)
			for _, c := range live {
				if !slices.ContainsFunc(came, func(o api.Change) bool { return o.ID == c.ID }) {
					before = append(before, c)
				}
			}
			if len(before) > 0 && setDigest(before) == digest {
				return came, went, true
			}
		}
	}
	return nil, nil, false
}

// likely are the parts of a list that something may have happened to: nothing, its first ones,
// and each one alone.
func likely(changes []api.Change) [][]api.Change {
	out := [][]api.Change{nil}
	for i := range changes {
		out = append(out, changes[:i+1])
		if i > 0 {
			out = append(out, changes[i:i+1])
		}
	}
	return out
}
