package house

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit/tree"
	"bronzeward/gateway/control"
	"bronzeward/gateway/vault"
)

// anchorPlace is OpenBao's memory of the book and of authority; *vault.Anchors is.
type anchorPlace interface {
	Read(ctx context.Context) (vault.Anchor, int, error)
	ForwardOver(ctx context.Context, least int, raise func(*vault.Anchor)) (vault.Anchor, int, error)
	Change(ctx context.Context, change func(*vault.Anchor) error) (vault.Anchor, int, error)
}

// comparing holds the database against the anchor. Safe for concurrent use.
type comparing struct {
	place anchorPlace
	store *control.Store
	log   *slog.Logger
}

// compareEvery is how often the two are compared: a database that is restored under running gateways
// is found within that, and it costs a reading of OpenBao and a few rows.
const compareEvery = 10 * time.Second

// sight is one look at both sides.
type sight struct {
	anchor  vault.Anchor
	version int
	// marked is what was marked when the look began, and wrote the version of the anchor that the
	// database remembers having written.
	marked control.Found
	wrote  int64
	snap   *control.Snapshot
	// found is what is wrong; null when nothing is.
	found *control.Found
	// unfinished is true while the database's epoch has begun and the anchor does not say so yet.
	unfinished bool
}

// errOtherHouse is in the chain of the error for an anchor that is not this database's at all.
var errOtherHouse = errors.New("OpenBao remembers another house")

// look reads both sides, in an order in which no honest writer can seem to be behind: what the
// database remembers, then the anchor, then the database. What is found is of the epoch in which it
// began: when another has begun meanwhile it says nothing of that one, and is not marked in it.
func (c *comparing) look(ctx context.Context) (s sight, err error) {
	if s.marked, s.wrote, err = c.store.FoundNow(ctx); err != nil {
		return s, err
	}
	defer func() {
		if s.found != nil {
			s.found.OfEpoch = s.marked.OfEpoch
		}
	}()
	if s.anchor, s.version, err = c.place.Read(ctx); err != nil {
		return s, err
	}
	if s.snap, err = c.store.Refresh(ctx, 0); err != nil {
		return s, err
	}
	if int64(s.version) < s.wrote {
		s.found = &control.Found{State: control.RecoveryOlderOpenBao, Message: fmt.Sprintf(
			"OpenBao is older than this database: it has version %d of the anchor, and this database wrote version %d", s.version, s.wrote)}
		return s, nil
	}
	if s.version == 0 {
		return s, nil // the very first start
	}
	if whose := s.anchor.Installation; whose != "" && whose != s.snap.InstallationID.String() {
		return s, fmt.Errorf("%w: it is of installation %s, and this database is of installation %s: point the gateway at the right one; docs/outages.md says how to begin anew", errOtherHouse, whose, s.snap.InstallationID)
	}
	s.found, err = c.hold(ctx, &s)
	return s, err
}

// hold holds the database to the anchor; null when it keeps all that is remembered.
func (c *comparing) hold(ctx context.Context, s *sight) (*control.Found, error) {
	a, epoch := &s.anchor, s.snap.Epoch.String()
	lost := control.Found{
		State: control.RecoveryRolledBack, LostRevocations: max(0, a.Revocations-s.snap.Revocations()),
		LostUntil: new(a.Written), OldSize: a.Size, OldRoot: a.Root,
	}
	switch {
	case a.Epoch != epoch && a.Pending == epoch:
		s.unfinished = true
		return nil, nil
	case a.Epoch != epoch && a.Installation == "":
		return nil, fmt.Errorf("%w: it is of epoch %s, and this database is of epoch %s; docs/outages.md says what to do", errOtherHouse, a.Epoch, epoch)
	case a.Epoch != epoch:
		lost.LostRows = a.Size
		lost.Message = fmt.Sprintf("this database is of epoch %s, and OpenBao remembers that epoch %s has begun since: %s", epoch, a.Epoch, control.LostText(lost))
		return &lost, nil
	}
	sound, kept, until, err := keeps(ctx, c.store.Pool(), s.snap.Epoch, a)
	if err != nil {
		return nil, err
	}
	lost.LostRows, lost.LostFrom = max(0, a.Size-kept), until
	switch {
	case a.Latched != nil:
		if lost.Message = a.Latched.Message; sound {
			lost.LostRows, lost.LostFrom = 0, nil
		}
		return &lost, nil
	case !sound:
		lost.Message = "this database is older than OpenBao remembers, or was changed: " + control.LostText(lost)
		return &lost, nil
	case s.snap.AuthorityVersion < a.AuthorityVersion, lost.LostRevocations > 0:
		lost.Message = "this database is older than OpenBao remembers: authority was taken away, or the law changed, and it does not know; " + control.LostText(lost)
		return &lost, nil
	}
	return nil, nil
}

