package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/rego"
)

// The engine's own codes. A law never uses them.
const (
	CodeNoPolicy      = "BW-POLICY-001" // no law is live
	CodeUndefined     = "BW-POLICY-002" // the law gave no answer
	CodeMalformed     = "BW-POLICY-003" // the answer has not the shape of a decision
	CodeEvaluation    = "BW-POLICY-004" // a rule failed
	CodeBudget        = "BW-POLICY-005" // the decision took too long
	CodeCancelled     = "BW-POLICY-006" // the caller went away while being judged
	CodeFacts         = "BW-POLICY-007" // the facts are missing or of another version
	CodeContradiction = "BW-POLICY-008" // allow is true beside a denial, or without roles
	CodeNoReason      = "BW-POLICY-009" // not allowed, and no rule said why
)

type ownMessage struct{ text, hint string }

var ownMessages = map[string]ownMessage{
	CodeNoPolicy:      {"no valid policy is loaded, so nothing is allowed", "bronzeward policy activate DIR"},
	CodeUndefined:     {"the policy gave no answer", "bronzeward policy check DIR"},
	CodeMalformed:     {"the policy's answer is malformed", "bronzeward policy check DIR"},
	CodeEvaluation:    {"a rule of the policy failed", "bronzeward policy test DIR"},
	CodeBudget:        {"the policy took longer than its budget", "bronzeward policy test DIR"},
	CodeCancelled:     {"the call ended before it was judged", ""},
	CodeFacts:         {"the facts of this call are incomplete", ""},
	CodeContradiction: {"the policy's answer contradicts itself", "bronzeward policy check DIR"},
	CodeNoReason:      {"no rule of the policy allows this", ""},
}

// Bounds of an answer. They keep one answer from filling a row or a screen.
const (
	maxReasons   = 200
	maxTextBytes = 2000
	maxQuorum    = 100
)

var codePattern = regexp.MustCompile(`^BW-[A-Z][A-Z0-9]{1,15}-[0-9]{3}$`)

// upstreamRoles are the Talos roles a decision may name. os:impersonator is not among
// them: it may speak for every other role.
var upstreamRoles = []string{"os:admin", "os:operator", "os:reader", "os:etcd:backup", "os:image:verifier", "os:meta:writer"}

// errContradiction marks an answer that is well-formed and says two things.
var errContradiction = errors.New("answer contradicts itself")

// readResult takes the one value out of a result and reads it strictly. The code says
// which of the engine's own denials an error is.
func readResult(rs rego.ResultSet, read func(any) (Decision, error)) (Decision, string, error) {
	if len(rs) == 0 {
		return Decision{}, CodeUndefined, errors.New("result is undefined")
	}
	if len(rs) != 1 || len(rs[0].Expressions) != 1 {
		return Decision{}, CodeMalformed, errors.New("result has more than one value")
	}
	d, err := read(rs[0].Expressions[0].Value)
	switch {
	case errors.Is(err, errContradiction):
		return Decision{}, CodeContradiction, err
	case err != nil:
		return Decision{}, CodeMalformed, err
	}
	if !d.Allow && len(d.Denials()) == 0 {
		m := ownMessages[CodeNoReason]
		d.Reasons = append(d.Reasons, Reason{Code: CodeNoReason, Message: m.text, Rule: "bronzeward", Severity: SeverityDeny, Hint: m.hint})
	}
	return d, "", nil
}

// readAdmission reads the answer about a Call: exactly allow, reasons, approvals,
// upstream_roles and redact.
func readAdmission(v any) (Decision, error) {
	m, err := object(v, "answer", "allow", "reasons", "approvals", "upstream_roles", "redact")
	if err != nil {
		return Decision{}, err
	}
	d, err := common(m)
	if err != nil {
		return Decision{}, err
	}
	if d.UpstreamRoles, err = strs(m["upstream_roles"], "upstream_roles"); err != nil {
		return Decision{}, err
	}
	for _, r := range d.UpstreamRoles {
		if !slices.Contains(upstreamRoles, r) {
			return Decision{}, fmt.Errorf("upstream_roles names %q, which is not to be given", r)
		}
	}
	if d.Redact, err = boolean(m["redact"], "redact"); err != nil {
		return Decision{}, err
	}
	if d.Allow && len(d.UpstreamRoles) == 0 {
		return Decision{}, fmt.Errorf("%w: allow without upstream roles", errContradiction)
	}
	return d, nil
}

// mostCertificateHours is how long a person's certificate may last whatever a law says.
const mostCertificateHours = 24

// readAct reads the answer about an act: exactly allow, reasons and approvals, and
// certificate_hours where the act is to issue a certificate.
func readAct(v any) (Decision, error) {
	keys := []string{"allow", "reasons", "approvals"}
	answer, _ := v.(map[string]any)
	granted, grants := answer["certificate_hours"]
	if grants {
		keys = append(keys, "certificate_hours")
	}
	m, err := object(v, "answer", keys...)
	if err != nil {
		return Decision{}, err
	}
	d, err := common(m)
	if err == nil && grants {
		d.CertificateHours, err = whole(granted, "certificate_hours", 1, mostCertificateHours)
	}
	if err != nil {
		return Decision{}, err
	}
	d.UpstreamRoles, d.Redact = []string{}, true
	return d, nil
}

func common(m map[string]any) (d Decision, err error) {
	if d.Allow, err = boolean(m["allow"], "allow"); err != nil {
		return Decision{}, err
	}
	if d.Reasons, err = reasons(m["reasons"]); err != nil {
		return Decision{}, err
	}
	if d.Approvals, err = quorum(m["approvals"]); err != nil {
		return Decision{}, err
	}
	if d.Allow && len(d.Denials()) > 0 {
		return Decision{}, fmt.Errorf("%w: allow beside %s", errContradiction, d.Denials()[0].Code)
	}
	return d, nil
}

