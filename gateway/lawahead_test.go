package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"bronzeward/gateway/control"
	"bronzeward/policy"
	"bronzeward/policytest/lawsign"
)

// loads is how many laws came into a gateway's engine in that way.
func loads(t testing.TB, from prometheus.Gatherer, how string) float64 {
	t.Helper()
	for _, family := range must(from.Gather())(t) {
		for _, m := range family.GetMetric() {
			if family.GetName() == "bronzeward_policy_loads_total" && m.GetLabel()[0].GetValue() == how {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("nobody counts what was loaded %s", how)
	return 0
}

// heard waits until so many replicas have told of themselves and have the live law.
func (h *house) heard(t testing.TB, n int) {
	t.Helper()
	eventually(t, "the replicas to have told", func() bool {
		all := h.replicas(t)
		return len(all.List) == n && all.Agree() == control.AgreeYes
	})
}

func ladderLaw(t testing.TB, code string) *policy.Bundle {
	t.Helper()
	return must(policy.OverlayFiles(must(shippedLaw())(t).bundle, policy.File{Path: "bronzeward/data.yaml", Body: []byte("ladder: {" + code + ": warn}\n")}))(t)
}

// unpreparing is an engine that compiles nothing ahead.
type unpreparing struct{ *policy.Engine }

func (unpreparing) Prepare(context.Context, *policy.Bundle) error {
	return errors.New("this binary is too old for the law")
}

// A law that becomes live while two replicas answer calls is compiled on both before, and by no call; each call is
// judged by the law that was live at its authority version, and by no other (I11). The control is the second replica
// when it cannot prepare: it loads the law when it is live, as slowly as any, and judges as rightly.
func TestALawIsCompiledBeforeItIsLive(t *testing.T) {
	t.Parallel()
	for _, able := range []bool{true, false} {
		first, second := prometheus.NewRegistry(), prometheus.NewRegistry()
		h := newHouse(t, func(s *setup) {
			s.ownEngine = true
			s.gateway = func(c *Config) { c.Registry = first }
		})
		engine := policy.New(policy.EngineConfig{})
		other := h.beside(t, "gw-2", func(c *Config) {
			c.Registry, c.Judge = second, engine
			if !able {
				c.Judge = unpreparing{engine}
			}
		})
		follows(t, h.gw)
		follows(t, other)
		there := h.at(t, other)
		h.heard(t, 2)
		was := loads(t, second, loadCompiled)

		var stop atomic.Bool
		var calling sync.WaitGroup
		for _, at := range []*house{h, there} {
			olga := at.as(t, "olga")
			calling.Go(func() {
				for !stop.Load() {
					if a := olga.version(t, "w1"); a.code() != codes.OK {
						t.Errorf("a call while a law becomes live: %v", a.err)
						return
					}
				}
			})
		}
		laws := []string{h.store.Snapshot().LiveRevision}
		acts, sven := h.acts(), h.actor(t, "sven")
		for _, code := range []string{"BW-TEST-001", "BW-TEST-002"} {
			law := ladderLaw(t, code)
			laws = append(laws, law.Revision())
			must(acts.Activate(context.Background(), sven, tried(law), nil))(t)
			h.heard(t, 2)
			ok(t, h.as(t, "olga").version(t, "w1").err)
			ok(t, there.as(t, "olga").version(t, "w1").err)
		}
		must(acts.Rollback(context.Background(), sven, tried(must(acts.SavedLaw(context.Background(), "previous"))(t)), nil))(t)
		h.heard(t, 2)
		stop.Store(true)
		calling.Wait()

		wantPrepared, wantCompiled, said := 3.0, 0.0, "compiled ahead by 2 of 2 replicas"
		if !able { // the rollback's law has stayed from before
			wantPrepared, wantCompiled, said = 1, 2, "compiled ahead by 1 of 2 replicas"
		}
		if p, c := loads(t, second, loadPrepared), loads(t, second, loadCompiled)-was; p != wantPrepared || c != wantCompiled {
			t.Errorf("able %v: the second loaded %v prepared and %v by compiling, want %v and %v", able, p, c, wantPrepared, wantCompiled)
		}
		if p := loads(t, first, loadPrepared); p != 3 {
			t.Errorf("able %v: the first loaded %v prepared", able, p)
		}
		// Each law is compiled once on a replica: the first one it began with, and two.
		for what, e := range map[string]*policy.Engine{"first": h.gw.judge.(*policy.Engine), "second": engine} {
			if n := e.Compilations(); n != 3 {
				t.Errorf("able %v: the %s compiled %d times", able, what, n)
			}
		}
		if n := h.count(t, "select count(*) from audit.entries where method = 'policy.activate' and convert_from(record, 'UTF8') like '%' || $1 || '%'", said); n != 2 {
			t.Errorf("able %v: %d activations say %q", able, n, said)
		}
		if n := h.count(t, "select count(*) from audit.entries where method in ('policy.activate', 'policy.rollback')"); n != 3 {
			t.Errorf("able %v: %d entries of three acts", able, n)
		}
		if wrong := h.texts(t, `with live as (
				select a.revision, e.authority_version from control.bundle_activations a join audit.entries e on e.id = a.entry_id
				where e.method in ('policy.activate', 'policy.rollback'))
			select e.policy_revision || ' at ' || e.authority_version from audit.entries e where e.method like '/machine%' and e.policy_revision is distinct from
				coalesce((select l.revision from live l where l.authority_version <= e.authority_version order by l.authority_version desc limit 1), $1)`, laws[0]); len(wrong) > 0 {
			t.Errorf("able %v: judged by another law than the live one: %q", able, wrong)
		}
	}
}

// A law that is prepared is not used once what proves it is gone from the database, nor by a replica that does
// not pin its key. The control leaves the proof where it is, and the law is used without being compiled again.
func TestAPreparedLawIsNoLawWithoutItsProof(t *testing.T) {
	t.Parallel()
	key, other := must(lawsign.New())(t), must(lawsign.New())(t)
	for _, row := range []struct {
		name     string
		pinned   policy.Keys
		takeAway string
		prepared bool
		says     string // of the refusal; empty: it serves
		how      string // it was loaded; empty: not
	}{
		{"nothing is taken away", policy.Keys{"2026": pinnedKey(key)}, "", true, "", loadPrepared},
		{"its proof is", policy.Keys{"2026": pinnedKey(key)}, "delete from control.bundle_signatures", true, "is saved without a signature", ""},
		{"its proof is another one", policy.Keys{"2026": pinnedKey(key)}, "update control.bundle_signatures set manifest = convert_to('{\"metadata\": {\"bronzeward\": {\"counter\": 9}}}', 'UTF8')", true, "is signed by none of the keys", ""},
		{"its proof is another good one", policy.Keys{"2026": pinnedKey(key)}, "update control.bundle_signatures set manifest = manifest || ' '", true, "", loadCompiled},
		{"its bytes are others", policy.Keys{"2026": pinnedKey(key)}, "update control.bundles set content = 'other' where revision = $1", true, "", loadPrepared},
		{"its key is not pinned", policy.Keys{"2025": pinnedKey(other)}, "", false, "the key 2026 is missing", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			ctx, registry := context.Background(), prometheus.NewRegistry()
			h := newHouse(t, func(s *setup) {
				s.ownEngine = true
				s.gateway = func(c *Config) { c.LawKeys, c.Registry = row.pinned, registry }
			})
			law := signedLaw(t, key, 7, "BW-TEST-001")
			proof := &control.BundleProof{KeyID: "2026", Counter: 7, Signatures: law.Proof().Signatures, Manifest: law.Proof().Manifest}
			must(h.store.SaveBundle(ctx, law.Revision(), law.Bytes(), proof, admin("policy.save")))(t)
			ok(t, h.store.AskPrepared(ctx, law.Revision()))
			engine := h.gw.judge.(*policy.Engine)
			h.gw.laws.prepare(ctx, h.gw, must(h.store.AskedLaws(ctx))(t))
			told := h.gw.laws.ahead.told(engine)
			if slices.Contains(told.Prepared, law.Revision()) != row.prepared || slices.Contains(told.Unprepared, law.Revision()) == row.prepared || len(told.Preparing) > 0 {
				t.Fatalf("it tells %+v", told)
			}
			compiled := engine.Compilations()
			if row.takeAway != "" { // by who owns the database: nobody else can
				ok(t, h.db.Exec(ctx, "alter table control.bundle_signatures disable trigger user"))
				ok(t, h.db.Exec(ctx, "alter table control.bundles disable trigger user"))
				if strings.Contains(row.takeAway, "$1") {
					ok(t, h.db.Exec(ctx, row.takeAway, law.Revision()))
				} else {
					ok(t, h.db.Exec(ctx, row.takeAway))
				}
			}
			must(h.store.ActivateBundle(ctx, control.NewLive{Revision: law.Revision(), Way: control.WayActivate}, admin("policy.activate")))(t)
			must(h.store.Refresh(ctx, 0))(t)
			a := h.as(t, "olga").version(t, "w1")
			if row.says == "" {
				if a.code() != codes.OK || engine.Compilations() != compiled || loads(t, registry, row.how) != 1 {
					t.Errorf("%v; compiled %d times more", a.err, engine.Compilations()-compiled)
				}
				return
			}
			if a.code() != codes.PermissionDenied || !strings.Contains(a.text(), "DENIED BW-POLICY-001") || !strings.Contains(a.text(), row.says) {
				t.Errorf("it answers %v", a.err)
			}
			if engine.Revision() == law.Revision() || loads(t, registry, loadPrepared) != 0 {
				t.Error("it is the engine's law")
			}
			h.untouched(t, "w1")
		})
	}
}