// keeps is whether the epoch's tree begins with what is remembered of it; kept is how many of its
// leaves surely are of what is remembered, and until the time of the last of them.
func keeps(ctx context.Context, db tree.DB, epoch uuid.UUID, a *vault.Anchor) (sound bool, kept int64, until *time.Time, err error) {
	if a.Size == 0 {
		return true, 0, nil, nil
	}
	t, err := treeOf(ctx, db, epoch)
	if err != nil || t == nil {
		return false, 0, nil, err
	}
	if t.Size >= a.Size {
		root, err := tree.RootAt(ctx, db, t.Tree, a.Size)
		switch {
		case err == nil && hex.EncodeToString(root[:]) == a.Root:
			return true, a.Size, nil, nil
		case err != nil && !errors.Is(err, tree.ErrMissing):
			return false, 0, nil, err
		}
	}
	// Where the two part is not known: this book may have gone on since it was restored. The last checkpoint
	// that covers no more than is remembered was stored before that, so that what it covers is of both.
	if kept, err = tree.SignedUnder(ctx, db, t.Tree, a.Size); err != nil {
		return false, 0, nil, err
	}
	until, err = tree.RecordedAt(ctx, db, t.Tree, kept-1)
	return false, kept, until, err
}

// treeOf is the tree of an epoch; null when it has none.
func treeOf(ctx context.Context, db tree.DB, epoch uuid.UUID) (*tree.Tree, error) {
	all, err := tree.Trees(ctx, db)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Epoch == epoch {
			return &all[i], nil
		}
	}
	return nil, nil
}

// check compares, and sees to it that what is wrong is latched in the anchor and marked in the
// database, where every replica's next decision finds it. Neither side is mended.
//
//	anchor: latched        the next start or comparison, of any replica, marks it
//	anchor: not to be had  marked in the database all the same; the next comparison latches it
//	database: marked       all of it
func (c *comparing) check(ctx context.Context) (sight, error) {
	for {
		s, err := c.look(ctx)
		if err != nil {
			return s, err
		}
		if s.snap.Epoch != s.marked.OfEpoch {
			continue // recovery was entered meanwhile: what was read is of two epochs
		}
		if s.found == nil {
			return s, c.store.UnmarkOlder(ctx, s.marked)
		}
		if s.found.State == control.RecoveryRolledBack && s.anchor.Latched == nil {
			// Only what nobody wrote meanwhile is latched: a recovery that another replica enters moves both sides.
			_, wrote, err := c.place.Change(ctx, func(a *vault.Anchor) error {
				if !a.Written.Equal(s.anchor.Written) || a.Pending != s.anchor.Pending {
					return errMoved
				}
				a.Latched = &vault.Latch{Message: s.found.Message, Found: time.Now().UTC()}
				return nil
			})
			if errors.Is(err, errMoved) {
				continue
			}
			if err != nil {
				err = fmt.Errorf("latching in OpenBao that the database is older: %w", err)
				if s.anchor.Epoch == s.snap.Epoch.String() {
					// Of one epoch it is so whoever writes meanwhile: what is known is refused by now, and
					// latched when OpenBao can be written again.
					err = errors.Join(err, c.store.MarkFound(ctx, *s.found))
				}
				return s, err
			}
			if err := c.store.RememberAnchor(ctx, int64(wrote)); err != nil {
				return s, err
			}
		}
		before := s.snap.Standing
		if err := c.store.MarkFound(ctx, *s.found); err != nil {
			return s, err
		}
		if s.snap, err = c.store.Refresh(ctx, 0); err != nil {
			return s, err
		}
		if s.snap.Epoch != s.found.OfEpoch {
			continue // recovery was entered before it was marked
		}
		if !before.Doubtful() {
			c.log.ErrorContext(ctx, "applies are refused until recovery was entered", slog.String("cause", s.found.Message))
		}
		return s, nil
	}
}

var errMoved = errors.New("the anchor moved meanwhile")

// run compares on a timer until ctx ends. What cannot be asked now is asked again.
func (c *comparing) run(ctx context.Context) {
	tick := time.NewTicker(compareEvery)
	defer tick.Stop()
	for said := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_, err := c.check(ctx)
		switch {
		case err == nil:
			said = ""
		case ctx.Err() == nil && err.Error() != said:
			said = err.Error()
			c.log.WarnContext(ctx, "the database cannot be compared with what OpenBao remembers; it is tried again", slog.Any("cause", err))
		}
	}
}
