package httpapi

import (
	"fmt"
	"time"

	"bronzeward/gateway/httpapi/api"
)

// claimOf is what a caller says that a replay came to, as it goes into the entry; empty without one. The
// numbers are theirs: a replay takes cores for minutes, which the gateway has for calls, and whoever may
// make a law live may do so without one. What contradicts itself is refused.
func claimOf(r *api.PolicyReplay) (string, error) {
	if r == nil {
		return "", nil
	}
	parts := []int64{r.Same, r.NowDenied, r.NowAllowed, r.OtherReasons, r.ByGateway, r.Unjudged}
	sum := int64(0)
	for _, n := range append(parts, r.MaxNewlyDenied, r.Decisions) {
		if n < 0 {
			return "", malformed("replay has a number below zero")
		}
	}
	for _, n := range parts {
		if sum += n; sum < 0 {
			break // beyond what fits
		}
	}
	if sum != r.Decisions {
		return "", malformed("replay.decisions is not the sum of what came of them")
	}
	if r.NowDenied > r.MaxNewlyDenied {
		p := malformed("replay.now_denied is %d, more than the %d that replay.max_newly_denied lets pass", r.NowDenied, r.MaxNewlyDenied)
		p.hint = "bronzeward policy replay --bundle DIR lists them"
		return "", p
	}
	return fmt.Sprintf("as the caller says, since %s, at most %d newly denied: %d decisions: %d the same, %d now denied, %d now allowed, %d for other reasons, %d by the gateway alone, %d not judged",
		r.Since.UTC().Format(time.RFC3339), r.MaxNewlyDenied, r.Decisions, r.Same, r.NowDenied, r.NowAllowed, r.OtherReasons, r.ByGateway, r.Unjudged), nil
}
