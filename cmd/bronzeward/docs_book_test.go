package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"bronzeward/audit"
	"bronzeward/fixtures/postgres/pgtest"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// auditedBook is the migrated schema with a login for each role.
var auditedBook = pgtest.Migrated("docs_book", func(ctx context.Context, conn *pgx.Conn) error { return control.Migrate(ctx, conn, nil) }, `create role gateway login in role bronzeward_gateway; create role auditor login in role bronzeward_auditor`)

// What the book of the queries holds: an apply that is unresolved, a refusal, a call without an
// outcome, a stranger counted, an act, and an account.
var (
	appliedID = uuid.MustParse("018f2f6e-0000-7000-8000-000000000001")
	attemptID = uuid.MustParse("018f2f6e-0000-7000-8000-0000000000aa")
	machineID = uuid.MustParse("018f2f6e-0000-7000-8000-0000000000bb")
)

func fillBook(t *testing.T, owner, gate *pgxpool.Pool) {
	t.Helper()
	book, err := audit.NewBook(audit.BookConfig{Pool: gate, Logger: slog.New(slog.DiscardHandler), Guard: func(ctx context.Context, tx pgx.Tx) (version int64, err error) {
		_, err = tx.Exec(ctx, "select control.lock_authority_shared()")
		if err == nil {
			err = tx.QueryRow(ctx, "select version from control.authority").Scan(&version)
		}
		return version, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	person := audit.Caller{Issuer: "https://people.example", Subject: "olga", Kind: "human", Proof: "certificate"}
	rpc := audit.Entry{
		Kind: audit.KindRPC, Method: "/machine.MachineService/ApplyConfiguration", Class: "apply", Caller: person, ClientAddress: "10.0.0.7",
		MachineID: machineID, MachineName: "worker-1", Cluster: "lab", AuthorityVersion: 1, PolicyRevision: "aa", Instance: "g1",
	}
	applied, denied, lost, stranger, act := rpc, rpc, rpc, audit.Entry{Kind: audit.KindRPC, Verdict: audit.Refused, AuthorityVersion: 1}, rpc
	applied.ID, applied.Verdict, applied.AttemptID, applied.Digest, applied.Base = appliedID, audit.Allowed, attemptID, "sha256:k0:new", "sha256:k0:old"
	applied.Facts = []byte(`{"config":{"changes":[{"document":"v1alpha1","path":"machine.nodeLabels.a","before":null,"after":"fp:1"}]}}`)
	denied.Verdict, denied.Codes = audit.Denied, []string{"BW-MODE-001"}
	denied.Reasons = []policy.Reason{{Code: "BW-MODE-001", Message: "the request names no mode", Severity: policy.SeverityDeny}}
	lost.Verdict, lost.Method, lost.Class = audit.Allowed, "/machine.MachineService/Version", "read"
	act.Kind, act.Verdict, act.Method, act.Class, act.Detail = audit.KindHTTP, audit.Allowed, "machines.pin", "act", "worker-1"
	for _, e := range []audit.Entry{applied, denied, lost, act} {
		if _, err := book.Write(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := book.Refuse(t.Context(), "10.6.6.6", "no-credential", stranger); err != nil {
		t.Fatal(err)
	}
	for _, o := range []audit.Outcome{
		{EntryID: appliedID, AttemptID: attemptID, Kind: audit.OutcomeUnanswered, Code: "DeadlineExceeded"},
		{EntryID: appliedID, AttemptID: attemptID, Kind: audit.OutcomeAccounted, Message: "the node lost power", Caller: person},
	} {
		if err := book.WriteOutcome(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	_, err = owner.Exec(t.Context(), `
		insert into control.clusters (name) values ('lab');
		insert into control.machines (id, name, cluster, role, node_id, talos_cluster_id, smbios, pinned_at)
			values ('018f2f6e-0000-7000-8000-0000000000bb', 'worker-1', 'lab', 'worker', 'n', 'c', 's', now());
		insert into control.changes (id, entry_id, machine_id, cluster, kind, mode, try_timeout, digest, size, base_active, base_persistent, node_id,
				talos_cluster_id, smbios, epoch, binding, set_name, issuer, subject, created_at, approve_by, use_within)
			select '018f2f6e-0000-7000-8000-0000000000cc', '018f2f6e-0000-7000-8000-000000000001', m.id, 'lab', 'apply', 'no-reboot', interval '0',
				'sha256:k0:new', 5, 'sha256:k0:old', 'sha256:k0:old', 'n', 'c', 's', i.epoch, repeat('a', 64), '', 'https://people.example', 'olga',
				t, t + interval '1 day', interval '1 hour'
			from control.machines m, control.installation i, now() t;
		insert into control.change_states (change_id, machine_id, binding, since, required, groups, self_approval)
			values ('018f2f6e-0000-7000-8000-0000000000cc', '018f2f6e-0000-7000-8000-0000000000bb', repeat('a', 64), now(), 1, '{approvers}', false);
		insert into control.approvals (id, change_id, digest, epoch, issuer, subject, kind, groups, self, comment, entry_id, at)
			select '018f2f6e-0000-7000-8000-0000000000dd', '018f2f6e-0000-7000-8000-0000000000cc', 'sha256:k0:new', i.epoch, 'https://people.example', 'ada',
				'human', '{approvers}', '{}', '', '018f2f6e-0000-7000-8000-000000000001', now() from control.installation i;
		insert into control.attempts (id, entry_id, machine_id, cluster, instance, generation, epoch, issuer, subject, request_key, mode, digest,
				base_active, base_persistent, live_type, stage, minor, node_id, talos_cluster_id, smbios, opened_at, send_by, lease_until, transport_deadline, settle_floor,
				change_id, approvals_required, approval_groups, size)
			select '018f2f6e-0000-7000-8000-0000000000aa', '018f2f6e-0000-7000-8000-000000000001', m.id, 'lab', 'g1', 1, i.epoch, 'https://people.example', 'olga', 'k',
				'no-reboot', 'sha256:k0:new', 'sha256:k0:old', 'sha256:k0:old', 'worker', 'running', '1.13', 'n', 'c', 's',
				t, t + interval '2 seconds', t + interval '15 seconds', t + interval '30 seconds', interval '30 seconds',
				'018f2f6e-0000-7000-8000-0000000000cc', 1, '{approvers}', 5
			from control.machines m, control.installation i, now() t`)
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheQueriesOfTheAuditorAnswer(t *testing.T) {
	var postgres pgtest.Shared
	t.Cleanup(func() {
		if err := postgres.Close(); err != nil {
			t.Error(err)
		}
	})
	name := postgres.NewDatabaseName(t, auditedBook)
	as := func(role string) *pgxpool.Pool {
		pool, err := pgxpool.New(t.Context(), postgres.Server(t).DSN(name, role))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	}
	owner, auditor := as("postgres"), as("auditor")
	fillBook(t, owner, as("gateway"))

	queries := blocks(t, "auditing.md")
	maps.Copy(queries, blocks(t, "questions.md"))
	maps.Copy(queries, blocks(t, "record.md"))
	// Rows a query gives, and what one of them says.
	wants := map[string]struct {
		rows int
		says string
	}{
		"changes": {1, "sha256:k0:new"}, "refusals": {1, "the request names no mode"}, "held": {1, "worker-1"},
		"person": {4, "machines.pin"}, "lost": {1, "Version"}, "fields": {1, "machine.nodeLabels.a"},
		"strangers": {1, "10.6.6.6"}, "acts": {1, "machines.pin"}, "laws": {1, "aa"}, "judged": {1, "the node lost power"}, "approved": {1, "ada"}, "proposals": {1, "waiting"}, "leaves": {0, ""},
		"receipt": {0, ""}, "other": {1, "sha256:k0:new"},
	}
	same(t, "queries", slices.Collect(maps.Keys(wants)), slices.Collect(maps.Keys(queries)))
	for query, want := range wants {
		sql := queries[query]
		if query == "lost" { // rows of this test are younger than ten minutes
			sql = strings.Replace(sql, "now() - interval '10 minutes'", "now() + interval '10 minutes'", 1)
		}
		rows, got := readAll(t, auditor, sql)
		if rows != want.rows || !strings.Contains(got, want.says) {
			t.Errorf("%s: %d rows, want %d with %q in them:\n%s", query, rows, want.rows, want.says, got)
		}
	}

	readNoOlderMonths(t, owner, auditor, queries)

	// Control: a row whose record was changed behind the triggers is what the leaf query finds.
	if _, err := owner.Exec(t.Context(), `alter table audit.entries disable trigger user; alter table audit.entries alter column leaf drop expression;
		update audit.entries set record = convert_to(replace(convert_from(record, 'UTF8'), 'olga', 'vera'), 'UTF8') where id = '018f2f6e-0000-7000-8000-000000000001'`); err != nil {
		t.Fatal(err)
	}
	if rows, got := readAll(t, auditor, queries["leaves"]); rows != 1 || !strings.Contains(got, appliedID.String()) {
		t.Errorf("a forged record is not found: %d rows\n%s", rows, got)
	}
}

// readAll gives a query's rows as text.
func readAll(t *testing.T, pool *pgxpool.Pool, sql string) (n int, text string) {
	t.Helper()
	rows, err := pool.Query(t.Context(), "select to_jsonb(q)::text from ("+strings.TrimRight(strings.TrimSpace(sql), ";")+") q")
	if err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
	return len(lines), strings.Join(lines, "\n")
}

// readNoOlderMonths adds two years to the book and asks the planner what it reads: a query with a range of time touches
// none of them.
func readNoOlderMonths(t *testing.T, owner, auditor *pgxpool.Pool, queries map[string]string) {
	t.Helper()
	if _, err := owner.Exec(t.Context(), `do $$ begin
		for n in 0..23 loop for parent in 0..1 loop
			execute format('create table audit.%1$s_old_%2$s partition of audit.%1$s for values from (%3$L) to (%4$L)', (array['entries', 'outcomes'])[parent + 1], n,
				timestamptz '2020-01-01 00:00+00' + make_interval(months => n), timestamptz '2020-01-01 00:00+00' + make_interval(months => n + 1));
		end loop; end loop; end $$`); err != nil {
		t.Fatal(err)
	}
	ranged := 0
	for name, sql := range queries {
		rows, err := auditor.Query(t.Context(), "explain (analyze, timing off, costs off) "+sql)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		read := 0
		for _, line := range plan {
			if strings.Contains(line, "_old_") && strings.Contains(line, "actual") && strings.Contains(line, " on ") {
				read++
			}
		}
		switch has := strings.Contains(sql, ">= now() - interval"); {
		case has && read > 0:
			t.Errorf("%s reads %d tables of months outside its range:\n%s", name, read, strings.Join(plan, "\n"))
		case has:
			ranged++
		case name == "leaves" && read < 2*24: // control
			t.Errorf("%s, without a range, reads %d old tables", name, read)
		}
	}
	if ranged < 9 {
		t.Errorf("%d queries have a range of time", ranged)
	}
}
