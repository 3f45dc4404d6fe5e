package vault

import (
	"context"
	"time"
)

// Anchor is what OpenBao remembers of the book, outside of PostgreSQL, so that a database that
// was restored from an older state is noticed.
type Anchor struct {
	// Epoch is the current one.
	Epoch string `json:"epoch"`
	// Size and Root are the head of the epoch's tree; 0 and empty before its first checkpoint.
	Size int64  `json:"size"`
	Root string `json:"root,omitempty"`
	// Written is when, by the writer's word.
	Written time.Time `json:"written"`
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
