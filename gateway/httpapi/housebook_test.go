package httpapi

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"bronzeward/audit"
	"bronzeward/audit/tree"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

// shelf is the book of the stub: rows oldest first, each sequenced as leaf number of its place unless it waits.
type shelf struct {
	rows        []audit.Row
	readings    []audit.Row // entries that Read wrote
	waits       map[uuid.UUID]bool
	checkpoints []audit.StoredCheckpoint
	prove       error
	uncounted   error
	asked       audit.Filter // of the last list
	page        audit.Page
	inOrder     int // how often it was read in order
}

func newShelf(at time.Time) *shelf {
	s := &shelf{waits: map[uuid.UUID]bool{}}
	for i, who := range []string{"vera", "otto", "vera"} {
		s.rows = append(s.rows, shelved(numbered(40+i), who, at.Add(time.Duration(i)*time.Minute)))
	}
	s.rows[2].AttemptID, s.rows[2].ChangeID = numbered(21), newChangeID
	s.rows[2].Last = &audit.OutcomeRow{ID: numbered(51), RecordedAt: at, Kind: audit.OutcomeAnswered, Code: "OK", Duration: time.Millisecond}
	s.rows[2].Outcomes = []audit.OutcomeRow{{ID: numbered(51), RecordedAt: at, Record: []byte(`{"v":1}`)}}
	s.checkpoints = []audit.StoredCheckpoint{
		{Tree: 2, Origin: "bronzeward/a/b", Epoch: numbered(99), Size: 2, Root: make([]byte, 32), SignedAt: at, Note: "n2"},
		{Tree: 1, Origin: "bronzeward/a/a", Epoch: numbered(98), Size: 9, Root: make([]byte, 32), SignedAt: at, Note: "n1"},
	}
	return s
}

var newChangeID = "chg_" + strings.Repeat("0", 26)

func shelved(id uuid.UUID, who string, at time.Time) audit.Row {
	e := audit.Entry{ID: id, Kind: audit.KindRPC, Verdict: audit.Allowed, Method: "/m", Caller: audit.Caller{Issuer: "https://id.example", Subject: who}}
	return audit.Row{
		RecordedAt: at, ID: id, Kind: e.Kind, Verdict: e.Verdict, Method: e.Method, Issuer: e.Caller.Issuer, Subject: who, Record: e.Record(), Count: 1,
	}
}

// reads keeps the entry of a reading, as Acts.Read writes it.
func (h *house) reads(id uuid.UUID, by identity.Actor, act, subject string, verdict audit.Verdict) {
	facts, _ := json.Marshal(policy.Act{Version: policy.FactsVersion, Act: act, Subject: subject})
	e := audit.Entry{
		ID: id, Kind: audit.KindHTTP, Verdict: verdict, Method: act, Class: "act", Epoch: h.epoch,
		Caller: audit.Caller{Issuer: by.Caller.Issuer, Subject: by.Caller.Subject}, Facts: facts, Detail: subject,
	}
	h.shelf.readings = append(h.shelf.readings, audit.Row{ID: id, RecordedAt: h.now, Issuer: by.Caller.Issuer, Subject: by.Caller.Subject, Record: e.Record()})
}

func (h *house) Continue(_ context.Context, _ identity.Actor, act, _ string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.denies[act]; err != nil {
		if _, away := h.write("denied", act); away != nil {
			return away
		}
		return err
	}
	return nil
}

func (h *house) List(_ context.Context, f audit.Filter, p audit.Page) ([]audit.Row, audit.Cursor, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shelf.asked, h.shelf.page = f, p
	rows := slices.DeleteFunc(slices.Clone(h.shelf.rows), func(r audit.Row) bool { return !wants(f, &r) })
	if p.Order == audit.NewestFirst {
		slices.Reverse(rows)
	}
	if !p.After.IsZero() {
		after := slices.IndexFunc(rows, func(r audit.Row) bool { return r.Cursor() == p.After })
		rows = rows[after+1:]
	}
	if len(rows) <= p.Limit {
		return rows, audit.Cursor{}, h.read
	}
	return rows[:p.Limit], rows[p.Limit-1].Cursor(), h.read
}

