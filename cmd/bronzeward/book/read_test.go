package book

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/cli"
)

// times and hashes differ at each run.
var (
	someTime = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC`)
	someLeaf = regexp.MustCompile(`leaf [0-9a-f]{64}`)
)

func settled(text string, ids ...uuid.UUID) string {
	return someLeaf.ReplaceAllString(someTime.ReplaceAllString(steady(text, ids...), "TIME"), "leaf LEAF")
}

func TestADecisionIsToldWhole(t *testing.T) {
	w := newWorld(t)
	sent := w.write(t, apply(),
		audit.Outcome{Kind: audit.OutcomeUnanswered, Code: "Unavailable", Message: "reset"},
		audit.Outcome{Kind: audit.OutcomeReadBack, Digest: "sha256:k0:new", Persistent: "sha256:k0:disk"},
		audit.Outcome{Kind: audit.OutcomeState, State: "unresolved", Message: "no answer came"},
		audit.Outcome{Kind: audit.OutcomeAccounted, Code: audit.JudgedNotLanded, Caller: olga(), Message: "it lost power"},
		audit.Outcome{Kind: audit.OutcomeLate, Digest: "sha256:k0:new"})
	before := w.run(t, "show", sent.String())
	if before.err != nil || !strings.Contains(before.out, "not in the tree yet") {
		t.Errorf("before it is sequenced: %v\n%s", before.err, before.out)
	}
	w.sequence(t)
	golden(t, "show-apply.txt", settled(w.run(t, "show", sent.String()).out, sent))

	if _, err := w.owner.Exec(t.Context(), `insert into audit.checkpoints (tree, size, root, note) values (1, 6, decode(repeat('ab', 32), 'hex'), 'n')`); err != nil {
		t.Fatal(err)
	}
	if got := w.run(t, "show", sent.String()); !strings.Contains(got.out, "row 0 of tree 1, under the checkpoint of 6 rows, signed ") {
		t.Errorf("%v\n%s", got.err, got.out)
	}
	stranger := w.write(t, audit.Entry{Kind: audit.KindRPC, Verdict: audit.Refused, Class: "no-credential", ClientAddress: "10.6.6.6", Count: 3, Codes: []string{"BW-CREDENTIAL-001"}})
	golden(t, "show-stranger.txt", settled(w.run(t, "show", stranger.String()).out, stranger))

	var all struct {
		Decision struct{ ID string }
		Record   struct{ Facts map[string]any }
		Outcomes []struct{ Kind, Message string }
		Place    struct{ Index int64 }
	}
	if err := json.Unmarshal([]byte(w.run(t, "-o", "json", "show", sent.String()).out), &all); err != nil {
		t.Fatal(err)
	}
	if all.Decision.ID != sent.String() || all.Record.Facts["version"] != 1.0 || len(all.Outcomes) != 5 || all.Outcomes[0].Message != "reset" {
		t.Errorf("%+v", all)
	}
}

// What the gateway noticed itself was asked for by nobody and has no outcome: that is said, and not
// that it still runs.
func TestWhatTheGatewayNoticedIsToldAsThat(t *testing.T) {
	w := newWorld(t)
	e := audit.Entry{
		Kind: audit.KindSystem, Verdict: audit.Allowed, Method: "drift.opened", Class: "drift", MachineName: "worker-1", Cluster: "lab", NodeID: "n1",
		Digest: "sha256:k0:found", Base: "sha256:k0:old", Persistent: "sha256:k0:disk", PolicyRevision: "a7b7", AuthorityVersion: 7, Instance: "g1", Count: 1,
		Detail: "drift drf_1: it runs sha256:k0:found",
	}
	id := w.write(t, e)
	got := w.run(t, "show", id.String())
	has(t, got.out, "NOTED", "nobody: the gateway noticed it itself", "runs ", "active before", "on disk before", "no outcome of its own", "no law was asked")
	for _, never := range []string{"ALLOWED", "it still runs", "nobody was proven", "what the law said"} {
		if strings.Contains(got.out, never) {
			t.Errorf("%q stands in\n%s", never, got.out)
		}
	}
	// A call without an outcome may still run.
	if got := w.run(t, "show", w.write(t, call("Version")).String()); !strings.Contains(got.out, "it still runs") {
		t.Errorf("%v\n%s", got.err, got.out)
	}
}

func TestAnIdIsTakenWholeOrNotAtAll(t *testing.T) {
	w := newWorld(t)
	for arg, want := range map[string]string{
		"019a5c3e":                             "is the beginning of an id",
		"019a5c3e-7b1d-7f00-8000-0123456789ac": "no decision has the id",
		"nonsense":                             "is not an id",
		"chg_01kb8v6d3kfq0r8mz7n2c5w9ta":       "is a change",
		"":                                     "is not an id",
	} {
		if got := w.run(t, "show", arg); got.err == nil || !strings.Contains(got.err.Error(), want) {
			t.Errorf("%q: %v, want %q", arg, got.err, want)
		}
	}
	for _, typo := range []string{"--change=abc", "--digest=abc"} { // which would find nothing, as if there was nothing
		if got := w.run(t, "list", typo); got.err == nil || !strings.Contains(got.err.Error(), "those begin") {
			t.Errorf("%s: %v", typo, got.err)
		}
	}
}

func TestAListGoesOnWhereAPageEnded(t *testing.T) {
	w := newWorld(t)
	var ids []uuid.UUID
	for range 5 {
		ids = append(ids, w.write(t, call("Version"), audit.Outcome{Kind: audit.OutcomeAnswered, Code: "OK"}))
	}
	seen := []string{}
	after := ""
	for range 3 {
		got := w.run(t, "list", "-o", "json", "--oldest", "--limit", "2", "--after", after)
		var page []struct{ ID, Outcome string }
		if err := json.Unmarshal([]byte(got.out), &page); err != nil || got.err != nil {
			t.Fatal(err, got.err)
		}
		for _, one := range page {
			seen = append(seen, one.ID)
			if one.Outcome != "OK" {
				t.Errorf("its outcome is %q", one.Outcome)
			}
		}
		_, after, _ = strings.Cut(strings.TrimSpace(got.errOut), "--after ")
	}
	for i, id := range ids {
		if len(seen) != len(ids) || seen[i] != id.String() {
			t.Fatalf("the pages are %v, want %v", seen, ids)
		}
	}
	if after != "" {
		t.Errorf("after the last page there is %q", after)
	}
}

func TestAListIsAsked(t *testing.T) {
	w := newWorld(t)
	sent := w.write(t, apply())
	cosi := call("x")
	cosi.Method, cosi.Facts = "/cosi.resource.State/Get", []byte(`{"call":{"resource":{"namespace":"n","type":"MachineConfigs.config.talos.dev","id":"v1alpha1"}}}`)
	got := w.write(t, cosi)
	evil := call("Version")
	evil.Caller.Subject, evil.Verdict, evil.Codes = "=cmd|'/c calc'!A1", audit.Denied, []string{"BW-A-001", "BW-B-001", "BW-C-001"}
	refused := w.write(t, evil)
	for name, row := range map[string]struct {
		args []string
		want []uuid.UUID
	}{
		"all":             {nil, []uuid.UUID{refused, got, sent}},
		"a changed path":  {[]string{"--path", "machine.nodeLabels"}, []uuid.UUID{sent}},
		"a digest":        {[]string{"--digest", "sha256:k0:new"}, []uuid.UUID{sent}},
		"another digest":  {[]string{"--digest", "sha256:k0:none"}, nil},
		"a code":          {[]string{"--code", "BW-B-001"}, []uuid.UUID{refused}},
		"a change":        {[]string{"--change", "chg_1"}, []uuid.UUID{sent}},
		"a method":        {[]string{"--method", "ApplyConfiguration"}, []uuid.UUID{sent}},
		"so long ago":     {[]string{"--since", "1h"}, []uuid.UUID{refused, got, sent}},
		"before a day":    {[]string{"--until", "2020-01-01"}, nil},
		"a day on":        {[]string{"--since", "2020-01-01", "--class", "apply"}, []uuid.UUID{sent}},
		"an attempt":      {[]string{"--attempt", "018f2f6e-0000-7000-8000-0000000000aa"}, []uuid.UUID{sent}},
		"machine, person": {[]string{"-m", "worker-1", "--subject", "olga", "--oldest"}, []uuid.UUID{sent, got}},
	} {
		t.Run(name, func(t *testing.T) {
			out := w.run(t, append([]string{"list", "-o", "json"}, row.args...)...)
			var list []struct{ ID string }
			if err := json.Unmarshal([]byte(out.out), &list); err != nil || out.err != nil {
				t.Fatal(err, out.err)
			}
			have := []uuid.UUID{}
			for _, one := range list {
				have = append(have, uuid.MustParse(one.ID))
			}
			if len(have) != len(row.want) {
				t.Fatalf("got %v, want %v", have, row.want)
			}
			for i := range have {
				if have[i] != row.want[i] {
					t.Fatalf("got %v, want %v", have, row.want)
				}
			}
		})
	}
	golden(t, "list.txt", settled(w.run(t, "list").out, sent, got, refused))

	table, err := csv.NewReader(strings.NewReader(w.run(t, "list", "-o", "csv").out)).ReadAll()
	if err != nil || len(table) != 4 || strings.Join(table[0], ",") != "time,id,kind,verdict,codes,issuer,subject,client_address,machine,cluster,method,resource,class,mode,dry_run,digest,base_digest,persistent_digest,change,attempt,policy_revision,count,outcome" {
		t.Fatalf("%v\n%v", err, table)
	}
	if table[1][6] != "'=cmd|'/c calc'!A1" || table[1][4] != "BW-A-001 BW-B-001 BW-C-001" || table[2][11] != "MachineConfigs.config.talos.dev/v1alpha1" {
		t.Errorf("%q", table[1:])
	}
	if wide := w.run(t, "list", "-o", "wide"); wide.err != nil || !strings.Contains(wide.out, "BW-A-001,BW-B-001,BW-C-001") {
		t.Errorf("%v\n%s", wide.err, wide.out)
	}
}

func TestWhatASpreadsheetWouldComputeIsQuoted(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "olga": "olga", "=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\tx": "'\tx", "\rx": "'\rx", "\nx": "'\nx", "a=1": "a=1", "é": "é",
	} {
		if got := csvCell(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

func TestTheLoginIsNamedInOrderAndNeverRepeated(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := folder + "/" + name
		mustWrite(t, path, text)
		return path
	}
	const secret = "hunter2"
	bad := "host=127.0.0.1 port=1 user=auditor connect_timeout=1 password=" + secret
	for name, row := range map[string]struct {
		env, file string
		config    Settings
		args      []string
		want      string
		kind      error
	}{
		"the file first":         {"postgres://x y", write("good", bad+"\n"), noConfig{}, nil, "(--database-url-file)", cli.UnavailableError{}},
		"then the environment":   {bad, "", configured("rubble"), nil, "(BRONZEWARD_AUDITOR_URL)", cli.UnavailableError{}},
		"then the configuration": {"", "", configured(bad), nil, "(database.auditor_url)", cli.UnavailableError{}},
		"rubble":                 {"postgres://a:" + secret + "%zz@h/d", "", noConfig{}, nil, "BRONZEWARD_AUDITOR_URL is not a PostgreSQL connection string", cli.UsageError{}},
		"an empty file":          {"", write("empty", "\n"), noConfig{}, nil, "does not hold one connection string", cli.UsageError{}},
		"two lines":              {"", write("two", "a\nb"), noConfig{}, nil, "does not hold one connection string", cli.UsageError{}},
		"no file":                {"", folder + "/none", noConfig{}, nil, "--database-url-file", cli.UsageError{}},
		"none":                   {"", "", noConfig{}, nil, "give --database-url-file FILE, set BRONZEWARD_AUDITOR_URL", cli.UsageError{}},
		"a bad configuration":    {"", "", broken{}, nil, "line 3", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(auditorURL, row.env)
			t.Setenv("XDG_CONFIG_HOME", folder)
			args := []string{"stats"}
			if row.file != "" {
				args = append(args, "--database-url-file", row.file)
			}
			got := runAt(t, t.Context(), row.config, cli.Console{}, args...)
			if got.err == nil || !strings.Contains(got.err.Error(), row.want) || strings.Contains(got.err.Error(), secret) {
				t.Fatalf("%v, want %q", got.err, row.want)
			}
			var usage cli.UsageError
			switch row.kind.(type) {
			case cli.UsageError:
				if !errors.As(got.err, &usage) {
					t.Errorf("%v is no usage error", got.err)
				}
			case cli.UnavailableError:
				if !cli.IsUnavailable(got.err) {
					t.Errorf("%v does not say that the database is away", got.err)
				}
			}
		})
	}
}

type configured string

func (c configured) AuditorURL() (string, error) { return string(c), nil }

type broken struct{}

func (broken) AuditorURL() (string, error) { return "", errors.New("config.yaml: line 3: unknown key") }

func TestAnAuditorsSessionWritesNothing(t *testing.T) {
	w := newWorld(t)
	pool, err := openPool(t.Context(), strings.Replace(w.auditor, "book_auditor", "postgres", 1), "a test")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), "create table x (y int)"); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("%v", err)
	}
}
