package policytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the folder of the module.
const root = ".."

// mayImport says which rooms a room may import; whatever is not here, nothing.
var mayImport = map[string][]string{
	"policy":                    {},
	"audit":                     {"policy"},
	"audit/tree":                {"audit"},
	"audit/verify":              {"audit", "audit/tree"},
	"policytest":                {"policy"},
	"policytest/replay":         {"audit", "policy"},
	"gateway/control":           {"audit", "policy"},
	"gateway/identity":          {"policy"},
	"gateway/facts":             {"policy", "gateway/keyfile"},
	"gateway/upstream":          {"policy"},
	"gateway/keyfile":           {},
	"gateway/vault":             {"gateway/keyfile"},
	"gateway/notify":            {"gateway/control"},
	"gateway/httpapi":           {"gateway/control", "policy", "audit", "audit/tree", "gateway/identity", "gateway/httpapi/api"},
	"gateway/httpapi/api":       {},
	"gateway/httpapi/apiclient": {"gateway/httpapi/api"},
	"gateway":                   {"gateway/identity", "gateway/facts", "gateway/upstream", "gateway/control", "policy", "audit", "audit/tree"},
	"cmd/bronzeward":            {"*"},
	"cmd/bronzeward/cli":        {},
	"cmd/bronzeward/exitcode":   {"cmd/bronzeward/cli", "cmd/bronzeward/ask", "audit", "gateway", "gateway/control", "gateway/upstream", "gateway/vault"},
	"cmd/bronzeward/program":    {"cmd/bronzeward/cli", "cmd/bronzeward/exitcode"},
	"cmd/bronzeward/config":     {"cmd/bronzeward/cli", "audit/tree", "policy", "gateway", "gateway/httpapi", "gateway/identity", "gateway/vault"},
	"cmd/bronzeward/ask":        {"cmd/bronzeward/cli", "gateway/httpapi/api", "gateway/httpapi/apiclient"},
	"cmd/bronzeward/ownfile":    {"cmd/bronzeward/cli"},
	"cmd/bronzeward/people":     {"cmd/bronzeward/cli", "cmd/bronzeward/ask", "cmd/bronzeward/ownfile", "gateway/httpapi/api"},
	"cmd/bronzeward/changes":    {"cmd/bronzeward/cli", "cmd/bronzeward/ask", "cmd/bronzeward/exitcode", "gateway/httpapi/api"},
	"cmd/bronzeward/recovery":   {"cmd/bronzeward/cli", "cmd/bronzeward/ask", "gateway/httpapi/api"},
	"cmd/bronzeward/machines":   {"cmd/bronzeward/cli", "cmd/bronzeward/ask", "gateway/httpapi/api"},
	"cmd/bronzeward/house":      {"cmd/bronzeward/cli", "cmd/bronzeward/config", "cmd/bronzeward/ownfile", "audit", "audit/tree", "policy", "gateway", "gateway/control", "gateway/facts", "gateway/httpapi", "gateway/identity", "gateway/notify", "gateway/upstream", "gateway/vault"},
	"cmd/bronzeward/law":        {"cmd/bronzeward/cli", "cmd/bronzeward/ask", "cmd/bronzeward/config", "cmd/bronzeward/house", "cmd/bronzeward/book", "audit", "policy", "policytest/replay", "gateway", "gateway/control", "gateway/identity", "gateway/httpapi/api", "policytest"},
	"cmd/bronzeward/bao":        {"cmd/bronzeward/cli", "cmd/bronzeward/config", "cmd/bronzeward/house", "audit/tree", "deploy/openbao", "gateway/upstream", "gateway/vault"},
	"cmd/bronzeward/book":       {"cmd/bronzeward/cli", "cmd/bronzeward/ask", "cmd/bronzeward/ownfile", "audit", "audit/tree", "audit/verify", "policy", "policytest/replay", "gateway/httpapi/api", "gateway/httpapi/apiclient"},
	"fixtures/versions":         {},
}

// doors says which rooms may import a large dependency, by the beginning of its path.
var doors = map[string][]string{
	"github.com/open-policy-agent/opa":          {"policy", "policytest"},
	"github.com/jackc/pgx":                      {"audit", "audit/tree", "audit/verify", "gateway/control", "cmd/bronzeward/book", "cmd/bronzeward/config", "cmd/bronzeward/house"},
	"github.com/jackc/tern":                     {"audit", "gateway/control"},
	"github.com/siderolabs/talos/pkg/machinery": {"gateway", "gateway/facts", "gateway/upstream"},
	"github.com/siderolabs/grpc-proxy":          {"gateway", "gateway/facts", "gateway/upstream"},
	"github.com/cosi-project/runtime":           {"gateway", "gateway/facts", "gateway/upstream"},
	"github.com/lestrrat-go/jwx":                {"gateway/identity"},
	"github.com/openbao/openbao":                {"gateway/vault"},
	"github.com/gorilla/mux":                    {"gateway/httpapi"},
	"github.com/pires/go-proxyproto":            {"gateway"},
	"github.com/standard-webhooks":              {"gateway/notify"},
	"github.com/alecthomas/kong":                {"cmd/bronzeward", "cmd/bronzeward/program"},
	"gopkg.in/yaml":                             {},
	"github.com/pkg/errors":                     {},
	"github.com/spf13/viper":                    {},
	"github.com/stretchr/testify":               {},
	"github.com/sirupsen/logrus":                {},
}

// edge is one import by a package of ours in the built binary.
type edge struct{ from, to string }