func reasons(v any) ([]Reason, error) {
	list, ok := v.([]any)
	if !ok || len(list) > maxReasons {
		return nil, fmt.Errorf("reasons must be a list of at most %d", maxReasons)
	}
	out := make([]Reason, 0, len(list))
	for _, e := range list {
		m, err := object(e, "reason", "code", "message", "rule", "severity", "hint")
		if err != nil {
			return nil, err
		}
		var t [5]string
		for i, k := range []string{"code", "message", "rule", "severity", "hint"} {
			if t[i], err = text(m[k], k); err != nil {
				return nil, err
			}
		}
		r := Reason{Code: t[0], Message: t[1], Rule: t[2], Severity: Severity(t[3]), Hint: t[4]}
		if !codePattern.MatchString(r.Code) || strings.HasPrefix(r.Code, "BW-POLICY-") {
			return nil, fmt.Errorf("reason has code %q, which is none a law may use", r.Code)
		}
		if !slices.Contains([]Severity{SeverityDeny, SeverityWarn, SeverityShadow}, r.Severity) {
			return nil, fmt.Errorf("reason %s has severity %q", r.Code, r.Severity)
		}
		if r.Message == "" || r.Rule == "" {
			return nil, fmt.Errorf("reason %s lacks its message or rule", r.Code)
		}
		out = append(out, r)
	}
	slices.SortFunc(out, compareReasons)
	return slices.Compact(out), nil
}

// areaOrder is what a caller is told first: who they are, what they may ask, of which
// machine, and only then what is wrong with the configuration. Approvals come last,
// because nothing else can be given an approval before the rest is right.
var areaOrder = [...]string{"ACT", "IDENTITY", "METHODS", "TARGET", "HOLDS", "WINDOWS", "MODE", "CONFIG"}

// area is a code's place in areaOrder; areas of a house's own come after the shipped ones.
func area(code string) int {
	for i, a := range areaOrder {
		if strings.HasPrefix(code, "BW-"+a+"-") {
			return i
		}
	}
	if strings.HasPrefix(code, "BW-APPROVAL-") {
		return len(areaOrder) + 1
	}
	return len(areaOrder)
}

// compareReasons puts denials first, then warnings, then shadows, each by area and code:
// the first reason is the one a caller sees on the first line.
func compareReasons(a, b Reason) int {
	rank := func(s Severity) int {
		return slices.Index([]Severity{SeverityDeny, SeverityWarn, SeverityShadow}, s)
	}
	if n := rank(a.Severity) - rank(b.Severity); n != 0 {
		return n
	}
	if n := area(a.Code) - area(b.Code); n != 0 {
		return n
	}
	for _, p := range [][2]string{{a.Code, b.Code}, {a.Message, b.Message}, {a.Rule, b.Rule}} {
		if n := strings.Compare(p[0], p[1]); n != 0 {
			return n
		}
	}
	return strings.Compare(a.Hint, b.Hint)
}

func quorum(v any) (Quorum, error) {
	m, err := object(v, "approvals", "required", "groups", "self_approval")
	if err != nil {
		return Quorum{}, err
	}
	var q Quorum
	if q.Required, err = whole(m["required"], "required", 0, maxQuorum); err != nil {
		return Quorum{}, err
	}
	if q.Groups, err = strs(m["groups"], "groups"); err != nil {
		return Quorum{}, err
	}
	if q.SelfApproval, err = boolean(m["self_approval"], "self_approval"); err != nil {
		return Quorum{}, err
	}
	if q.Required > 0 && len(q.Groups) == 0 {
		return Quorum{}, errors.New("approvals are required from no group")
	}
	return q, nil
}

// object wants a map with exactly these keys.
func object(v any, what string, keys ...string) (map[string]any, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is no object", what)
	}
	for _, k := range keys {
		if _, ok := m[k]; !ok {
			return nil, fmt.Errorf("%s lacks %q", what, k)
		}
	}
	if len(m) != len(keys) {
		return nil, fmt.Errorf("%s has keys besides %s", what, strings.Join(keys, ", "))
	}
	return m, nil
}

func boolean(v any, what string) (bool, error) {
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("%s is no boolean", what)
	}
	return b, nil
}

func text(v any, what string) (string, error) {
	s, ok := v.(string)
	switch {
	case !ok:
		return "", fmt.Errorf("%s is no string", what)
	case len(s) > maxTextBytes || !utf8.ValidString(s) || strings.ContainsRune(s, 0):
		return "", fmt.Errorf("%s is too long or no plain text", what)
	}
	return s, nil
}

// strs wants a list of distinct non-empty strings.
func strs(v any, what string) ([]string, error) {
	list, ok := v.([]any)
	if !ok || len(list) > maxReasons {
		return nil, fmt.Errorf("%s is no list", what)
	}
	out := make([]string, 0, len(list))
	for _, e := range list {
		s, err := text(e, what)
		if err != nil {
			return nil, err
		}
		if s == "" || slices.Contains(out, s) {
			return nil, fmt.Errorf("%s has an element that is empty or there twice", what)
		}
		out = append(out, s)
	}
	return out, nil
}

// whole wants a whole number between two others, written as one.
func whole(v any, what string, least, most int64) (int, error) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, fmt.Errorf("%s is no number", what)
	}
	i, err := n.Int64()
	if err != nil || i < least || i > most {
		return 0, fmt.Errorf("%s is no whole number from %d to %d", what, least, most)
	}
	return int(i), nil
}
