package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"bronzeward/gateway/vault"
)

// memory is an anchor's place as OpenBao keeps it: deleted is true after a soft delete, which
// leaves the version number taken.
type memory struct {
	held    vault.Anchor
	version int
	deleted bool
	// first runs before a write, as another replica would.
	first func(*memory)
	err   error
}

func (m *memory) Read(context.Context) (vault.Anchor, int, error) {
	if m.err != nil || m.deleted {
		return vault.Anchor{}, 0, m.err
	}
	return m.held, m.version, nil
}

func (m *memory) Write(_ context.Context, next vault.Anchor, over int) (int, error) {
	if m.first != nil {
		m.first(m)
	}
	if over != m.version {
		return 0, &vault.Error{Class: vault.ErrRefused, Kind: vault.KindMoved}
	}
	m.held, m.version = next, m.version+1
	return m.version, nil
}

func TestADatabaseOfAnotherEpochIsNotServed(t *testing.T) {
	away := &vault.Error{Doing: "reading the anchor", Class: vault.ErrUnavailable, Kind: vault.KindSealed, Reason: "OpenBao is sealed"}
	of := func(epoch string) func(*memory) {
		return func(m *memory) { m.held, m.version, m.first = vault.Anchor{Epoch: epoch}, 1, nil }
	}
	for name, row := range map[string]struct {
		there memory
		says  string // empty: it is served
		holds string
	}{
		"the first start":               {memory{}, "", "one"},
		"a later start":                 {memory{held: vault.Anchor{Epoch: "one"}, version: 3}, "", "one"},
		"another database":              {memory{held: vault.Anchor{Epoch: "two"}, version: 3}, "OpenBao remembers the epoch two, and this database is of epoch one", "two"},
		"another replica first":         {memory{first: of("one")}, "", "one"},
		"another house's replica first": {memory{first: of("two")}, "OpenBao remembers the epoch two", "two"},
		"deleted":                       {memory{version: 4, deleted: true}, "the anchor in OpenBao was deleted", ""},
		"OpenBao away":                  {memory{err: away}, "OpenBao is sealed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := holdAnchor(t.Context(), &row.there, "one", time.Now())
			if row.says == "" && err != nil || row.says != "" && (err == nil || !strings.Contains(err.Error(), row.says)) {
				t.Errorf("got %v", err)
			}
			if row.there.held.Epoch != row.holds {
				t.Errorf("the anchor is of %q", row.there.held.Epoch)
			}
			if row.there.err != nil && !errors.Is(err, vault.ErrUnavailable) {
				t.Error("the outage's class is lost")
			}
		})
	}
}
