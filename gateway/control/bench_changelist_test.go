package control

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit"
)

// crowded fills the database with so many waiting changes of anna's on the machines, and so
// many that have ended, as months of use leave them behind.
func (w *world) crowded(b *testing.B, s *Store, fleet []Machine, waiting, ended int) {
	b.Helper()
	for i := range waiting {
		n := benchProposal(fleet[i%len(fleet)], 15<<10)
		n.Digest = fmt.Sprintf("hmac-sha256:k1:%064d", i)
		propose(b, s, anna, n)
	}
	w.exec(b, `with old as (
			insert into control.changes
			select gen_random_uuid(), c.entry_id, c.machine_id, c.cluster, c.kind, c.mode, c.try_timeout, c.digest, c.size, c.base_active,
				c.base_persistent, c.node_id, c.talos_cluster_id, c.smbios, c.epoch, c.binding, c.set_name, c.issuer, c.subject,
				c.created_at - n * interval '1 minute', c.approve_by - n * interval '1 minute', c.use_within
			from generate_series(1, $1) n join (select *, row_number() over () as r from control.changes) c on c.r = 1 + n % 50
			returning *),
		reviewed as (insert into control.change_reviews (change_id, changes, discards, warnings)
			select o.id, r.changes, r.discards, r.warnings from old o, (select * from control.change_reviews limit 1) r)
		insert into control.change_states (change_id, machine_id, binding, state, since, required, groups, self_approval)
		select id, machine_id, binding, 'expired', approve_by, 1, '{approvers}', false from old`, ended)
	w.exec(b, "analyze")
}

// BenchmarkWaitingList reads 500 waiting changes, of a house that is new and of one that has
// 20 000 more which have ended.
func BenchmarkWaitingList(b *testing.B) {
	for _, ended := range []int{0, 20_000} {
		w := newWorld(b)
		s := w.house(b, 0)
		w.crowded(b, s, w.fleet(b, s, "m", 50), 500, ended)
		b.Run(fmt.Sprintf("ended=%d", ended), func(b *testing.B) {
			var took times
			for b.Loop() {
				began := time.Now()
				list, err := s.ListChanges(b.Context(), ChangeFilter{States: []ChangeState{ChangeWaiting}, Limit: 501})
				if err != nil || len(list) != 500 {
					b.Fatalf("%d changes, %v", len(list), err)
				}
				took = append(took, time.Since(began))
			}
			b.ReportMetric(took.quantile(0.50), "p50-ms")
			b.ReportMetric(took.quantile(0.99), "p99-ms")
		})
	}
}

// BenchmarkCapture is the transaction of a refusal that becomes a change of 15 KiB beside that
// of a refusal that does not, in turns; the caller has 500 changes waiting already.
func BenchmarkCapture(b *testing.B) {
	for _, ended := range []int{0, 20_000} {
		w := newWorld(b)
		s := w.house(b, 0)
		fleet := w.fleet(b, s, "m", 50)
		w.crowded(b, s, fleet, 500, ended)
		refuse := func(l Locked) Judgement {
			j := allowOnly(l)
			j.Entry.Verdict = audit.Denied
			return j
		}
		n := 0
		b.Run(fmt.Sprintf("ended=%d", ended), func(b *testing.B) {
			took := map[string]times{}
			for b.Loop() {
				n++
				m := fleet[n%len(fleet)]
				c := benchProposal(m, 15<<10)
				c.Digest = fmt.Sprintf("hmac-sha256:k1:new%060d", n)
				for i := range 2 {
					name, judge := "capture", capturing(c)
					if (n+i)%2 == 0 {
						name, judge = "refusal", refuse
					}
					began := time.Now()
					adm, err := s.Admit(b.Context(), apply(m, anna), judge)
					took[name] = append(took[name], time.Since(began))
					if err != nil || (adm.Change != nil) != (name == "capture") {
						b.Fatalf("%s: %v, %v", name, adm.Change, err)
					}
				}
				// It ends again, so that 500 wait whenever one is captured.
				if _, err := s.Cancel(b.Context(), c.ID, "measured", by(anna, "changes.cancel")); err != nil {
					b.Fatal(err)
				}
			}
			report(b, "capture", took["capture"], took["refusal"], "refusal")
		})
	}
}

// BenchmarkRevokedBeside is a decision, without and with an approval, where 10 000 identities
// are revoked beside where none is, in turns.
func BenchmarkRevokedBeside(b *testing.B) {
	type house struct{ plain, approved *applier }
	houses := map[string]house{}
	for name, n := range map[string]int{"none": 0, "revoked": 10_000} {
		w := newWorld(b)
		s := w.house(b, 2)
		c := propose(b, s, anna, benchProposal(get(b, s, "w2"), 4))
		approve(b, s, bea, c)
		w.exec(b, `insert into control.identity_revocations (issuer, subject, reason, authority_version, entry_id)
			select 'https://id.test', 'gone-' || i, 'left', (select version + 1 from control.authority), $2
			from generate_series(1, $1) i`, n, uuid.New())
		w.exec(b, "update control.authority set version = version + 1")
		w.exec(b, "analyze")
		authorityVersion(b, s)
		houses[name] = house{
			&applier{s: s, m: get(b, s, "w1"), judge: allow},
			&applier{s: s, m: get(b, s, "w2"), judge: spending(c.ID, asksFor(1))},
		}
	}
	for name, of := range map[string]func(house) *applier{
		"decision": func(h house) *applier { return h.plain },
		"approved": func(h house) *applier { return h.approved },
	} {
		b.Run(name, func(b *testing.B) {
			took := map[string]times{}
			for n := 0; b.Loop(); n++ {
				for i := range 2 {
					side := []string{"none", "revoked"}[(n+i)%2]
					a := of(houses[side])
					took[side] = append(took[side], a.decide(b))
					a.end(b)
				}
			}
			report(b, "revoked", took["revoked"], took["none"], "none")
		})
	}
}
