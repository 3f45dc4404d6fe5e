package verify

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// pendingLimit is how many rows, and how many leaves, wait in memory for the other side. What is beyond is looked up.
const pendingLimit = 1 << 17

// matcher pairs rows with leaves by id. Leaves lie nearly in the order of recorded_at, so that few wait for long.
type matcher struct {
	found   *findings
	look    *lookups
	covers  coverage
	bushes  *suspects
	pending int   // rows, and leaves, that wait at most
	since   int64 // of recorded_at; rows and leaves outside are not paired
	until   int64
	accepts map[string]bool // months whose records may be away

	rows    map[uuid.UUID]row
	leaves  map[uuid.UUID]leaf
	odd     []pair // the same id, at different times or in different tables
	away    map[monthOf]int64
	missing []leaf       // whose rows may be elsewhere, looked for once
	lost    int64        // further ones
	doubles map[key]bool // rows told to be there twice, at most candidateLimit
	waiting int64        // rows that have no leaf yet and stand in unsequenced

	high   int64  // the latest time of the leaves that were paired with rows
	passed []leaf // those that were not since the last that was, at most passedLimit
}

type pair struct {
	row  row
	leaf leaf
}

// monthOf is a month of a table.
type monthOf struct {
	month string // 2026-01, UTC
	table string
}

func newMatcher(found *findings, look *lookups) *matcher {
	return &matcher{
		found: found, look: look, pending: pendingLimit, rows: map[uuid.UUID]row{}, leaves: map[uuid.UUID]leaf{},
		away: map[monthOf]int64{}, accepts: map[string]bool{}, doubles: map[key]bool{},
	}
}

// run takes the rows of all chunks, each from the reader that has it, and leaves in step with them.
func (m *matcher) run(ctx context.Context, list []chunk, readers []*rowReader, leaves <-chan []leaf) error {
	var taken int64
	for i, c := range list {
		in := readers[i%len(readers)].out
		for ended := false; !ended; {
			select {
			case <-ctx.Done():
				return errStop
			case batch := <-in:
				ended = len(batch) == 0
				for k := range batch {
					m.addRow(&batch[k])
				}
			}
			if err := m.relieve(ctx); err != nil {
				return err
			}
		}
		for open := true; open && (taken < c.leaves || i == len(list)-1); {
			var batch []leaf
			select {
			case <-ctx.Done():
				return errStop
			case batch, open = <-leaves:
			}
			taken += int64(len(batch))
			for k := range batch {
				m.addLeaf(&batch[k])
			}
			if err := m.relieve(ctx); err != nil {
				return err
			}
		}
	}
	return m.end(ctx)
}

func (m *matcher) addRow(r *row) {
	if l, ok := m.leaves[r.id]; ok {
		delete(m.leaves, r.id)
		m.pair(r, &l)
		return
	}
	if other, twice := m.rows[r.id]; twice {
		m.odd = append(m.odd, pair{row: other})
	}
	m.rows[r.id] = *r
}

func (m *matcher) addLeaf(l *leaf) {
	if !m.inRange(l.at) || !m.covers.has(l.source, l.at) {
		m.pass(l)
		return
	}
	for i := range m.passed {
		if p := &m.passed[i]; p.at-m.slack(p) > l.at {
			m.misplaced(p)
		}
	}
	m.high, m.passed = max(m.high, l.at), m.passed[:0]
	m.take(l)
}

const (
	// orderSlack is how far the times of leaves may be from the order of the tree: a transaction may be open for long.
	orderSlack = int64(time.Hour / time.Microsecond)
	// passedLimit is how many leaves in a row are remembered that were passed over.
	passedLimit = 4096
)

// slack is nothing where a row can be looked up.
func (m *matcher) slack(l *leaf) int64 {
	if m.covers.has(l.source, l.at) {
		return 0
	}
	return orderSlack
}

// pass passes over a leaf whose row is not read, because its time is outside of the range or of a month that is away. The
// tree's hashes do not hold the time that a leaf says beside its hash, so that somebody who took a row out may have moved its
// leaf there: then it stands among leaves of another time.
func (m *matcher) pass(l *leaf) {
	switch {
	case m.high != 0 && l.at < m.high-m.slack(l):
		m.misplaced(l)
		return
	case len(m.passed) < passedLimit:
		m.passed = append(m.passed, *l)
	case l.at > m.passed[passedLimit-1].at:
		m.passed[passedLimit-1] = *l
	}
	if m.inRange(l.at) {
		m.away[monthOf{moment(l.at).Format("2006-01"), tableOf(l.source).name}]++
	}
}

