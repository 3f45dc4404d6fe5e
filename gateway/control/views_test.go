package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"bronzeward/audit"
	"bronzeward/policy"
)

var bookViews = []string{"applies", "approvals", "decisions", "refusals", "unresolved"}

// rowsOf are a query's rows, as an auditor reads them.
func (w *world) rowsOf(t *testing.T, sql string, args ...any) []map[string]any {
	t.Helper()
	rows, err := connect(t, w.url(t, asAuditor)).Query(t.Context(), "select to_jsonb(q)::text from ("+sql+") q", args...)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
	out := make([]map[string]any, len(texts))
	for i, text := range texts {
		if err := json.Unmarshal([]byte(text), &out[i]); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// only is the one row of a query, without what no test can know beforehand.
func (w *world) only(t *testing.T, sql string, args ...any) map[string]any {
	t.Helper()
	rows := w.rowsOf(t, sql, args...)
	if len(rows) != 1 {
		t.Fatalf("%d rows, want 1: %v\n%s", len(rows), rows, sql)
	}
	return rows[0]
}

// part keeps the members a test names.
func part(row map[string]any, names ...string) map[string]any {
	out := map[string]any{}
	for _, n := range names {
		out[n] = row[n]
	}
	return out
}

func TestViewsSpeakForThemselvesAndAreForReading(t *testing.T) {
	w := newWorld(t)
	list := func(sql string) (out []string) {
		t.Helper()
		rows, err := w.root.Query(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		if out, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			t.Fatal(err)
		}
		return out
	}
	views := list("select relname::text from pg_class where relnamespace = 'audit'::regnamespace and relkind in ('v', 'm') order by 1")
	if diff := cmp.Diff(bookViews, views); diff != "" {
		t.Error(diff)
	}
	if bare := list(`select c.relname || '.' || a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid
		where c.relnamespace = 'audit'::regnamespace and c.relkind = 'v' and a.attnum > 0 and col_description(c.oid, a.attnum) is null
		union all select c.relname from pg_class c where c.relnamespace = 'audit'::regnamespace and c.relkind = 'v' and obj_description(c.oid) is null`); len(bare) > 0 {
		t.Errorf("without comment: %v", bare)
	}
	if other := list(`select relname::text from pg_class where relnamespace = 'audit'::regnamespace and relkind = 'v' and relowner <> 'bronzeward_owner'::regrole`); len(other) > 0 {
		t.Errorf("not the owner's: %v", other)
	}
	if can := list(`select table_name || ' ' || is_updatable || is_insertable_into from information_schema.views where table_schema = 'audit' and (is_updatable, is_insertable_into) <> ('NO', 'NO')`); len(can) > 0 {
		t.Errorf("can be written through: %v", can)
	}
	for _, role := range []string{asAuditor, asGateway} {
		conn := connect(t, w.url(t, role))
		for _, view := range views {
			for _, sql := range []string{"insert into audit.%s default values", "update audit.%s set cluster = 'x'", "delete from audit.%s", "drop view audit.%s", "create or replace view audit.%s as select 1"} {
				var pg *pgconn.PgError
				if _, err := conn.Exec(t.Context(), fmt.Sprintf(sql, view)); !errors.As(err, &pg) || pg.Code != "42501" && pg.Code != "55000" && pg.Code != "42P16" {
					t.Errorf("%s: %s: %v, want it refused", role, fmt.Sprintf(sql, view), err)
				}
			}
			_, err := conn.Exec(t.Context(), "select * from audit."+view)
			if may := role == asAuditor; may != (err == nil) {
				t.Errorf("%s reads %s: %v", role, view, err)
			}
		}
	}
	// A login may be given the views and no table.
	w.exec(t, "create role test_views_alone login; grant usage on schema audit to test_views_alone; grant select on audit.applies, audit.decisions to test_views_alone; grant execute on function audit.typed(text, uuid), audit.members(bytea) to test_views_alone")
	alone := connect(t, w.url(t, "test_views_alone"))
	if _, err := alone.Exec(t.Context(), "select * from audit.applies, audit.decisions"); err != nil {
		t.Errorf("a login with the views alone: %v", err)
	}
	if _, err := alone.Exec(t.Context(), "select * from audit.entries"); err == nil {
		t.Error("a login with the views alone reads the table")
	}
	w.exec(t, "drop owned by test_views_alone; drop role test_views_alone")
}

func TestViewsTellTheStoryOfAnApply(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 2)
	n := proposal(get(t, s, "w1"))
	c := propose(t, s, boris, n)
	approve(t, s, bea, c)
	gone := approve(t, s, cleo, c)
	if err := takeBack(t.Context(), s, gone.ID); err != nil {
		t.Fatal(err)
	}
	a, err := spendOf(t, s, anna, c, asksFor(1))
	if err != nil {
		t.Fatal(err)
	}
	outcome := audit.Outcome{Kind: audit.OutcomeAnswered, Code: "OK"}
	end := Closing{AttemptID: a.ID, Owner: a.Owner, To: StateCompleted, ReadActive: digestA, ReadPersistent: digestA, Outcomes: []audit.Outcome{outcome}}
	if err := s.CloseAttempt(t.Context(), end); err != nil {
		t.Fatal(err)
	}

	row := w.only(t, "select * from audit.applies")
	want := map[string]any{
		"attempt_id": a.ID.String(), "decision_id": a.EntryID.String(), "state": "completed", "machine_name": "w1", "change": c.ID.String(),
		"requester_subject": "boris", "spender_subject": "anna", "approvals_required": 1.0, "approvers": []any{"bea"},
		"digest_before": digestB, "digest_asked": digestA, "digest_after": digestA, "answer": "OK", "unresolved_at": nil, "landed": nil,
	}
	got := map[string]any{}
	for name := range want {
		got[name] = row[name]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if row["closed_at"] == nil || row["opened_at"] == nil {
		t.Errorf("opened %v, closed %v", row["opened_at"], row["closed_at"])
	}
	if list, _ := row["approvals"].([]any); len(list) != 2 || !strings.Contains(fmt.Sprint(list[1]), "cleo") || strings.Contains(fmt.Sprint(list[1]), "revoked_at:<nil>") {
		t.Errorf("approvals: %v", row["approvals"])
	}
	if list, _ := row["outcomes"].([]any); len(list) < 1 || !strings.Contains(fmt.Sprint(list), "answered") {
		t.Errorf("outcomes: %v", row["outcomes"])
	}

	taken := w.only(t, "select * from audit.approvals where revoked_at is not null")
	if diff := cmp.Diff(map[string]any{
		"approval": gone.ID.String(), "change": c.ID.String(), "approver_subject": "cleo", "requester_subject": "boris", "change_state": "spent",
		"revoked_by_subject": "admin", "revoked_reason": "looked again", "epoch_current": true, "digest": digestA,
	}, part(taken, "approval", "change", "approver_subject", "requester_subject", "change_state", "revoked_by_subject", "revoked_reason", "epoch_current", "digest")); diff != "" {
		t.Error(diff)
	}
	if decided := w.only(t, "select * from audit.decisions where attempt_id = $1", a.ID); decided["outcome"] != "completed" || decided["verdict"] != "allow" {
		t.Errorf("decision: %v", decided)
	}
	if rows := w.rowsOf(t, "select * from audit.unresolved"); len(rows) != 0 {
		t.Errorf("unresolved: %v", rows)
	}

	// A revoked approver's approval of what was applied before counts as it did then.
	revoked(t)(s.RevokeIdentity(t.Context(), bea, "left", by(admin, "identities.revoke")))
	if row := w.only(t, "select * from audit.applies"); fmt.Sprint(row["approvers"]) != "[bea]" {
		t.Errorf("approvers after the revocation: %v", row["approvers"])
	}
	if row := w.only(t, "select * from audit.approvals where approver_subject = 'bea'"); row["revoked_reason"] != "left" {
		t.Errorf("approval after the revocation: %v", row)
	}
}

func TestViewsTellWhatHoldsAMachine(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 3)
	ok(t)(s.SetRolloutLimit(t.Context(), "lab", 10, by(admin, "clusters.limit")))
	open(t, s, "w1", anna)
	lost, judged := open(t, s, "w2", boris), open(t, s, "w3", boris)
	for _, a := range []*Attempt{lost, judged} {
		if err := s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: StateUnresolved, Reason: "no answer"}); err != nil {
			t.Fatal(err)
		}
	}
	w.age(t, judged.ID, time.Hour)
	ok(t)(s.RecordObservation(t.Context(), "w3", Observation{Began: time.Now(), Identity: worker(3), Active: digestB, Persistent: digestB}, by(admin, "machines.observe")))
	if _, err := s.Account(t.Context(), Accounting{AttemptID: judged.ID, Reason: "looked at the console", Outcome: audit.Outcome{Caller: audit.Caller{Issuer: admin.Issuer, Subject: admin.Subject}}}, by(admin, "attempts.account")); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, row := range w.rowsOf(t, "select * from audit.unresolved") {
		got[row["machine_name"].(string)] = fmt.Sprint(row["state"], " ", row["holds"], " ", row["spender_subject"], " ", row["accounted_by_subject"], " ", row["accounted_reason"], " ", row["accounted_landed"], " ", row["account_after"] != nil)
	}
	if diff := cmp.Diff(map[string]string{
		"w1": "open true anna <nil> <nil> <nil> true", "w2": "unresolved true boris <nil> <nil> <nil> true",
		"w3": "accounted false boris admin looked at the console false true",
	}, got); diff != "" {
		t.Error(diff)
	}
}

