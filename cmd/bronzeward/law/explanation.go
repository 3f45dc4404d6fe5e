package law

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"bronzeward/policy"
)

// How many facts are shown of a rule that was silent, and how much of each value in bytes.
const (
	mostWhyFacts = 4
	mostWhyValue = 60
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
			showFacts(w, rule.Facts)
		}
	}
	if len(why.Decision.Reasons) == 0 {
		fmt.Fprintln(w, "  (no rule)")
	}
	fmt.Fprintln(w, "\nsilent, and the first thing that did not hold")
	for _, r := range why.Rules {
		if !r.Fired {
			fmt.Fprintf(w, "  %s  %s\n      %s:%d  %s\n", r.Code, r.Title, r.File, r.WhyLine, r.Why)
			if len(r.WhyFacts) > 0 {
				fmt.Fprintf(w, "      %s\n", whyFacts(r.WhyFacts))
			}
		}
	}
}

// showFacts prints facts with their values.
func showFacts(w io.Writer, facts []policy.FactRead) {
	for _, f := range facts {
		fmt.Fprintf(w, "      %s = %s\n", f.Fact, f.Value)
	}
}

// whyFacts are the facts of a rule that was silent, on one line: most rules are.
func whyFacts(facts []policy.FactRead) string {
	var parts []string
	for _, f := range facts[:min(len(facts), mostWhyFacts)] {
		value := f.Value
		if len(value) > mostWhyValue {
			value = strings.ToValidUTF8(value[:mostWhyValue], "") + " …"
		}
		parts = append(parts, f.Fact+" = "+value)
	}
	if more := len(facts) - mostWhyFacts; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more with -o json", more))
	}
	return strings.Join(parts, "; ")
}
