package vault

import (
	"context"
	"errors"
	"time"
)

// Anchor is what OpenBao remembers of the book and of authority, outside of PostgreSQL, so that a
// database that was restored from an older state is noticed.
type Anchor struct {
	// Installation is whose it is; empty until a start has told it.
	Installation string `json:"installation,omitempty"`
	// Epoch is the current one.
	Epoch string `json:"epoch"`
	// Size and Root are the head of the epoch's tree, as its latest checkpoint has them; 0 and
	// empty before the first. Root is in hexadecimal digits.
	Size int64  `json:"size"`
	Root string `json:"root,omitempty"`
	// AuthorityVersion is how often authority was taken away or the law changed, and Revocations
	// how many identities are revoked.
	AuthorityVersion int64 `json:"authority_version"`
	Revocations      int64 `json:"revocations"`
	// Written is when, by the writer's word.
	Written time.Time `json:"written"`
	// Latched is that the database was found to be older than this; null when it was not. It is taken
	// off by entering recovery alone.
	Latched *Latch `json:"latched,omitempty"`
	// Pending is the epoch of a recovery that is being entered: it may or may not be the database's
	// already. Empty when none is.
	Pending string `json:"pending,omitempty"`
	// Recovering is true from entering a recovery to its end.
	Recovering bool `json:"recovering,omitempty"`
	// Old is the head of the epoch before; null in the first.
	Old *Head `json:"old,omitempty"`
}

// Latch is what a comparison with the database found.
type Latch struct {
	// Message is one sentence, without secrets; Found when, by the finder's word.
	Message string    `json:"message"`
	Found   time.Time `json:"found"`
}

// Head is the last head that was remembered of a tree. Root is in hexadecimal digits.
type Head struct {
	Epoch string `json:"epoch"`
	Size  int64  `json:"size"`
	Root  string `json:"root,omitempty"`
}

// Anchors reads and writes the anchor. Safe for concurrent use, and by many replicas.
type Anchors struct{ client *Client }

// NewAnchors asks nothing yet.
func NewAnchors(c *Client) *Anchors { return &Anchors{c} }

// Read gives the anchor and its version; version 0 when there is none yet. An anchor that was
// deleted gives 0 too, and Write then refuses to begin anew over it.
func (a *Anchors) Read(ctx context.Context) (Anchor, int, error) {
	var out Anchor
	version, err := a.client.get(ctx, "reading the anchor", PathAnchor, &out)
	if kindOf(err) == KindMissing {
		return Anchor{}, 0, nil
	}
	return out, version, err
}

// Write writes the anchor over the version that was read, and gives the new version. An *Error
// of KindMoved says that somebody else was first; nothing is written then.
func (a *Anchors) Write(ctx context.Context, next Anchor, over int) (int, error) {
	return a.client.put(ctx, "writing the anchor", PathAnchor, next, over)
}

// Forward raises the anchor to at least what raise puts into it, and gives what OpenBao remembers
// then. raise gets what is there, the zero Anchor at the very first, puts in the epoch of the database
// and what it knows, and does nothing else; it may be called several times. Nothing is ever lowered: what raise puts lower stays as it is, and when
// nothing is higher nothing is written. Any number of replicas may do it at once.
//
// The error is an *Error. Beside outages there are KindOtherEpoch: the anchor is of another epoch;
// KindForked: it has another root at that size; KindMissing: it was deleted. Nothing is written
// with any of them.
func (a *Anchors) Forward(ctx context.Context, raise func(*Anchor)) (Anchor, error) {
	there, _, err := forward(ctx, a, 0, raise)
	return there, err
}

// ForwardOver is Forward that demands that the anchor is at least of a version, and gives the version
// it has then. KindOlder says that it is not: this OpenBao is older than whoever wrote that version.
func (a *Anchors) ForwardOver(ctx context.Context, least int, raise func(*Anchor)) (Anchor, int, error) {
	return forward(ctx, a, least, raise)
}

// Change writes whatever change makes of the anchor, the zero Anchor when there is none, and gives it
// with its version. It is for recovery alone: nothing keeps it from being lowered. change may be
// called several times; with its error, and when it changes nothing, nothing is written.
func (a *Anchors) Change(ctx context.Context, change func(*Anchor) error) (Anchor, int, error) {
	return rewrite(ctx, a, change)
}

