package law

import (
	"fmt"
	"io"
	"slices"

	"bronzeward/policy"
)

// showExplanation prints what a law says of one call or act.
func showExplanation(w io.Writer, why policy.Explanation) {
	verdict := "DENY"
	if why.Decision.Allow {
		verdict = "ALLOW"
	}
	fmt.Fprintf(w, "%s  (revision %.12s, OPA %s)\n", verdict, why.Decision.Revision, why.Decision.OPA)
	fmt.Fprintf(w, "approvals required: %d; upstream roles: %v; redact: %t\n", why.Decision.Approvals.Required, why.Decision.UpstreamRoles, why.Decision.Redact)
	fmt.Fprintln(w, "\nfired")
	for _, r := range why.Decision.Reasons {
		fmt.Fprintf(w, "  %s %-6s %s\n", r.Code, r.Severity, r.Message)
		if r.Hint != "" {
			fmt.Fprintf(w, "      try: %s\n", r.Hint)
		}
		// A rule's facts stand once, under the first of its reasons.
		if first := slices.IndexFunc(why.Decision.Reasons, func(o policy.Reason) bool { return o.Code == r.Code }); why.Decision.Reasons[first] != r {
			continue
		}
		for _, rule := range why.Rules {
			if rule.Code != r.Code || !rule.Fired {
				continue
			}
			fmt.Fprintf(w, "      %s:%d\n", rule.File, rule.Line)
			for _, f := range rule.Facts {
				fmt.Fprintf(w, "      %s = %s\n", f.Fact, f.Value)
			}
		}
	}
	if len(why.Decision.Reasons) == 0 {
		fmt.Fprintln(w, "  (no rule)")
	}
	fmt.Fprintln(w, "\nsilent, and the first thing that did not hold")
	for _, r := range why.Rules {
		if !r.Fired {
			fmt.Fprintf(w, "  %s  %s\n      %s:%d  %s\n", r.Code, r.Title, r.File, r.WhyLine, r.Why)
		}
	}
}
