package gateway

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

const dropMonths = `do $$ declare part text; begin
	for part in select inhrelid::regclass::text from pg_inherits where inhparent in ('audit.entries'::regclass, 'audit.outcomes'::regclass) loop
		execute 'drop table ' || part;
	end loop; end $$`

// The month turns and nobody can make its partition: whatever would have to be recorded is refused, nothing goes on to
// a node, and nothing is left half-recorded. Once the month is there, all goes on.
func TestAMonthWithoutPartitionForwardsNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	ok(t, h.db.Exec(t.Context(), "revoke execute on function audit.ensure_partitions(integer) from bronzeward_gateway"))
	ok(t, h.db.Exec(t.Context(), dropMonths))
	waiting := h.count(t, "select count(*) from audit.unsequenced")
	readings := h.readings("w1")
	olga := h.as(t, "olga")
	for what, do := range map[string]func() answer{
		"a read":     func() answer { return olga.version(t, "w1") },
		"a mutation": func() answer { return olga.call(bounded(t), "/machine.MachineService/Reboot", to("w1"), nil) },
	} {
		if a := do(); a.code() != codes.Unavailable {
			t.Errorf("%s got %v", what, a.err)
		}
	}
	if n := h.readings("w1"); n != readings {
		t.Errorf("%d calls went on to the node", n-readings)
	}
	if a := olga.apply(t, "w1", noReboot(t, labelled("one"))); a.code() != codes.Unavailable {
		t.Errorf("an apply got %v", a.err)
	}
	if n := len(h.applies("w1")); n != 0 {
		t.Errorf("%d applies went on to the node", n)
	}
	if n := h.count(t, "select count(*) from control.attempts"); n != 0 {
		t.Errorf("%d attempts are open", n)
	}
	if n := h.count(t, "select count(*) from audit.unsequenced"); n != waiting {
		t.Errorf("%d rows wait for a place that are nowhere", n-waiting)
	}

	// Control: with the function, what needs the month has it made.
	ok(t, h.db.Exec(t.Context(), "grant execute on function audit.ensure_partitions(integer) to bronzeward_gateway"))
	succeeded(t, olga.version(t, "w1"))
	succeeded(t, olga.apply(t, "w1", noReboot(t, labelled("one"))))
	if n := h.count(t, "select count(*) from audit.entries"); n < 2 || !strings.Contains(h.logs.String(), "no partition for this month") {
		t.Errorf("%d entries; the log: %s", n, h.logs.String())
	}
}
