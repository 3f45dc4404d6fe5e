package verify

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"
)

// What the matcher could not pair is resolved by look-ups, so that each fault is told once: what is missing by the leaf's
// side, everything else by the row's.

// lookUpRows resolves the rows that met no leaf.
func (m *matcher) lookUpRows(ctx context.Context) error {
	rows := slices.Collect(maps.Values(m.rows))
	clear(m.rows)
	for _, o := range m.odd { // rows whose id another row took
		if o.leaf.id == uuid.Nil {
			rows = append(rows, o.row)
		}
	}
	m.odd = slices.DeleteFunc(m.odd, func(o pair) bool { return o.leaf.id == uuid.Nil })
	for batch := range slices.Chunk(rows, lookBatch) {
		if err := m.resolveRows(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

func (m *matcher) resolveRows(ctx context.Context, rows []row) error {
	ids := make([]uuid.UUID, len(rows))
	for i := range rows {
		ids[i] = rows[i].id
	}
	leaves, err := m.look.leavesOf(ctx, ids)
	if err != nil {
		return err
	}
	var without []row
	var same []pair
	for _, r := range rows {
		list := leaves[r.id]
		i := slices.IndexFunc(list, func(l leaf) bool { return l.at == r.at && l.source == r.source })
		switch {
		case len(list) == 0:
			without = append(without, r)
		case i < 0:
			m.odd = append(m.odd, pair{r, list[0]})
		case list[i].hash != r.hash:
			m.unequal(&r, &list[i])
		default:
			same = append(same, pair{r, list[i]})
		}
	}
	if err := m.resolveSame(ctx, same); err != nil {
		return err
	}
	return m.resolveLeafless(ctx, without)
}

// resolveSame looks whether a row that agrees with its leaf, and did not meet it, is there twice.
func (m *matcher) resolveSame(ctx context.Context, same []pair) error {
	for _, t := range []*table{entries, outcomes} {
		keys := []key{}
		for _, p := range same {
			if p.row.source == t.source {
				keys = append(keys, key{p.row.at, p.row.id})
			}
		}
		if len(keys) == 0 {
			continue
		}
		counts, err := m.look.counts(ctx, t.name, keys)
		if err != nil {
			return err
		}
		for _, p := range same {
			switch {
			case p.row.source != t.source:
			case counts[key{p.row.at, p.row.id}] > 1:
				if k := (key{p.row.at, p.row.id}); m.doubles[k] {
					continue
				} else if len(m.doubles) < candidateLimit {
					m.doubles[k] = true
				}
				f := aboutRow(Inserted, &p.row, "the same row is there twice")
				f.Tree, f.Indexes = p.leaf.tree, at(p.leaf.index)
				m.found.add(f)
			case p.row.differs != 0:
				m.columns(&p.row, &p.leaf)
			}
		}
	}
	return nil
}

// resolveLeafless tells rows that wait for their leaf from those that are in neither place.
func (m *matcher) resolveLeafless(ctx context.Context, rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	keys := make([]key, len(rows))
	for i, r := range rows {
		keys[i] = key{r.at, r.id}
	}
	waits, err := m.look.counts(ctx, "unsequenced", keys)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if waits[key{r.at, r.id}] > 0 {
			m.waiting++
			if r.differs != 0 {
				m.columns(&r, nil)
			}
			continue
		}
		f := aboutRow(Inserted, &r, "the row is in neither place: it has no leaf and does not wait for one; it was put in past the book, or its place was taken out")
		f.Differs = r.table().names(r.differs)
		m.bushes.leafless(&r)
		m.found.add(f)
	}
	return nil
}

// lookUpLeaves resolves the leaves that met no row.
func (m *matcher) lookUpLeaves(ctx context.Context) error {
	leaves := slices.Collect(maps.Values(m.leaves))
	clear(m.leaves)
	for batch := range slices.Chunk(leaves, lookBatch) {
		for _, t := range []*table{entries, outcomes} {
			var own []leaf
			var keys []key
			for _, l := range batch {
				if l.source == t.source {
					own, keys = append(own, l), append(keys, key{l.at, l.id})
				}
			}
			if len(own) == 0 {
				continue
			}
			counts, err := m.look.counts(ctx, t.name, keys)
			if err != nil {
				return err
			}
			if err := m.resolveLeaves(ctx, own, counts); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *matcher) resolveLeaves(ctx context.Context, leaves []leaf, counts map[key]int) error {
	var here []uuid.UUID
	for _, l := range leaves {
		if counts[key{l.at, l.id}] > 0 {
			here = append(here, l.id) // its row is told of by the row's side
		} else if len(m.missing) < m.found.limit {
			m.missing = append(m.missing, l)
		} else {
			m.lost++
		}
	}
	if len(here) == 0 {
		return nil
	}
	all, err := m.look.leavesOf(ctx, here)
	if err != nil {
		return err
	}
	for _, l := range leaves {
		for _, other := range all[l.id] {
			if other.tree < l.tree || other.tree == l.tree && other.index < l.index {
				m.twice(&other, &l)
				break
			}
		}
	}
	return nil
}

// lookUpOdd resolves rows whose leaf says another time or table. If the leaf's own row is there too, the other was put in
// with its id; if not, it is that row.
func (m *matcher) lookUpOdd(ctx context.Context) error {
	odd := m.odd
	m.odd = nil
	for batch := range slices.Chunk(odd, lookBatch) {
		for _, t := range []*table{entries, outcomes} {
			var keys []key
			for _, o := range batch {
				if o.leaf.source == t.source {
					keys = append(keys, key{o.leaf.at, o.leaf.id})
				}
			}
			if len(keys) == 0 {
				continue
			}
			counts, err := m.look.counts(ctx, t.name, keys)
			if err != nil {
				return err
			}
			for _, o := range batch {
				if o.leaf.source == t.source {
					m.tellOdd(o, counts[key{o.leaf.at, o.leaf.id}] > 0)
				}
			}
		}
	}
	return nil
}

func (m *matcher) tellOdd(o pair, both bool) {
	f := aboutRow(Inserted, &o.row, "its id is that of another row, which is here as well")
	if f.Tree, f.Indexes = o.leaf.tree, at(o.leaf.index); !both {
		f.Kind = Changed
		if o.row.at != o.leaf.at {
			f.Differs = append(f.Differs, "recorded_at")
		}
		if o.row.source != o.leaf.source {
			f.Differs = append(f.Differs, "table")
		}
		f.Differs = append(f.Differs, o.row.table().names(o.row.differs)...)
		f.Text = "the row is not where its leaf says: that was recorded at " + moment(o.leaf.at).Format("2006-01-02T15:04:05.000000Z") + " in " + tableOf(o.leaf.source).name
	}
	m.found.add(f)
}

// lookElsewhere looks for missing rows by their id alone, in both tables, and tells of those that are nowhere. Rows that
// are elsewhere within the range were met, and told of.
func (m *matcher) lookElsewhere(ctx context.Context) error {
	var ids []uuid.UUID
	for _, l := range m.missing {
		ids = append(ids, l.id)
	}
	found := map[uuid.UUID]row{}
	for _, t := range []*table{entries, outcomes} {
		if len(ids) == 0 {
			break
		}
		where, err := m.look.elsewhere(ctx, t.name, ids)
		if err != nil {
			return err
		}
		for id, at := range where {
			found[id] = row{at: at, id: id, source: t.source}
		}
	}
	for _, l := range m.missing {
		moved, is := found[l.id]
		switch {
		case is && m.inRange(moved.at):
		case is:
			m.tellOdd(pair{moved, l}, false)
		default:
			m.found.add(Finding{
				Kind: Missing, Table: tableOf(l.source).name, ID: l.id, RecordedAt: moment(l.at), Tree: l.tree, Indexes: at(l.index),
				Text: "the row of this leaf is not here: it was deleted",
			})
		}
	}
	m.found.count(Missing, m.lost)
	return nil
}
