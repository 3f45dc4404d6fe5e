package audit

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Filter says which entries are wanted; a zero field asks nothing, and all that is asked must hold. Texts are compared as
// the columns hold them, cut to 512 bytes.
type Filter struct {
	MachineID uuid.UUID // has no index of its own: give Machine too where the name is known
	Machine   string    // the machine's name when it was judged
	Cluster   string
	Issuer    string   // of the caller
	Subject   string   // of the caller
	Digests   []string // the configuration asked for has one of these digests; at most MaxDigests
	Path      string   // a configuration path that was or would be changed, or what it lies in: machine.sysctls
	Method    string
	Class     string
	Verdict   Verdict
	Kind      Kind
	Code      string // one of the reasons' codes
	Reasoned  bool   // something is among the reasons
	AttemptID uuid.UUID
	ChangeID  string
	Epoch     uuid.UUID
	Since     time.Time // recorded at this time or later
	Until     time.Time // recorded before this time
}

// MaxDigests is how many digests a Filter takes: a text has one under each version of the digest key.
const MaxDigests = 64

// Order is the direction of a list.
type Order int

// The orders. NewestFirst is the zero value.
const (
	NewestFirst Order = iota
	OldestFirst
)

// DefaultLimit and MaxLimit bound a page's rows.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// Page says which part of a list is wanted.
type Page struct {
	Limit int    // rows; 0 is DefaultLimit, more than MaxLimit is an error
	Order Order  // NewestFirst if left out
	After Cursor // the place a page before ended; zero begins
	// Records asks for rows with their records, and without their last outcomes. Such a page ends early at PageBytes.
	Records bool
}

// PageBytes bounds the records of one page together, in bytes; but one row has room whatever its size.
const PageBytes = 8 << 20

// Validate returns all problems, joined.
func (f Filter) Validate() error {
	var problems []error
	switch f.Verdict {
	case "", Allowed, Denied, Refused:
	default:
		problems = append(problems, errors.New("verdict: one of allow, deny, refuse"))
	}
	switch f.Kind {
	case "", KindRPC, KindHTTP, KindPolicy, KindSystem:
	default:
		problems = append(problems, errors.New("kind: one of rpc, http, policy, system"))
	}
	if len(f.Digests) > MaxDigests || slices.Contains(f.Digests, "") {
		problems = append(problems, fmt.Errorf("digests: at most %d, none of them empty", MaxDigests))
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		problems = append(problems, errors.New("since: not before until"))
	}
	return errors.Join(problems...)
}

// Validate returns all problems, joined.
func (p Page) Validate() error {
	var problems []error
	if p.Limit < 0 || p.Limit > MaxLimit {
		problems = append(problems, fmt.Errorf("limit: 1 to %d", MaxLimit))
	}
	if p.Order != NewestFirst && p.Order != OldestFirst {
		problems = append(problems, errors.New("order: newest or oldest first"))
	}
	return errors.Join(problems...)
}