func TestRefusalsAreTheirReasonsAndOneBadRecordHidesNoOther(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	denied := func(l Locked) Judgement {
		j := allowOnly(l)
		j.Entry.Verdict = audit.Denied
		j.Entry.Reasons = []policy.Reason{
			{Code: "BW-A-001", Message: "first; and more", Severity: policy.SeverityDeny, Hint: "do this", Rule: "r.a"},
			{Code: "BW-B-002", Message: "second", Severity: policy.SeverityWarn},
		}
		j.Entry.Codes = []string{"BW-A-001", "BW-B-002"}
		return j
	}
	if _, err := s.Admit(t.Context(), apply(get(t, s, "w1"), anna), denied); err != nil {
		t.Fatal(err)
	}
	if err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
		_, err := audit.Append(t.Context(), tx, audit.Entry{Kind: audit.KindRPC, Verdict: audit.Refused, Class: "expired", Detail: "no reasons", Count: 3})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, record := range []string{"\\xff\\xfe\\xfd", "{\"v\":1", "{\"v\":1,\"reasons\":\"none\"}"} {
		if _, err := s.pool.Exec(t.Context(), `insert into audit.entries (id, kind, verdict, authority_version, count, record) values (gen_random_uuid(), 'rpc', 'deny', 1, 1, $1)`, []byte(record)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, row := range w.rowsOf(t, "select * from audit.refusals order by recorded_at, code") {
		got = append(got, fmt.Sprint(row["verdict"], " ", row["code"], " ", row["severity"], " ", row["message"], " ", row["hint"], " ", row["count"]))
	}
	if diff := cmp.Diff([]string{
		"deny BW-A-001 deny first; and more do this 1", "deny BW-B-002 warn second <nil> 1", "refuse <nil> <nil> no reasons <nil> 3",
		"deny <nil> <nil> <nil> <nil> 1", "deny <nil> <nil> <nil> <nil> 1", "deny <nil> <nil> <nil> <nil> 1",
	}, got); diff != "" {
		t.Error(diff)
	}
	if row := w.only(t, "select * from audit.decisions where 'BW-A-001' = any (codes)"); row["reasons"] != "first; and more; second" {
		t.Errorf("reasons: %v", row["reasons"])
	}
	// Control: read without the function, the bad record ends the query for all.
	if _, err := connect(t, w.url(t, asAuditor)).Exec(t.Context(), "select convert_from(record, 'UTF8')::jsonb from audit.entries"); err == nil {
		t.Error("control: a record that is no JSON was read")
	}
}

func TestTypedIdsAreThoseOfGo(t *testing.T) {
	w := newWorld(t)
	ids := []uuid.UUID{{15: 1}, uuid.MustParse("ffffffff-ffff-ffff-ffff-ffffffffffff")}
	for range 50 {
		ids = append(ids, uuid.New())
	}
	for _, id := range ids {
		if row := w.only(t, "select audit.typed('chg', $1) as typed", id); row["typed"] != ChangeID(id).String() {
			t.Errorf("%s is %v, want %s", id, row["typed"], ChangeID(id))
		}
	}
}

// A range of time reads the months in it and no other, whatever else there is.
func TestViewsReadTheMonthsOfTheirRangeAlone(t *testing.T) {
	w := newWorld(t)
	s := w.house(t, 1)
	a := open(t, s, "w1", anna)
	if err := s.CloseAttempt(t.Context(), Closing{AttemptID: a.ID, Owner: a.Owner, To: StateUnresolved, Reason: "no answer"}); err != nil {
		t.Fatal(err)
	}
	w.exec(t, `do $$ begin
		for y in 2020..2021 loop for m in 1..12 loop
			execute format('create table audit.entries_%1$s_%2$s partition of audit.entries for values from (%3$L) to (%4$L)', y, lpad(m::text, 2, '0'), make_timestamptz(y, m, 1, 0, 0, 0, 'UTC'), make_timestamptz(y, m, 1, 0, 0, 0, 'UTC') + interval '1 month');
			execute format('create table audit.outcomes_%1$s_%2$s partition of audit.outcomes for values from (%3$L) to (%4$L)', y, lpad(m::text, 2, '0'), make_timestamptz(y, m, 1, 0, 0, 0, 'UTC'), make_timestamptz(y, m, 1, 0, 0, 0, 'UTC') + interval '1 month');
		end loop; end loop; end $$`)
	w.exec(t, `insert into audit.entries (recorded_at, id, kind, verdict, authority_version, count, record)
		select timestamptz '2020-01-01 12:00+00' + make_interval(days => d), gen_random_uuid(), 'rpc', 'deny', 1, 1, '{"v":1}' from generate_series(0, 700) d`)
	w.exec(t, "analyze audit.entries; analyze audit.outcomes")
	for _, row := range []struct {
		sql  string
		old  int // partitions of the old months that may be read
		rows int
	}{
		{"select id, reasons, outcome from audit.decisions where recorded_at >= now() - interval '1 day' and attempt_id is not null", 0, 1},
		{"select * from audit.decisions where recorded_at >= '2020-03-02+00' and recorded_at < '2020-03-03+00'", 24, 1},
		{"select id, reasons from audit.decisions where recorded_at >= '2020-03-02+00' and recorded_at < '2020-05-01+00'", 48, 60},
		{"select * from audit.refusals where recorded_at >= now() - interval '7 days'", 0, 0},
		{"select * from audit.refusals where recorded_at >= '2020-03-02+00' and recorded_at < '2020-03-12+00'", 1, 10},
		{"select * from audit.applies where opened_at >= now() - interval '7 days'", 0, 1},
		{"select * from audit.unresolved", 0, 1},
	} {
		conn := connect(t, w.url(t, asAuditor))
		var text []byte
		if err := conn.QueryRow(t.Context(), "explain (analyze, timing off, format json) "+row.sql).Scan(&text); err != nil {
			t.Fatal(err)
		}
		var plans []struct{ Plan planNode }
		if err := json.Unmarshal(text, &plans); err != nil {
			t.Fatal(err)
		}
		read := map[string]bool{}
		plans[0].Plan.executed(read)
		old := 0
		for name := range read {
			if strings.Contains(name, "_2020_") || strings.Contains(name, "_2021_") {
				old++
			}
		}
		if old > row.old || plans[0].Plan.Rows != float64(row.rows) {
			t.Errorf("%s: %v rows of %d old partitions, want %d of at most %d: %v", row.sql, plans[0].Plan.Rows, old, row.rows, row.old, read)
		}
		// Control: without a range every month is read.
		if from, _, ranged := strings.Cut(row.sql, " where "); ranged && strings.Contains(from, "refusals") {
			if err := conn.QueryRow(t.Context(), "explain (analyze, timing off, format json) "+from).Scan(&text); err != nil {
				t.Fatal(err)
			}
			all := map[string]bool{}
			if err := json.Unmarshal(text, &plans); err != nil {
				t.Fatal(err)
			}
			plans[0].Plan.executed(all)
			if len(all) < 24 {
				t.Errorf("control: %s reads %v", from, all)
			}
		}
	}
}

// planNode is what this test needs of PostgreSQL's explain.
type planNode struct {
	Relation string     `json:"Relation Name"`
	Loops    float64    `json:"Actual Loops"`
	Rows     float64    `json:"Actual Rows"`
	Plans    []planNode `json:"Plans"`
}

// executed adds the tables that were read.
func (p planNode) executed(into map[string]bool) {
	if p.Relation != "" && p.Loops > 0 {
		into[p.Relation] = true
	}
	for _, sub := range p.Plans {
		sub.executed(into)
	}
}
