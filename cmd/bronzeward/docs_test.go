package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	kongcompletion "github.com/jotaen/kong-completion"
	"go.yaml.in/yaml/v4"

	"bronzeward/audit"
	"bronzeward/fixtures/postgres/pgtest"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// pages are the files of docs/ that these tests hold.
func pages() []string {
	return []string{"policies.md", "codes.md", "auditing.md", "operating.md", "faults.md"}
}

// These tests hold docs/ to the code: what a table lists is what there is, both ways, and
// what a page tells a reader to run exists.

// page is one file of docs/.
func page(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// between is the part of a page from one line to another.
func between(t testing.TB, text, from, to string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, "\n"+from)
	part, _, ended := strings.Cut(rest, "\n"+to)
	if !ok || !ended {
		t.Fatalf("the page has no part from %q to %q", from, to)
	}
	return part
}

var firstCell = regexp.MustCompile("(?m)^\\| `([^`|]+)`(?: \\*)? \\|")

// cells are what stands in code in the first cells of a part's tables, in their order.
func cells(part string) []string {
	var out []string
	for _, m := range firstCell.FindAllStringSubmatch(part, -1) {
		out = append(out, m[1])
	}
	return out
}

// sources are the texts of all files of a folder with this suffix, tests aside.
func sources(t testing.TB, suffix string, folders ...string) string {
	t.Helper()
	var out strings.Builder
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join("..", "..", folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, suffix) || strings.HasSuffix(path, "_test"+suffix) {
				return err
			}
			raw, err := os.ReadFile(path)
			out.Write(raw)
			out.WriteByte('\n')
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// found are the distinct first groups of all matches, sorted.
func found(pattern, text string) []string {
	all := map[string]bool{}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all[m[1]] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// same fails unless a page lists exactly what there is, each once.
func same(t *testing.T, what string, there, listed []string) {
	t.Helper()
	if len(there) == 0 {
		t.Fatalf("%s: nothing was found in the code", what)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(there)), slices.Sorted(slices.Values(listed))); diff != "" {
		t.Errorf("%s: code (-) and page (+) differ:\n%s", what, diff)
	}
}

func TestEveryCodeIsExplained(t *testing.T) {
	text := page(t, "codes.md")
	law := found(`(?m)^#   code: (BW-[A-Z]+-\d{3})$`, sources(t, ".rego", "policy/bundle"))
	same(t, "codes of the law", law, cells(between(t, text, "## Codes of the law", "## Codes of the gateway")))

	own := found(`"(BW-[A-Z]+-\d{3})"`, sources(t, ".go", "gateway", "policy"))
	_, table, _ := strings.Cut(text, "\n## Codes of the gateway")
	same(t, "codes of the gateway", own, cells(table))

	known := append(law, own...)
	for _, name := range pages() {
		for _, code := range found(`(BW-[A-Z]+-\d{3})`, page(t, name)) {
			if !slices.Contains(known, code) && code != "BW-SITE-001" && code != "BW-AREA-001" {
				t.Errorf("%s names %s, and nothing says it", name, code)
			}
		}
	}
}

func TestEveryFactIsExplained(t *testing.T) {
	var there []string
	var walk func(prefix string, of reflect.Type)
	walk = func(prefix string, of reflect.Type) {
		for i := range of.NumField() {
			field := of.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			there = append(there, prefix+name)
			at, inner := prefix+name, field.Type
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
				if inner.Kind() == reflect.Slice {
					at += "[]"
				}
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[time.Time]() {
				walk(at+".", inner)
			}
		}
	}
	walk("", reflect.TypeFor[policy.Facts]())
	same(t, "facts", there, cells(between(t, page(t, "policies.md"), "### Facts", "## Where things are")))
}

func TestEveryKeyOfTheDataIsExplained(t *testing.T) {
	text := page(t, "policies.md")
	for file, part := range map[string][2]string{
		"bronzeward/data.yaml":         {"### `bronzeward/data.yaml`", "A window, here over midnight"},
		"bronzeward/methods/data.yaml": {"### `bronzeward/methods/data.yaml`", "### "},
		"bronzeward/api/data.yaml":     {"### `bronzeward/api/data.yaml`", "### "},
		"bronzeward/config/data.yaml":  {"### `bronzeward/config/data.yaml`", "### "},
	} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "policy", "bundle", file))
		if err != nil {
			t.Fatal(err)
		}
		var data map[string]any
		if err := yaml.Load(raw, &data); err != nil {
			t.Fatal(err)
		}
		listed := found("`([a-z_]+)`", strings.Join(found(`(?m)^\| ([^|]+) \|`, between(t, text, part[0], part[1])), " "))
		same(t, file, slices.Collect(maps.Keys(data)), listed)
	}
}

