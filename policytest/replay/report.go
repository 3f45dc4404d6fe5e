package replay

import (
	"fmt"
	"slices"
	"time"

	"bronzeward/audit"
	"bronzeward/policy"
)

// Kind says how a decision came out.
type Kind string

// The kinds.
const (
	Same         Kind = "same"
	NowDenied    Kind = "now denied"
	NowAllowed   Kind = "now allowed"
	OtherReasons Kind = "other reasons"
)

// Report is what a replay came to. Its counts are of entries.
type Report struct {
	// Law is the revision that judged; empty when each decision was judged by its own.
	Law string `json:"law"`
	// Decisions were read; each is one of those below.
	Decisions    int64 `json:"decisions"`
	Same         int64 `json:"same"`
	NowDenied    int64 `json:"now_denied"`
	NowAllowed   int64 `json:"now_allowed"`
	OtherReasons int64 `json:"other_reasons"`
	// ByGateway are decisions that no law made: a bad credential, a machine that could not be
	// reached, what the gateway did itself.
	ByGateway int64 `json:"by_gateway"`
	// Unjudged are decisions that could not be judged again, by cause.
	Unjudged map[string]int64 `json:"unjudged"`
	// Lacking are facts that records do not have, and in how many. Those decisions were judged all
	// the same, without them.
	Lacking map[string]int64 `json:"lacking"`
	// Codes count, of the changed decisions, what the law says now that it did not, and the other
	// way round.
	Codes map[string]CodeCount `json:"codes"`
	// Changed are the first changed decisions, oldest first; NotKept is how many more there are.
	Changed []Change `json:"changed"`
	NotKept int64    `json:"changed_not_listed"`
}

// CodeCount counts changed decisions.
type CodeCount struct {
	New  int64 `json:"new"`
	Gone int64 `json:"gone"`
}

// Change is one decision that came out otherwise.
type Change struct {
	ID      string    `json:"id"`
	Kind    Kind      `json:"kind"`
	Time    time.Time `json:"time"`
	Issuer  string    `json:"issuer"`
	Subject string    `json:"subject"`
	Machine string    `json:"machine"`
	Cluster string    `json:"cluster"`
	Method  string    `json:"method"`
	DryRun  bool      `json:"dry_run"`
	// Revision is the law that decided then, OPA its engine.
	Revision string `json:"revision"`
	OPA      string `json:"opa"`
	// New and Gone are codes the law says now and did not say, and the other way round. A code on
	// another step than deny has the step behind it.
	New  []string `json:"new"`
	Gone []string `json:"gone"`
	// Approvals are how many were needed then and are now; null when that is the same.
	Approvals *[2]int `json:"approvals"`
	// Message is the first thing that denies now; of the same codes, the first reason that is worded otherwise.
	Message string `json:"message"`
	// Lacks are facts that the record does not have.
	Lacks []string `json:"lacks"`
}

// MaxChanged is how many changed decisions a report keeps; more are counted.
const MaxChanged = 1000

// maxNames bounds the maps of a report: causes, facts and codes come from what was recorded.
const maxNames = 500

// AnyChanged is true when a decision came out otherwise.
func (r *Report) AnyChanged() bool { return r.NowDenied+r.NowAllowed+r.OtherReasons > 0 }

// CountUnjudged is how many decisions could not be judged again.
func (r *Report) CountUnjudged() (n int64) {
	for _, c := range r.Unjudged {
		n += c
	}
	return n
}

func newReport() Report {
	return Report{Unjudged: map[string]int64{}, Lacking: map[string]int64{}, Codes: map[string]CodeCount{}, Changed: []Change{}}
}

// add counts another report's decisions, which come behind this one's.
func (r *Report) add(o *Report) {
	r.Decisions, r.Same, r.ByGateway = r.Decisions+o.Decisions, r.Same+o.Same, r.ByGateway+o.ByGateway
	r.NowDenied, r.NowAllowed, r.OtherReasons = r.NowDenied+o.NowDenied, r.NowAllowed+o.NowAllowed, r.OtherReasons+o.OtherReasons
	for k, n := range o.Unjudged {
		k = bounded(r.Unjudged, k)
		r.Unjudged[k] += n
	}
	for k, n := range o.Lacking {
		k = bounded(r.Lacking, k)
		r.Lacking[k] += n
	}
	for k, n := range o.Codes {
		k = bounded(r.Codes, k)
		c := r.Codes[k]
		r.Codes[k] = CodeCount{New: c.New + n.New, Gone: c.Gone + n.Gone}
	}
	room := max(0, MaxChanged-len(r.Changed))
	kept := o.Changed[:min(room, len(o.Changed))]
	r.Changed = append(r.Changed, kept...)
	r.NotKept += o.NotKept + int64(len(o.Changed)-len(kept))
}

// bounded is the key, or what stands for all further keys of a map that is full.
func bounded[T any](m map[string]T, key string) string {
	if _, there := m[key]; !there && len(m) >= maxNames {
		return "others"
	}
	return key
}

// changed counts a decision that came out otherwise.
func (r *Report) changed(e *audit.Entry, at time.Time, kind Kind, was, now word, lacks []string) {
	switch kind {
	case NowDenied:
		r.NowDenied++
	case NowAllowed:
		r.NowAllowed++
	default:
		r.OtherReasons++
	}
	before, after := said(was.reasons), said(now.reasons)
	c := Change{
		ID: e.ID.String(), Kind: kind, Time: at, Issuer: e.Caller.Issuer, Subject: e.Caller.Subject, Machine: e.MachineName, Cluster: e.Cluster,
		Method: e.Method, DryRun: e.DryRun, Revision: e.PolicyRevision, OPA: e.OPAVersion,
		New: without(after, before), Gone: without(before, after), Message: first(was, now), Lacks: append([]string{}, lacks...),
	}
	if was.approvals != now.approvals && e.Class != "act" {
		c.Approvals = &[2]int{was.approvals, now.approvals}
	}
	for _, code := range c.New {
		n := r.Codes[code]
		r.Codes[code] = CodeCount{New: n.New + 1, Gone: n.Gone}
	}
	for _, code := range c.Gone {
		n := r.Codes[code]
		r.Codes[code] = CodeCount{New: n.New, Gone: n.Gone + 1}
	}
	r.Changed = append(r.Changed, c)
}

// first is what a person is told first of the difference.
func first(was, now word) string {
	for _, r := range now.reasons {
		if r.Severity == policy.SeverityDeny && !slices.Contains(was.reasons, r) {
			return r.Message
		}
	}
	for _, r := range now.reasons {
		if !slices.Contains(was.reasons, r) {
			return r.Message
		}
	}
	return ""
}

// Judged is how many decisions a law judged again.
func (r *Report) Judged() int64 { return r.Same + r.NowDenied + r.NowAllowed + r.OtherReasons }

// String is the counts in one line.
func (r *Report) String() string {
	return fmt.Sprintf("%d decisions: %d the same, %d now denied, %d now allowed, %d for other reasons, %d by the gateway alone, %d not judged",
		r.Decisions, r.Same, r.NowDenied, r.NowAllowed, r.OtherReasons, r.ByGateway, r.CountUnjudged())
}