// misplaced looks for the row of a leaf whose time is not that of its neighbours. Where the row can be there it is looked
// up; of a month that is away it cannot, and the leaf is told of.
func (m *matcher) misplaced(l *leaf) {
	if m.covers.has(l.source, l.at) {
		m.take(l)
		return
	}
	m.found.add(Finding{
		Kind: Leaf, Table: "leaves", Tree: l.tree, Indexes: at(l.index), ID: l.id, RecordedAt: moment(l.at), Differs: []string{"recorded_at"},
		Text: "this leaf says a time for which the book has no partition, and stands among leaves of another time: either its time was changed, to hide that its row is gone, or the database's clock was wrong",
	})
}

func (m *matcher) take(l *leaf) {
	if r, ok := m.rows[l.id]; ok {
		delete(m.rows, l.id)
		m.pair(&r, l)
		return
	}
	if other, twice := m.leaves[l.id]; twice {
		m.twice(&other, l)
	}
	m.leaves[l.id] = *l
}

func (m *matcher) inRange(micros int64) bool {
	return micros >= m.since && (m.until == 0 || micros < m.until) || m.since == 0 && m.until == 0
}

// pair compares a row with the leaf of its id.
func (m *matcher) pair(r *row, l *leaf) {
	switch {
	case r.at != l.at || r.source != l.source:
		m.odd = append(m.odd, pair{*r, *l})
	case r.hash != l.hash:
		m.unequal(r, l)
	case r.differs != 0:
		m.columns(r, l)
	}
}

// unequal tells of a row that is not the one of its leaf.
func (m *matcher) unequal(r *row, l *leaf) {
	f := aboutRow(Changed, r, "the row is not the one that was sequenced: it does not give its leaf")
	f.Tree, f.Indexes, f.Differs = l.tree, at(l.index), append([]string{"record"}, without(r.table().names(r.differs), "record")...)
	m.bushes.substitute(l, r.hash)
	m.found.add(f)
}

func without(list []string, word string) []string {
	var out []string
	for _, s := range list {
		if s != word {
			out = append(out, s)
		}
	}
	return out
}

// columns tells of a row whose record is sound and whose columns are not its projections.
func (m *matcher) columns(r *row, l *leaf) {
	f := aboutRow(Column, r, "columns are not what the record beside them says")
	if f.Differs = r.table().names(r.differs); r.differs&badRecord != 0 {
		f.Text = "the record is not in the canonical form, or its columns are not what it says"
	}
	if l != nil {
		f.Tree, f.Indexes = l.tree, at(l.index)
	}
	m.found.add(f)
}

func (m *matcher) twice(a, b *leaf) {
	m.found.add(Finding{
		Kind: Leaf, Table: "leaves", Tree: b.tree, Indexes: at(b.index), ID: b.id, RecordedAt: moment(b.at),
		Others: []Place{a.place()}, Text: "its id has another leaf already",
	})
}

func aboutRow(kind Kind, r *row, text string) Finding {
	return Finding{Kind: kind, Table: r.table().name, ID: r.id, RecordedAt: moment(r.at), Text: text}
}

// relieve looks up what waits for too long, so that memory does not grow with the book.
func (m *matcher) relieve(ctx context.Context) error {
	if len(m.rows) > m.pending {
		if err := m.lookUpRows(ctx); err != nil {
			return err
		}
	}
	if len(m.leaves) > m.pending {
		if err := m.lookUpLeaves(ctx); err != nil {
			return err
		}
	}
	if len(m.odd) > m.pending {
		if err := m.lookUpRows(ctx); err != nil {
			return err
		}
		return m.lookUpOdd(ctx)
	}
	return nil
}

func (m *matcher) end(ctx context.Context) error {
	for _, f := range []func(context.Context) error{m.lookUpRows, m.lookUpLeaves, m.lookUpOdd, m.lookElsewhere} {
		if err := f(ctx); err != nil {
			return err
		}
	}
	for k, n := range m.away {
		if m.accepts[k.month] {
			continue
		}
		m.found.add(Finding{
			Kind: Detached, Table: k.table, Rows: n,
			Text: "records of " + k.month + " are not here: no partition of audit." + k.table + " has that month; if you detached it, say --detached " + k.month,
		})
	}
	return nil
}

// coverage says which times the partitions of each table have.
type coverage map[byte][][2]int64

func (c coverage) has(source byte, at int64) bool {
	for _, r := range c[source] {
		if at >= r[0] && at < r[1] {
			return true
		}
	}
	return false
}

// month is the beginning of a month as --detached names it.
func month(text string) (string, error) {
	t, err := time.Parse("2006-01", text)
	if err != nil {
		return "", err
	}
	return t.Format("2006-01"), nil
}