// The example of a new rule is laid over the shipped law as a reader would, and passes.
func TestTheExampleRulePassesItsTrial(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```rego\n(.*?)```").FindAllStringSubmatch(page(t, "policies.md"), -1)
	if len(blocks) != 2 {
		t.Fatalf("policies.md has %d Rego examples, want the rule and its test", len(blocks))
	}
	shipped, err := policy.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	files := append(shipped.Files(),
		policy.File{Path: "bronzeward/rules/site/site.rego", Body: []byte(blocks[0][1])},
		policy.File{Path: "bronzeward/rules/site/site_test.rego", Body: []byte(blocks[1][1])})
	for _, f := range files {
		path := filepath.Join(folder, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	faults, err := policy.Check(t.Context(), os.DirFS(folder))
	if err != nil || len(faults) > 0 {
		t.Errorf("policy check: %v, %v", faults, err)
	}
	b, err := policy.Load(os.DirFS(folder))
	if err != nil {
		t.Fatal(err)
	}
	report, err := policy.Test(t.Context(), b)
	if err != nil || len(report.Failed) > 0 {
		t.Errorf("policy test: %v, %v", report.Failed, err)
	}
}

func TestEveryCommandInTheDocsExists(t *testing.T) {
	parser, err := kong.New(&cli{globals: globals{console: console{out: io.Discard, errOut: io.Discard}}}, kong.Name("bronzeward"), kong.Vars{"version": "x"})
	if err != nil {
		t.Fatal(err)
	}
	kongcompletion.Register(parser)
	leaves, inner := map[string]bool{}, map[string]bool{}
	for _, leaf := range parser.Model.Leaves(false) {
		path := strings.Fields(regexp.MustCompile(`\([^)]*\)|<[^>]*>|\[[^]]*\]`).ReplaceAllString(leaf.FullPath(), ""))[1:]
		leaves[strings.Join(path, " ")] = true
		if len(path) > 1 {
			inner[path[0]] = true
		}
	}
	if !leaves["attempts account"] || !inner["policy"] {
		t.Fatalf("the command tree reads as %v", leaves)
	}
	for _, name := range pages() {
		for _, m := range regexp.MustCompile("(?:[`$] ?|try: |\n|   )bronzeward ([a-z]+)(?: ([a-z]+))?").FindAllStringSubmatch(page(t, name), -1) {
			command := m[1]
			if inner[command] {
				command += " " + m[2]
			}
			if !leaves[command] && !(inner[m[1]] && m[2] == "") && command != "migrate makes" {
				t.Errorf("%s tells to run `bronzeward %s`, and there is no such command", name, command)
			}
		}
	}
}

func TestEveryMetricAndReadyFieldIsExplained(t *testing.T) {
	text := page(t, "operating.md")
	code := sources(t, ".go", "gateway", "audit", "cmd/bronzeward")
	part := between(t, text, "## Metrics", "## What to alert on")
	same(t, "metrics", found(`(?:Name:\s+|NewDesc\()"(bronzeward_\w+)"`, code), found("\\| `(bronzeward_\\w+)` \\|", part))
	same(t, "steps", found(`seconds\.WithLabelValues\("([a-z-]+)"\)`, code), found("(?m)^\\| `([a-z-]+)` \\|", part))

	for _, name := range found(`(bronzeward_[a-z_]+[a-z])`, between(t, text, "## What to alert on", "## Log lines")) {
		if !strings.Contains(part, "`"+strings.TrimSuffix(name, "_bucket")+"`") {
			t.Errorf("an alert asks for %s, which is no metric", name)
		}
	}

	ready := sources(t, "ready.go", "gateway", "cmd/bronzeward") + sources(t, "house.go", "gateway/httpapi")
	fields := found(`"([a-z_]+)":`, between(t, ready, "\treturn map[string]any{", "\t}, problems"))
	fields = append(fields, found(`state\["([a-z_]+)"\]`, ready)...)
	same(t, "fields of /readyz", fields, cells(between(t, text, "## Readiness", "## Metrics")))
}

func TestEveryLinkOfTheDocsLeadsSomewhere(t *testing.T) {
	for _, name := range pages() {
		for _, target := range found(`\]\(([^)]+)\)`, page(t, name)) {
			file, anchor, _ := strings.Cut(target, "#")
			if file == "" {
				file = name
			}
			raw, err := os.ReadFile(filepath.Join("..", "..", "docs", file))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			var anchors []string
			for _, title := range found("(?m)^#+ (.*)$", string(raw)) {
				anchors = append(anchors, strings.ReplaceAll(regexp.MustCompile("[^a-z0-9_ -]").ReplaceAllString(strings.ToLower(title), ""), " ", "-"))
			}
			if anchor != "" && !slices.Contains(anchors, anchor) {
				t.Errorf("%s: %s has no part %s", name, file, anchor)
			}
		}
	}
}

func TestEveryLogLineIsExplained(t *testing.T) {
	text := between(t, page(t, "operating.md"), "## Log lines", "## Machines")
	there := found(`(?:og|ogger|s\.log|slog)\.(?:(?:Info|Warn|Error)(?:Context)?\((?:ctx, )?|Level(?:Info|Warn|Error), )"([^"]+)"`,
		sources(t, ".go", "gateway", "audit", "policy", "cmd/bronzeward"))
	development := []string{
		"call", "configuration digests are plain SHA-256: whoever can read the database can test guesses of a configuration (digest.scheme)",
		"the law in the watched directory does not become live", "the law in the watched directory is live",
	}
	there = slices.DeleteFunc(there, func(m string) bool { return slices.Contains(development, m) })
	same(t, "log lines", there, cells(text))
}

func TestEveryRefusalOfACredentialIsExplained(t *testing.T) {
	there := found(`Class\w+ Class = "([a-z-]+)"`, sources(t, "refusal.go", "gateway/identity"))
	same(t, "classes", there, cells(between(t, page(t, "faults.md"), "## Credentials", "## People")))
}

func TestEveryMemberOfARecordIsExplained(t *testing.T) {
	text := page(t, "auditing.md")
	for file, part := range map[string][2]string{
		"entry-full.json":   {"## What an entry holds", "`recorded_at` is a column only"},
		"outcome-full.json": {"## What an outcome holds", "| kind | states |"},
	} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "audit", "testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		var record map[string]any
		if err := json.Unmarshal(raw, &record); err != nil {
			t.Fatal(err)
		}
		var there []string
		for name, value := range record {
			there = append(there, name)
			inner, ok := value.(map[string]any)
			if !ok || name == "facts" || file == "outcome-full.json" {
				continue
			}
			for member := range inner {
				there = append(there, name+"."+member)
			}
		}
		same(t, file, there, cells(between(t, text, part[0], part[1])))
	}
	same(t, "kinds of outcomes", found(`Outcome\w+\s+OutcomeKind = "([a-z-]+)"`, sources(t, "entry.go", "audit")),
		cells(between(t, text, "| kind | states |", "An apply's outcomes")))
	same(t, "states", found(`State\w+\s+State = "([a-z_]+)"`, sources(t, ".go", "gateway/control")),
		cells(between(t, text, "## States of an attempt", "`open` goes to")))
}

func TestTheWorkedLeafIsRight(t *testing.T) {
	leaf := audit.Leaf([]byte(`{"v":1}`), time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC))
	if !strings.Contains(page(t, "auditing.md"), "\n"+hex.EncodeToString(leaf[:])+"  -\n") {
		t.Errorf("auditing.md does not show the leaf %x", leaf)
	}
}