func TestTheImportRulesHoldOverTheBuiltBinary(t *testing.T) {
	for _, fault := range importFaults(edges(t)) {
		t.Error(fault)
	}
}

// The control of the import rules: forbidden edges are found.
func TestForbiddenImportsAreFound(t *testing.T) {
	for _, e := range []edge{
		{"policy", "bronzeward/audit"},
		{"gateway/control", "bronzeward/gateway"},
		{"gateway/control", "github.com/open-policy-agent/opa/v1/rego"},
		{"policy", "github.com/jackc/pgx/v5"},
		{"cmd/bronzeward", "bronzeward/fixtures/worker"},
		{"cmd/bronzeward/people", "bronzeward/cmd/bronzeward/house"},
		{"cmd/bronzeward/config", "bronzeward/cmd/bronzeward/house"},
		{"cmd/bronzeward/changes", "bronzeward/gateway/control"},
		{"cmd/bronzeward/house", "github.com/alecthomas/kong"},
		{"cmd/bronzeward/unlisted", "bronzeward/policy"},
		{"somewhere", "bronzeward/policy"},
	} {
		if len(importFaults([]edge{e})) == 0 {
			t.Errorf("%s may import %s", e.from, e.to)
		}
	}
	if faults := importFaults([]edge{{"audit", "bronzeward/policy"}, {"policy", "github.com/open-policy-agent/opa/v1/ast"}}); len(faults) > 0 {
		t.Errorf("allowed imports are found: %v", faults)
	}
}

func importFaults(all []edge) []string {
	var out []string
	for _, e := range all {
		if to, ours := strings.CutPrefix(e.to, "bronzeward/"); ours {
			allowed, known := mayImport[e.from]
			fixture := strings.HasPrefix(to, "fixtures")
			if !known && !strings.HasPrefix(e.from, "cmd/bronzeward/") || !slices.Contains(allowed, to) && !slices.Contains(allowed, "*") || fixture {
				out = append(out, e.from+" imports "+to+", and the rooms say it may not")
			}
			continue
		}
		for door, rooms := range doors {
			if (e.to == door || strings.HasPrefix(e.to, door+"/") || strings.HasPrefix(e.to, door+".")) && !slices.Contains(rooms, e.from) {
				out = append(out, e.from+" imports "+e.to+", whose door is "+strings.Join(rooms, ", "))
			}
		}
	}
	return out
}

// edges are the imports of our own packages that the product's binary is built of.
func edges(t *testing.T) []edge {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Imports", "./cmd/bronzeward")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -deps ./cmd/bronzeward: %v\n%s", err, stderr.String())
	}
	var out []edge
	dec := json.NewDecoder(bytes.NewReader(text))
	for {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if from, ours := strings.CutPrefix(p.ImportPath, "bronzeward/"); ours {
			for _, to := range p.Imports {
				out = append(out, edge{from, to})
			}
		}
	}
	if len(out) == 0 {
		t.Fatal("the binary is built of none of our packages")
	}
	return out
}

// maxLines is how long a file that people write may be.
const maxLines = 500

// unwanted are words that tell how a text came to be, or name a place it was made at.
// They are written in halves, so that this file does not hold them.
var unwanted = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	"chat" + "gpt", "open" + "ai", "clau" + "de", "anthro" + "pic", "copi" + "lot", "ge" + "mini", "large language " + "model",
	"ai-" + "generated", "generated by " + "ai", "as an " + "ai", "previous " + "session", "this " + "session's task",
}, "|") + `)\b|/` + `work/|/tmp/` + `bw`)

func TestFilesAreShortAndSayNothingOfTheirMaking(t *testing.T) {
	forbiddenNames := []string{"common", "util", "utils", "helpers", "helper", "misc"}
	seen := 0
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if p != root && (strings.HasPrefix(base, ".") && base != ".ci" && base != ".github" || slices.Contains([]string{"bin", "node_modules", "testdata", "dist"}, base)) {
				return fs.SkipDir
			}
			if slices.Contains(forbiddenNames, base) {
				t.Errorf("%s: a folder says what is in it", p)
			}
			return nil
		}
		if !d.Type().IsRegular() || !slices.Contains([]string{".go", ".rego", ".sql", ".md", ".sh", ".yaml", ".yml", ".mk", ""}, filepath.Ext(p)) {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Size() > 1<<20 {
			return nil
		}
		text, err := os.ReadFile(p)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		seen++
		if bytes.IndexByte(text, 0) >= 0 || bytes.Contains(text[:min(len(text), 200)], []byte("DO NOT EDIT")) {
			return nil
		}
		if n := bytes.Count(text, []byte("\n")); n > maxLines {
			t.Errorf("%s has %d lines, more than %d", p, n, maxLines)
		}
		if found := unwanted.Find(text); found != nil {
			line := 1 + bytes.Count(text[:bytes.Index(text, found)], []byte("\n"))
			t.Errorf("%s:%d holds %q", p, line, found)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 50 {
		t.Errorf("only %d files were read", seen)
	}
}

// The control of the words: what must be found is found.
func TestUnwantedWordsAreFound(t *testing.T) {
	for _, s := range []string{"written by Chat" + "GPT", "see /wo" + "rk/main", "an AI-" + "generated file"} {
		if !unwanted.MatchString(s) {
			t.Errorf("%q passes", s)
		}
	}
	if unwanted.MatchString("a session of the gateway, its agent mode, and the work it does") {
		t.Error("plain words are found")
	}
}
