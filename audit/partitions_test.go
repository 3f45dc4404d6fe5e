package audit

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// dropPartitions takes this month's and all later ones away, of the given tables.
func dropPartitions(t *testing.T, db database, tables ...string) {
	t.Helper()
	for _, table := range tables {
		for _, part := range texts(t, db.owner, fmt.Sprintf("select inhrelid::regclass::text from pg_inherits where inhparent = 'audit.%s'::regclass", table)) {
			mustExec(t, db.owner, "drop table "+part)
		}
	}
}

const noMaking = "revoke execute on function audit.ensure_partitions(integer) from bronzeward_gateway"

func TestMonthWithoutPartitionRefusesUnlessItCanBeMade(t *testing.T) {
	for _, c := range []struct {
		name   string
		revoke bool
	}{{"the gateway may make it", false}, {"nobody makes it", true}} {
		for _, tables := range [][]string{{"entries", "outcomes"}, {"entries"}, {"outcomes"}} {
			t.Run(c.name+", without "+strings.Join(tables, " and "), func(t *testing.T) {
				db := newDatabase(t)
				dropPartitions(t, db, tables...)
				if c.revoke {
					mustExec(t, db.owner, noMaking)
				}
				b := newBook(t, db, func(c *BookConfig) { c.RefusalWindow = 20 * time.Millisecond })
				_, errEntry := b.Write(t.Context(), readEntry())
				errOutcome := b.WriteOutcome(t.Context(), Outcome{EntryID: uuid.New(), Kind: OutcomeAnswered})
				_, errRefusal := b.Refuse(t.Context(), "10.0.0.1", "expired", Entry{Kind: KindRPC})
				var entries, outcomes int
				for _, w := range []struct {
					what  string
					table string
					err   error
					rows  *int
					n     int
				}{
					{"entry", "entries", errEntry, &entries, 1}, {"refusal", "entries", errRefusal, &entries, 1}, {"outcome", "outcomes", errOutcome, &outcomes, 1},
				} {
					lost := c.revoke && strings.Contains(strings.Join(tables, " "), w.table)
					if lost != errors.Is(w.err, ErrUnavailable) || !lost && w.err != nil {
						t.Errorf("%s: %v", w.what, w.err)
					}
					if !lost {
						*w.rows += w.n
					}
				}
				if e, o := count(t, db.owner, "select count(*) from audit.entries"), count(t, db.owner, "select count(*) from audit.outcomes"); e != entries || o != outcomes {
					t.Errorf("%d entries and %d outcomes, want %d and %d", e, o, entries, outcomes)
				}
				// What nobody waits for is tried again, and is not lost once somebody has made the month.
				if err := b.EnqueueOutcome(t.Context(), Outcome{EntryID: uuid.New(), Kind: OutcomeAnswered}); err != nil {
					t.Fatal(err)
				}
				if c.revoke && tables[0] == "outcomes" {
					eventually(t, "it is tried in vain", func() bool { return b.Stats().Unavailable >= 2 })
				}
				if _, err := EnsurePartitions(t.Context(), db.owner, PartitionsAhead); err != nil {
					t.Fatal(err)
				}
				eventually(t, "it is durable", func() bool { return b.Stats().Parked == 0 })
				outcomes++
				if n := count(t, db.owner, "select count(*) from audit.outcomes"); n != outcomes || b.Stats().Abandoned != 0 {
					t.Errorf("%d outcomes once the month is there, want %d", n, outcomes)
				}
				// Nothing half-recorded: no row waits for the sequencer that is not in the book.
				if n := count(t, db.owner, "select count(*) from audit.unsequenced"); n != entries+outcomes {
					t.Errorf("%d rows wait for the sequencer, want %d", n, entries+outcomes)
				}
			})
		}
	}
}

// An apply's rows are in a transaction of its own: without a partition that fails as a whole.
func TestAppendWithoutPartitionLeavesNothing(t *testing.T) {
	db := newDatabase(t)
	dropPartitions(t, db, "entries")
	mustExec(t, db.owner, noMaking)
	tx, err := db.gateway.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	var row *RowError
	if _, err := Append(t.Context(), tx, readEntry()); !errors.As(err, &row) || !row.noPartition() {
		t.Errorf("%v, want no partition", err)
	}
	if err := tx.Commit(t.Context()); err == nil {
		t.Error("a transaction without its entry committed")
	}
	if n := count(t, db.owner, "select count(*) from audit.unsequenced"); n != 0 {
		t.Errorf("%d rows wait for the sequencer", n)
	}
}

