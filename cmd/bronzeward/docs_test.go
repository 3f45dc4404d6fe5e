package main

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
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
	kongcompletion "github.com/jotaen/kong-completion"
	"go.yaml.in/yaml/v4"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/policy"
)

// pages are the files of docs/ that these tests hold.
func pages() []string {
	return []string{"policies.md", "facts.md", "law-data.md", "codes.md", "rules.md", "auditing.md", "record.md", "questions.md", "operating.md", "faults.md", "approvals.md", "drift.md", "recovery.md", "holds.md", "closing.md", "outages.md", "rotating.md", "people.md", "log-lines.md", "openbao.md", "watching.md", "keeping.md", "replay.md", "effects.md", "calendars.md"}
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
	same(t, "codes of the law", law, cells(page(t, "rules.md")))

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
	same(t, "facts", there, cells(between(t, page(t, "facts.md"), "| field | type | meaning |", "## Classes")))
}

func TestEveryKeyOfTheDataIsExplained(t *testing.T) {
	text := page(t, "law-data.md")
	for file, part := range map[string][2]string{
		"bronzeward/data.yaml":         {"### `bronzeward/data.yaml`", "With `quorum.required: 0`"},
		"bronzeward/methods/data.yaml": {"### `bronzeward/methods/data.yaml`", "### "},
		"bronzeward/api/data.yaml":     {"### `bronzeward/api/data.yaml`", "### "},
		"bronzeward/config/data.yaml":  {"### `bronzeward/config/data.yaml`", "## "},
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
		t.Fatalf("policies.md has %d Rego examples, want the test and its rule", len(blocks))
	}
	shipped, err := policy.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	files := append(shipped.Files(),
		policy.File{Path: "bronzeward/rules/site/site.rego", Body: []byte(blocks[1][1])},
		policy.File{Path: "bronzeward/rules/site/site_test.rego", Body: []byte(blocks[0][1])})
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
	parser, err := kong.New(&commands{Globals: cli.Globals{Console: cli.Console{Out: io.Discard, ErrOut: io.Discard}}}, kong.Name("bronzeward"), kong.Vars{"version": "x"})
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
		for _, m := range regexp.MustCompile("(?:[`$] ?|try: |\n|   )bronzeward ([a-z-]+)(?: ([a-z-]+))?").FindAllStringSubmatch(page(t, name), -1) {
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
	text := page(t, "watching.md")
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
	fields = append(fields, found(`(?:state|body)\["([a-z_]+)"\]`, ready)...)
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
	text := page(t, "log-lines.md")
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
	text := page(t, "record.md")
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

func TestEveryFindingIsExplained(t *testing.T) {
	same(t, "kinds of findings", found(`(?m)^\t\w+ Kind = "([a-z_]+)"`, sources(t, "finding.go", "audit/verify")),
		cells(between(t, page(t, "auditing.md"), "| finding | it means |", "A month that was taken out")))
}

func TestTheWorkedLeafIsRight(t *testing.T) {
	leaf := audit.Leaf([]byte(`{"v":1}`), time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC))
	if !strings.Contains(page(t, "record.md"), "\n"+hex.EncodeToString(leaf[:])+"  -\n") {
		t.Errorf("record.md does not show the leaf %x", leaf)
	}
}