// anchorPlace is where an anchor lies. Write is check-and-set: without that, two replicas that read
// the same would write over each other, and the lower one might be last.
type anchorPlace interface {
	Read(ctx context.Context) (Anchor, int, error)
	Write(ctx context.Context, next Anchor, over int) (int, error)
}

// mostRounds bounds how often one Forward loses to others. Each round that one loses, another has
// won: so many replicas at the very same moment are beyond any house.
const mostRounds = 32

func rewrite(ctx context.Context, place anchorPlace, change func(*Anchor) error) (Anchor, int, error) {
	for range mostRounds {
		there, version, err := place.Read(ctx)
		if err != nil {
			return Anchor{}, 0, err
		}
		next := there
		if err := change(&next); err != nil || next == there {
			return there, version, err
		}
		if next.Written = time.Now().UTC(); !next.Written.After(there.Written) {
			next.Written = there.Written
		}
		if version, err = place.Write(ctx, next, version); err == nil {
			return next, version, nil
		}
		if kindOf(err) != KindMoved {
			return there, 0, err
		}
	}
	return Anchor{}, 0, tooOften()
}

func tooOften() error {
	return unavailable("raising the anchor", KindFailing, errors.New("check-and-set was lost too often"), "others write the anchor all the time")
}

func forward(ctx context.Context, place anchorPlace, least int, raise func(*Anchor)) (Anchor, int, error) {
	const doing = "raising the anchor"
	for round := range mostRounds {
		there, version, err := place.Read(ctx)
		if err != nil {
			return Anchor{}, 0, err
		}
		if version < least {
			return there, version, refused(doing, KindOlder, nil,
				"OpenBao has version %d of the anchor, and this database wrote version %d: OpenBao is older than it was; docs/recovery.md says what to do", version, least)
		}
		want := there
		raise(&want)
		next, higher, err := there.raised(want, version == 0)
		if err != nil || !higher {
			return there, version, err
		}
		wrote, err := place.Write(ctx, next, version)
		if err == nil {
			return next, wrote, nil
		}
		if kindOf(err) != KindMoved {
			return there, version, err
		}
		if version == 0 && round > 0 {
			// Twice nothing was there, and twice it was not the beginning.
			return there, version, refused(doing, KindMissing, nil, "the anchor in OpenBao was deleted: bring it back (bao kv undelete), or remove what is left of it to begin anew (bao kv metadata delete)")
		}
	}
	return Anchor{}, 0, tooOften()
}

// raised is the anchor with whatever is higher in want, and whether anything is. first is true
// when there is none yet.
func (a Anchor) raised(want Anchor, first bool) (next Anchor, higher bool, _ error) {
	const doing = "raising the anchor"
	if first {
		a = Anchor{Epoch: want.Epoch}
	}
	next, higher = a, first
	if a.Installation != "" && want.Installation != a.Installation {
		return a, false, refused(doing, KindOtherEpoch, nil,
			"OpenBao remembers installation %s, and this database is of installation %s: one of them is not the other's; docs/outages.md says what to do", a.Installation, want.Installation)
	}
	if a.Latched != nil {
		// What is left of the house behind this database tells it nothing.
		if want.Size <= a.Size {
			return a, false, nil
		}
		return a, false, refused(doing, KindLatched, nil, "%s; docs/recovery.md says what to do", a.Latched.Message)
	}
	if a.Installation == "" && want.Installation != "" {
		next.Installation, higher = want.Installation, true
	}
	if want.Epoch != a.Epoch || want.Epoch == "" {
		return a, false, refused(doing, KindOtherEpoch, nil,
			"OpenBao remembers the epoch %s, and this database is of epoch %s: one of them is not the other's; docs/outages.md says what to do", a.Epoch, want.Epoch)
	}
	switch {
	case want.Size == a.Size && want.Root != a.Root:
		return a, false, refused(doing, KindForked, nil,
			"OpenBao remembers another root of the book at size %d: the database or the anchor is not the other's; docs/outages.md says what to do", a.Size)
	case want.Size > a.Size:
		next.Size, next.Root, higher = want.Size, want.Root, true
	}
	if want.AuthorityVersion > a.AuthorityVersion {
		next.AuthorityVersion, higher = want.AuthorityVersion, true
	}
	if want.Revocations > a.Revocations {
		next.Revocations, higher = want.Revocations, true
	}
	if next.Written = want.Written; !want.Written.After(a.Written) {
		next.Written = time.Now().UTC()
	}
	return next, higher, nil
}
