package replay

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"bronzeward/audit"
	"bronzeward/policy"
)

// Shadow is what one rule that does not refuse yet said of one person's calls to one machine.
type Shadow struct {
	Code    string          `json:"code"`
	Step    policy.Severity `json:"step"` // shadow or warn
	Issuer  string          `json:"issuer"`
	Subject string          `json:"subject"`
	Machine string          `json:"machine"`
	Cluster string          `json:"cluster"`
	// WouldRefuse are calls that were allowed, and would have been refused by the rule on its last
	// step; RefusedAnyway were refused for something else.
	WouldRefuse   int64     `json:"would_refuse"`
	RefusedAnyway int64     `json:"refused_anyway"`
	Last          time.Time `json:"last"`
	// Sample is the newest decision of those that would have been refused, else the newest of all; Message is what the rule said in it.
	Sample  string `json:"sample"`
	Message string `json:"message"`
}

// ShadowReport sums up what rules said that do not refuse yet.
type ShadowReport struct {
	// Decisions were read; Unreadable are those whose record is none.
	Decisions  int64 `json:"decisions"`
	Unreadable int64 `json:"unreadable"`
	// Rows are by code, and of each those with the most calls first; NotListed are calls by people or to
	// machines beyond the bound.
	Rows      []Shadow `json:"rows"`
	NotListed int64    `json:"not_listed"`
}

// maxShadows bounds how many rows a sum has.
const maxShadows = 10_000

type shadowKey struct {
	code                              string
	step                              policy.Severity
	issuer, subject, machine, cluster string
}

// Shadows sums up what rules on the steps shadow and warn said. code takes one rule's alone; empty
// takes all.
func Shadows(ctx context.Context, pages Pages, code string, tell func(done int64)) (ShadowReport, error) {
	out := ShadowReport{Rows: []Shadow{}}
	sums := map[shadowKey]*Shadow{}
	for {
		rows, err := pages(ctx)
		if err != nil {
			return out, err
		}
		if len(rows) == 0 {
			break
		}
		for i := range rows {
			out.Decisions++
			e, err := audit.ParseEntry(rows[i].Record)
			if err != nil {
				out.Unreadable++
				continue
			}
			out.NotListed += addShadows(sums, &e, rows[i].RecordedAt, code)
		}
		if tell != nil {
			tell(out.Decisions)
		}
	}
	for _, s := range sums {
		out.Rows = append(out.Rows, *s)
	}
	slices.SortFunc(out.Rows, func(a, b Shadow) int {
		return cmp.Or(strings.Compare(a.Code, b.Code), cmp.Compare(b.WouldRefuse, a.WouldRefuse), cmp.Compare(b.RefusedAnyway, a.RefusedAnyway),
			strings.Compare(a.Subject, b.Subject), strings.Compare(a.Machine, b.Machine), strings.Compare(string(a.Step), string(b.Step)), strings.Compare(a.Issuer, b.Issuer))
	})
	return out, nil
}

// addShadows counts one entry under each of its codes once, and gives how many found no room.
func addShadows(sums map[shadowKey]*Shadow, e *audit.Entry, at time.Time, code string) (left int64) {
	law, _ := split(e.Reasons)
	seen := map[shadowKey]bool{}
	for _, r := range law {
		if r.Severity == policy.SeverityDeny || code != "" && r.Code != code {
			continue
		}
		k := shadowKey{r.Code, r.Severity, e.Caller.Issuer, e.Caller.Subject, e.MachineName, e.Cluster}
		if seen[k] {
			continue
		}
		seen[k] = true
		s := sums[k]
		if s == nil {
			if len(sums) >= maxShadows {
				left++
				continue
			}
			s = &Shadow{Code: k.code, Step: k.step, Issuer: k.issuer, Subject: k.subject, Machine: k.machine, Cluster: k.cluster}
			sums[k] = s
		}
		s.Last = at
		allowed := e.Verdict == audit.Allowed
		if allowed {
			s.WouldRefuse++
		} else {
			s.RefusedAnyway++
		}
		if allowed || s.WouldRefuse == 0 {
			s.Sample, s.Message = e.ID.String(), r.Message
		}
	}
	return left
}
