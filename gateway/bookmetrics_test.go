package gateway

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"bronzeward/audit"
)

// Each number of the book is told under its own name, at each scrape anew.
func TestBookStateIsTold(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	stats, ahead := audit.Stats{}, 3
	BookState(reg, func() audit.Stats { return stats }, func() int { return ahead })
	stats = audit.Stats{Queued: 1, Blocked: 2, Parked: 3, Rows: 40, UnknownLasted: 1, Stale: 5, RowsRefused: 6, Unavailable: 7, Abandoned: 8, Unknown: 9, Refusals: 10}
	ahead = -1
	const want = `
# HELP bronzeward_book_blocked_callers Callers that wait for a place in the queue of the group commit, because it is full.
# TYPE bronzeward_book_blocked_callers gauge
bronzeward_book_blocked_callers 2
# HELP bronzeward_book_parked_outcomes Outcomes of answered calls that are not durable yet.
# TYPE bronzeward_book_parked_outcomes gauge
bronzeward_book_parked_outcomes 3
# HELP bronzeward_book_partitions_ahead Whole months after this one that the book has partitions for; -1 when not even this one has.
# TYPE bronzeward_book_partitions_ahead gauge
bronzeward_book_partitions_ahead -1
# HELP bronzeward_book_refusals_total Refusals of callers nobody proved, which share entries.
# TYPE bronzeward_book_refusals_total counter
bronzeward_book_refusals_total 10
# HELP bronzeward_book_rows_total Rows by what became of them.
# TYPE bronzeward_book_rows_total counter
bronzeward_book_rows_total{result="abandoned"} 8
bronzeward_book_rows_total{result="refused"} 6
bronzeward_book_rows_total{result="stale"} 5
bronzeward_book_rows_total{result="unavailable"} 7
bronzeward_book_rows_total{result="written"} 41
# HELP bronzeward_book_unknown_commits_total Group commits whose COMMIT had no answer.
# TYPE bronzeward_book_unknown_commits_total counter
bronzeward_book_unknown_commits_total 9
# HELP bronzeward_book_waiting_rows Rows that wait for a group commit.
# TYPE bronzeward_book_waiting_rows gauge
bronzeward_book_waiting_rows 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// What others warn of stands beside the gateway's own warnings, and makes no replica unready.
func TestReadyTellsTheWarningsOfOthers(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.ownEngine = true })
	before, _ := h.gw.Ready(t.Context())
	h.gw.warnings = func() []string { return []string{"the book has few months"} }
	state, problems := h.gw.Ready(t.Context())
	was, _ := before["warnings"].([]string)
	if got, _ := state["warnings"].([]string); len(problems) != 0 || len(got) != len(was)+1 || got[len(was)] != "the book has few months" {
		t.Errorf("problems %v, warnings %v, want one more than %v", problems, got, was)
	}
}
