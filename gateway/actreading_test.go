package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"bronzeward/audit"
	"bronzeward/policy"
)

// A reading's first entry says what was asked, in the words it is looked up by; what goes on under it leaves none, until
// the law or a revocation refuses it.
func TestAReadingGoesOnWithoutAnEntryWhileItsReaderMay(t *testing.T) {
	h := newHouse(t, func(s *setup) { s.workers = 0 })
	a, ctx, by := h.acts(), context.Background(), h.actor(t, "rhea")
	subject := "reading 0123456789abcdef0123456789abcdef " + strings.Repeat("machine=worker-1 ", 40) + `path=machine.nodeLabels["a"]`
	id := must(a.Read(ctx, by, "decisions.read", subject))(t).ID
	row := must(audit.NewReader(h.store.Pool()).Get(ctx, id))(t)
	e := must(audit.ParseEntry(row.Record))(t)
	var act policy.Act
	if err := json.Unmarshal(e.Facts, &act); err != nil || act.Subject != subject || act.Act != "decisions.read" || e.Method != act.Act ||
		e.Kind != audit.KindHTTP || e.Verdict != audit.Allowed || e.Epoch != h.store.Snapshot().Epoch || e.Caller.Subject != "rhea" {
		t.Fatalf("%+v, %v", e, err)
	}
	entries := func() int { return h.count(t, "select count(*) from audit.entries where class = 'act'") }
	before := entries()
	if err := a.Continue(ctx, by, "decisions.read", subject); err != nil || entries() != before {
		t.Fatalf("%v, %d entries more", err, entries()-before)
	}
	refused := func(name string, by Actor, code string) {
		t.Helper()
		before := entries()
		err := a.Continue(ctx, by, "decisions.read", subject)
		var denied *DeniedAct
		if !errors.As(err, &denied) || denied.Decision.Codes()[0] != code || entries() != before+1 {
			t.Errorf("%s: %v, %d entries more", name, err, entries()-before)
		}
	}
	refused("no role", h.actor(t, "olga"), "BW-ACT-003")
	must(h.store.RevokeIdentity(ctx, policy.Person{Issuer: issuer, Subject: "rhea"}, "left", admin("identities.revoke")))(t)
	refused("revoked meanwhile", by, "BW-ACT-001")
}
