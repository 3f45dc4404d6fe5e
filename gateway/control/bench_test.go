package control

import (
	"fmt"
	"testing"
)

// BenchmarkAdmit is a whole decision with an attempt, and its closing.
func BenchmarkAdmit(b *testing.B) {
	w := newWorld(b)
	s := w.house(b, 1)
	r := apply(get(b, s, "w1"), anna)
	for b.Loop() {
		adm, err := s.Admit(b.Context(), r, allow)
		if err != nil {
			b.Fatal(err)
		}
		a := adm.Attempt
		if err := s.CloseAttempt(b.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: StateNotSent}); err != nil {
			b.Fatal(err)
		}
		r.Serial += 2
	}
}

// BenchmarkRevoked shows what so many revoked identities cost a decision, a confirmation of
// the authority version, and an early look at the snapshot.
func BenchmarkRevoked(b *testing.B) {
	for _, n := range []int{0, 10_000} {
		w := newWorld(b)
		s := w.house(b, 1)
		w.exec(b, `insert into control.identity_revocations (issuer, subject, reason, authority_version, entry_id)
			select 'https://id.test', 'gone-' || i, 'left', (select version + 1 from control.authority), gen_random_uuid()
			from generate_series(1, $1) i`, n)
		w.exec(b, "update control.authority set version = version + 1")
		w.exec(b, "analyze control.identity_revocations")
		authorityVersion(b, s)
		m := get(b, s, "w1")
		b.Run(fmt.Sprintf("decision/%d", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Admit(b.Context(), Request{MachineID: m.ID, Caller: anna}, allowOnly); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("refresh/%d", n), func(b *testing.B) {
			for b.Loop() {
				authorityVersion(b, s)
			}
		})
		b.Run(fmt.Sprintf("look/%d", n), func(b *testing.B) {
			snap := s.Snapshot()
			for b.Loop() {
				if snap.Revoked(anna.Issuer, anna.Subject) {
					b.Fatal("anna is not revoked")
				}
			}
		})
	}
}

// BenchmarkGuard is the head of every decision: the authority lock's shared side and the
// version. With begin and rollback around it, as in the book's commits.
func BenchmarkGuard(b *testing.B) {
	w := newWorld(b)
	s := w.house(b, 0)
	guard := func(b *testing.B) {
		tx, err := s.pool.Begin(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Guard(b.Context(), tx); err != nil {
			b.Fatal(err)
		}
		if err := tx.Rollback(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			guard(b)
		}
	})
	b.Run("many", func(b *testing.B) {
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				guard(b)
			}
		})
	})
}
