package control

import "context"

// HoldCounts is how many machines in service are held, and why.
type HoldCounts struct {
	// Frozen by people, Unresolved by an attempt nobody can answer for yet.
	Frozen, Unresolved int64
	// Staged are those whose persistent configuration was not the active one when they were last
	// observed: their next reboot would bring it. It holds nothing.
	Staged int64
}

// CountHolds counts them in the whole installation.
func (s *Store) CountHolds(ctx context.Context) (n HoldCounts, err error) {
	if err := s.pool.QueryRow(ctx, sqlHoldsCount).Scan(&n.Frozen, &n.Unresolved, &n.Staged); err != nil {
		return n, unavailable("counting what is held", err)
	}
	return n, nil
}
