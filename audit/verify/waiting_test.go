package verify

import (
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// However many rows the statistics say wait, what waits leads: the leaves and rows of the whole book are not gone through.
func TestWhatWaitsLeadsWhateverStatisticsSay(t *testing.T) {
	d := newDatabase(t)
	d.tamper(t, `insert into audit.unsequenced (recorded_at, id, source, leaf)
		select recorded_at, gen_random_uuid(), source, leaf from audit.leaves, generate_series(1, 20); analyze audit.unsequenced; delete from audit.unsequenced`)
	s, err := open(t.Context(), d.config(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	plan := func(sql string) string {
		rows, err := s.base.Query(t.Context(), "explain "+sql)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines, "\n")
	}
	// The first table of a plan of nested loops leads.
	first := regexp.MustCompile(`(?:Scan|Scan Backward)(?: using \S+)? on (\S+)`)
	other := regexp.MustCompile(`Hash|Merge|Materialize`)
	for _, q := range waitingQueries {
		text := plan(q.sql)
		if lead := first.FindStringSubmatch(text); lead == nil || lead[1] != "unsequenced" || other.MatchString(text) {
			t.Errorf("%s:\n%s", q.text, text)
		}
	}
	// Control: where the planner has the choice, it takes another.
	text := plan("select u.id, l.index from audit.unsequenced u join audit.leaves l on l.id = u.id")
	if lead := first.FindStringSubmatch(text); lead == nil || lead[1] == "unsequenced" && !other.MatchString(text) {
		t.Errorf("control:\n%s", text)
	}
}