func TestKeeperRefusesWithoutThisMonthAndWarnsOfLaterOnes(t *testing.T) {
	later := func(t *testing.T, db database) {
		t.Helper()
		for _, part := range texts(t, db.owner, `select inhrelid::regclass::text from pg_inherits where inhparent = 'audit.entries'::regclass
			and inhrelid::regclass::text > to_char(clock_timestamp() at time zone 'UTC', '"audit.entries_"YYYY_MM')`) {
			mustExec(t, db.owner, "drop table "+part)
		}
	}
	for _, c := range []struct {
		name   string
		change func(*testing.T, database)
		ahead  int
		err    string // of Prepare
		logged bool
	}{
		{"as migrate leaves it", func(*testing.T, database) {}, PartitionsAhead, "", false},
		{"all are missing, and can be made", func(t *testing.T, db database) { dropPartitions(t, db, "entries", "outcomes") }, PartitionsAhead, "", false},
		{"this month is missing and cannot be made", func(t *testing.T, db database) {
			dropPartitions(t, db, "outcomes")
			mustExec(t, db.owner, noMaking)
		}, -1, "no partition for this month", false},
		{"later months are missing and cannot be made", func(t *testing.T, db database) {
			later(t, db)
			mustExec(t, db.owner, noMaking)
		}, 0, "", true},
		{"a table in the place of this month's partition", func(t *testing.T, db database) {
			dropPartitions(t, db, "entries")
			month := texts(t, db.owner, `select to_char(clock_timestamp() at time zone 'UTC', '"audit.entries_"YYYY_MM')`)[0]
			mustExec(t, db.owner, "create table "+month+" (a int)")
		}, -1, "SQLSTATE 42P07", false},
		{"a default partition", func(t *testing.T, db database) {
			mustExec(t, db.owner, "create table audit.entries_rest partition of audit.entries default")
		}, -1, "audit.entries_rest is a default partition", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := newDatabase(t)
			c.change(t, db)
			var log lines
			k := NewPartitionKeeper(db.gateway, log.logger())
			if n := k.Ahead(time.Now()); n != -1 {
				t.Errorf("%d months ahead before anybody looked", n)
			}
			err := k.Prepare(t.Context())
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v, want %q", err, c.err)
			}
			if n := k.Ahead(time.Now()); n != c.ahead {
				t.Errorf("%d months ahead, want %d", n, c.ahead)
			}
			if logged := strings.Contains(log.String(), "next months could not be made"); logged != c.logged {
				t.Errorf("the log: %s", log.String())
			}
			// Months pass, and nobody makes any.
			if c.ahead == PartitionsAhead {
				now := time.Now().UTC()
				for months, want := range []int{3, 2, 1, 0, -1, -1} {
					if n := k.Ahead(time.Date(now.Year(), now.Month()+time.Month(months), 1, 0, 0, 0, 0, time.UTC)); n != want {
						t.Errorf("%d months on: %d ahead, want %d", months, n, want)
					}
				}
			}
		})
	}
}

func TestReachEndsAtTheFirstGap(t *testing.T) {
	at := func(month time.Month) time.Time { return time.Date(2026, month, 1, 0, 0, 0, 0, time.UTC) }
	of := func(table string, months ...time.Month) (list []Partition) {
		for _, m := range months {
			list = append(list, Partition{Table: table, From: at(m), Until: at(m + 1)})
		}
		return list
	}
	now := at(5).Add(100 * time.Hour)
	for _, c := range []struct {
		name string
		list []Partition
		want time.Time
	}{
		{"none", nil, now},
		{"entries alone", of("entries", 5, 6), now},
		{"both", append(of("entries", 4, 5, 6), of("outcomes", 4, 5, 6, 7)...), at(7)},
		{"a gap", append(of("entries", 5, 7), of("outcomes", 5, 6, 7)...), at(6)},
		{"the past alone", append(of("entries", 3, 4), of("outcomes", 3, 4)...), now},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := reach(c.list, now); !got.Equal(c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestPartitionsAreReadInAnyZone(t *testing.T) {
	db := newDatabase(t)
	for _, zone := range []string{"UTC", "Asia/Kolkata", "America/St_Johns"} {
		conn, err := db.gateway.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "set timezone = '"+zone+"'; set datestyle = 'SQL, DMY'"); err != nil {
			t.Fatal(err)
		}
		list, _, err := Partitions(t.Context(), conn)
		if err != nil || len(list) != 2*(1+PartitionsAhead) {
			t.Fatalf("%s: %v (%v)", zone, list, err)
		}
		for _, p := range list {
			if want := p.Table + p.From.Format("_2006_01"); p.Name != want || p.From.Day() != 1 || p.From.Hour() != 0 || !p.Until.Equal(p.From.AddDate(0, 1, 0)) {
				t.Errorf("%s: %+v", zone, p)
			}
		}
		if _, err := conn.Exec(t.Context(), "reset all"); err != nil {
			t.Fatal(err)
		}
		conn.Release()
	}
}