// auditedBook is the migrated schema with a login for each role.
var auditedBook = pgtest.Template{Name: "docs_book", Prepare: func(ctx context.Context, dsn string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := control.Migrate(ctx, conn, nil); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `create role gateway login in role bronzeward_gateway; create role auditor login in role bronzeward_auditor`)
	return err
}}

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
		insert into control.attempts (id, entry_id, machine_id, cluster, instance, generation, epoch, issuer, subject, request_key, mode, digest,
				base_active, base_persistent, live_type, stage, minor, node_id, talos_cluster_id, smbios, opened_at, send_by, lease_until, transport_deadline, settle_floor)
			select '018f2f6e-0000-7000-8000-0000000000aa', '018f2f6e-0000-7000-8000-000000000001', m.id, 'lab', 'g1', 1, i.epoch, 'https://people.example', 'olga', 'k',
				'no-reboot', 'sha256:k0:new', 'sha256:k0:old', 'sha256:k0:old', 'worker', 'running', '1.13', 'n', 'c', 's',
				t, t + interval '2 seconds', t + interval '15 seconds', t + interval '30 seconds', interval '30 seconds'
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

	queries := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)```sql\n-- (\\w+)\n(.*?)```").FindAllStringSubmatch(page(t, "auditing.md"), -1) {
		queries[m[1]] = m[2]
	}
	// Rows a query gives, and what one of them says.
	wants := map[string]struct {
		rows int
		says string
	}{
		"changes": {1, "sha256:k0:new"}, "refusals": {1, "the request names no mode"}, "held": {1, "worker-1"},
		"person": {4, "machines.pin"}, "lost": {1, "Version"}, "fields": {1, "machine.nodeLabels.a"},
		"strangers": {1, "10.6.6.6"}, "acts": {1, "machines.pin"}, "laws": {1, "aa"}, "judged": {1, "the node lost power"}, "leaves": {0, ""},
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
