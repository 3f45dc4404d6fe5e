package house

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"bronzeward/gateway/control"
	"bronzeward/gateway/vault"
)

// memory is an anchor that keeps whatever is put into it.
type memory struct {
	held vault.Anchor
	err  error
}

func (m *memory) Forward(_ context.Context, raise func(*vault.Anchor)) (vault.Anchor, error) {
	if m.err != nil {
		return m.held, m.err
	}
	raise(&m.held)
	return m.held, nil
}

// What is in the anchor and is not the caller's stays as it is: acts know nothing of the tree, and
// a start knows nothing of it either.
func TestWhatIsPutIntoTheAnchor(t *testing.T) {
	epoch := uuid.New()
	there := vault.Anchor{Epoch: epoch.String(), Size: 7, Root: "aa", AuthorityVersion: 2, Revocations: 1}
	for name, row := range map[string]struct {
		tell func(anchors) error
		want vault.Anchor
	}{
		"an act": {func(a anchors) error {
			return actsAnchor{a}.ForwardAuthority(t.Context(), epoch, 5, 3)
		}, vault.Anchor{Epoch: epoch.String(), Size: 7, Root: "aa", AuthorityVersion: 5, Revocations: 3}},
		"a start": {func(a anchors) error {
			return raiseAnchor(t.Context(), a, &control.Snapshot{Epoch: epoch, AuthorityVersion: 4})
		}, vault.Anchor{Installation: uuid.Nil.String(), Epoch: epoch.String(), Size: 7, Root: "aa", AuthorityVersion: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory{held: there}
			seen := int64(-1)
			if err := row.tell(watchedAnchors{m, func(size int64) { seen = size }}); err != nil {
				t.Fatal(err)
			}
			if m.held.Written = (time.Time{}); m.held != row.want || seen != 7 {
				t.Errorf("there is %+v, and size %d was seen", m.held, seen)
			}
		})
	}
}

func TestAStartSaysWhyTheAnchorCannotBeHeld(t *testing.T) {
	away := &vault.Error{Doing: "reading the anchor", Class: vault.ErrUnavailable, Kind: vault.KindSealed, Reason: "OpenBao is sealed"}
	err := raiseAnchor(t.Context(), &memory{err: away}, &control.Snapshot{})
	if !errors.Is(err, vault.ErrUnavailable) || !strings.Contains(err.Error(), "OpenBao is sealed") {
		t.Errorf("got %v", err)
	}
}
