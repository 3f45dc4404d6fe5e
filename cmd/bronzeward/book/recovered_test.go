package book

import (
	"strings"
	"testing"

	"bronzeward/gateway/control"
)

// A database that was put back to an older state agrees with itself. Verify repeats what is known of
// that, and calls no such book whole.
func TestVerifyTellsWhatIsKnownOfARecovery(t *testing.T) {
	w, ours := newWorld(t), newSigner("ours")
	conn, err := w.owner.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if err := control.Migrate(t.Context(), conn.Conn(), nil); err != nil {
		t.Fatal(err)
	}
	w.write(t, call("Version"))
	w.sign(t, ours, firstEpoch)
	key := ours.file(t)
	r := w.run(t, "verify", "--public-key", key)
	if r.err != nil {
		t.Error(r.err)
	}
	has(t, r.out, "the book is whole, as far as this database tells")
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	silent := func(out string) {
		t.Helper()
		if strings.Contains(out, "the book is whole") {
			t.Errorf("it is called whole:\n%s", out)
		}
	}
	exec(`insert into control.recoveries (epoch, old_epoch, old_size, old_root, cause, lost_rows, lost_revocations, revocations, approvals_voided, changes_ended,
		issuer, subject, reason, entry_id, entered_at)
		values (gen_random_uuid(), $1, 27, '', 'rolled-back', 26, 0, 0, 0, 0, 'i', 'rhea', 'restored', gen_random_uuid(), '2026-11-30 09:00:00Z')`, firstEpoch)
	r = w.run(t, "verify", "--public-key", key)
	has(t, r.out, "tree 1 ended at 1 leaf; the recovery of 2026-11-30 09:00:00 UTC says that up to 26 signed rows of it were lost")
	silent(r.out)
	if r.err != nil {
		t.Errorf("what is over and told is a fault of the book: %v", r.err)
	}

	exec("update control.recovery set mark = 'rolled-back', message = 'this database is older than OpenBao remembers', since = '2026-11-30 08:00:00Z'")
	r = w.run(t, "verify", "--public-key", key)
	has(t, r.out, "the house is rolled-back since 2026-11-30 08:00:00 UTC: this database is older than OpenBao remembers", "rows may be lost: see above")
	silent(r.out)
	if !notWhole(r.err) {
		t.Errorf("a book with lost rows ends with %v", r.err)
	}
}