func (h *house) Count(_ context.Context, f audit.Filter) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int64(len(slices.DeleteFunc(slices.Clone(h.shelf.rows), func(r audit.Row) bool { return !wants(f, &r) }))), h.shelf.uncounted
}

func wants(f audit.Filter, r *audit.Row) bool {
	return (f.Subject == "" || f.Subject == r.Subject && f.Issuer == r.Issuer) && (f.Verdict == "" || f.Verdict == r.Verdict) &&
		(f.Until.IsZero() || r.RecordedAt.Before(f.Until)) && !r.RecordedAt.Before(f.Since)
}

func (h *house) Get(_ context.Context, id uuid.UUID) (audit.Row, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range slices.Concat(h.shelf.rows, h.shelf.readings) {
		if r.ID == id {
			return r, h.read
		}
	}
	return audit.Row{}, audit.ErrNotFound
}

func (h *house) GetOf(ctx context.Context, id uuid.UUID, issuer, subject string) (audit.Row, error) {
	r, err := h.Get(ctx, id)
	if err == nil && (r.Issuer != issuer || r.Subject != subject) {
		return audit.Row{}, audit.ErrNotFound
	}
	return r, err
}

func (h *house) InOrder(_ context.Context, f audit.Filter, p audit.OrderPage) ([]audit.Placed, audit.Place, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shelf.asked = f
	h.shelf.inOrder++
	var out []audit.Placed
	at := p.After
	for i := range h.shelf.rows {
		r, place := h.shelf.rows[i], audit.Place{Tree: 1, Index: int64(i)}
		if h.shelf.waits[r.ID] || p.After.Tree == 1 && place.Index <= p.After.Index {
			continue
		}
		at = place
		if wants(f, &r) {
			out = append(out, audit.Placed{Place: place, ID: r.ID, Entry: &r})
		}
	}
	return out, at, h.read
}

func (h *house) Head(context.Context) (audit.Place, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.shelf.rows) - 1; i >= 0; i-- {
		if !h.shelf.waits[h.shelf.rows[i].ID] {
			return audit.Place{Tree: 1, Index: int64(i)}, h.read
		}
	}
	return audit.Place{}, h.read
}

func (h *house) PlaceOf(_ context.Context, id uuid.UUID) (audit.Place, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.shelf.rows, func(r audit.Row) bool { return r.ID == id })
	switch {
	case i < 0:
		return audit.Place{}, audit.ErrNotFound
	case h.shelf.waits[id]:
		return audit.Place{}, audit.ErrNotSequenced
	}
	return audit.Place{Tree: 1, Index: int64(i)}, nil
}

func (h *house) CheckpointsBefore(_ context.Context, number int32, size int64, limit int) ([]audit.StoredCheckpoint, error) {
	all := slices.DeleteFunc(slices.Clone(h.shelf.checkpoints), func(c audit.StoredCheckpoint) bool {
		return number != 0 && (c.Tree > number || c.Tree == number && c.Size >= size)
	})
	return all[:min(len(all), limit)], h.read
}

func (h *house) Prove(ctx context.Context, id uuid.UUID) (tree.Proof, error) {
	if _, err := h.Get(ctx, id); err != nil {
		return tree.Proof{}, tree.ErrNotFound
	}
	return tree.Proof{V: tree.ProofVersion, Checkpoints: []string{}, Outcomes: []tree.Inclusion{}}, h.shelf.prove
}

func (h *house) Consistency(_ context.Context, number int32, older, newer int64) (tlog.TreeProof, error) {
	if h.shelf.prove == nil && (number != 2 || newer > 2) {
		return nil, tree.ErrMissing
	}
	return tlog.TreeProof{tlog.Hash{byte(older)}, tlog.Hash{byte(newer)}}, h.shelf.prove
}

// by is the stub's caller.
func by(w *world) identity.Actor { return identity.Actor{Caller: w.caller} }
