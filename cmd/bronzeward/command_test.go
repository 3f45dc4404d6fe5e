package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
)

func TestWhatIsWrittenWrongIsCode2AndSaysWhatToDo(t *testing.T) {
	folder, text := clitest.GoodConfig(t)
	config := clitest.WriteConfig(t, folder, text)
	t.Setenv("BRONZEWARD_CERTIFICATE", "")
	t.Setenv("BRONZEWARD_KEY", "")
	t.Setenv("BRONZEWARD_TOKEN", "")
	t.Setenv("BRONZEWARD_TOKEN_FILE", "")
	for name, row := range map[string]struct {
		args []string
		want string
	}{
		"an unknown command":           {[]string{"nosuch"}, "bronzeward --help"},
		"an unknown flag":              {[]string{"version", "--nosuch"}, "try: bronzeward version --help\n"},
		"an unknown flag of a command": {[]string{"attempts", "account", "x", "--nosuch"}, "try: bronzeward attempts account --help\n"},
		"a flag that is missing":       {[]string{"attempts", "account", "x", "--landed"}, "try: bronzeward attempts account --help\n"},
		"no answer":                    {[]string{"--config", config, "attempts", "account", "019a5c3e-7b1d-7f00-8000-00000000000a", "--reason", "r"}, "say one of --landed and --not-landed"},
		"an unknown output":            {[]string{"version", "-o", "xml"}, "table"},
		"no file":                      {[]string{"--config", "/nosuch/file", "config", "check"}, "/nosuch/file"},
		"an id that is none":           {[]string{"--config", config, "decisions", "show", "x"}, "ids look like"},
		"a cursor that is none":        {[]string{"--config", config, "decisions", "list", "--after", "x"}, "cursor"},
		"too large a page":             {[]string{"--config", config, "decisions", "list", "--limit", "1001"}, "--limit 1001 is not between 1 and 1000"},
		"an unknown verdict":           {[]string{"--config", config, "decisions", "list", "--verdict", "maybe"}, "allow, deny, refuse"},
		"nobody":                       {[]string{"--config", config, "machines", "pin", "m"}, "recorded under your name"},
		"half a certificate":           {[]string{"--config", config, "machines", "pin", "m", "--key", "k"}, "go together"},
		"a name for an address":        {[]string{"--config", config, "machines", "add", "m", "--cluster", "c", "--address", "m.example"}, "is not an address"},
		"two answers":                  {[]string{"--config", config, "attempts", "account", "x", "--landed", "--not-landed", "--reason", "r"}, "--landed"},
	} {
		t.Run(name, func(t *testing.T) {
			got := runProgram(t, row.args...)
			if got.Code != cli.ExitUsage || !strings.Contains(got.ErrOut+got.Out, row.want) {
				t.Errorf("code %d, want %d and %q:\n%s%s", got.Code, cli.ExitUsage, row.want, got.Out, got.ErrOut)
			}
		})
	}
}

func TestADatabaseThatIsAwayIsCode5(t *testing.T) {
	folder, text := clitest.GoodConfig(t)
	text = strings.ReplaceAll(text, "@localhost/", "@127.0.0.1:1/")
	text = strings.ReplaceAll(text, "host=localhost", "host=127.0.0.1 port=1")
	config := clitest.WriteConfig(t, folder, text)
	for _, args := range [][]string{{"decisions", "list"}, {"policy", "status"}, {"migrate", "--check"}} {
		if got := runProgram(t, append([]string{"--config", config}, args...)...); got.Code != cli.ExitUnavailable {
			t.Errorf("%v: code %d, want %d:\n%s", args, got.Code, cli.ExitUnavailable, got.ErrOut)
		}
	}
}

func TestVersionsInThreeFormats(t *testing.T) {
	table := runProgram(t, "version")
	if table.Code != cli.ExitOK || !strings.HasPrefix(table.Out, "PART ") || !strings.Contains(table.Out, "talos served") {
		t.Errorf("table: code %d\n%s", table.Code, table.Out)
	}
	var fromJSON, fromYAML map[string]string
	if err := json.Unmarshal([]byte(runProgram(t, "version", "-o", "json").Out), &fromJSON); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Load([]byte(runProgram(t, "version", "--output=yaml").Out), &fromYAML); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromJSON, fromYAML); diff != "" || fromJSON["talos"] == "" {
		t.Errorf("json and yaml differ (-json +yaml):\n%s", diff)
	}
}

func TestATableShowsADashForNothing(t *testing.T) {
	var b strings.Builder
	g := &cli.Globals{Output: "table", Console: cli.Console{Out: &b}}
	if err := g.Print(nil, []string{"A", "B"}, func(row func(...string)) { row("x", "") }); err != nil {
		t.Fatal(err)
	}
	if want := "A   B\nx   -\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestYAMLHasTheNamesOfJSON(t *testing.T) {
	var b strings.Builder
	g := &cli.Globals{Output: "yaml", Console: cli.Console{Out: &b}}
	machine := struct {
		Name       string     `json:"name"`
		NodeID     string     `json:"node_id"`
		ObservedAt *time.Time `json:"observed_at"`
	}{Name: "m", NodeID: "n1"}
	if err := g.Print(machine, nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"name: m\n", "node_id: n1\n", "observed_at: null\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestHelpGoesToStandardOutputAndIsNoError(t *testing.T) {
	got := runProgram(t, "decisions", "list", "--help")
	if got.Code != cli.ExitOK || !strings.Contains(got.Out, "--after") || got.ErrOut != "" {
		t.Errorf("code %d, error output %q:\n%s", got.Code, got.ErrOut, got.Out)
	}
}

func TestHelpIsACommandToo(t *testing.T) {
	flag, word := runProgram(t, "decisions", "show", "--help"), runProgram(t, "help", "decisions", "show")
	if word.Code != cli.ExitOK || word.Out != flag.Out || word.Out == "" {
		t.Errorf("code %d: %s%s", word.Code, word.Out, word.ErrOut)
	}
	for _, args := range [][]string{{"help", "nosuch"}, {"help", "decisions", "nosuch"}} {
		if got := runProgram(t, args...); got.Code != cli.ExitUsage || !strings.Contains(got.ErrOut, "there is no such command") {
			t.Errorf("%v: code %d: %s%s", args, got.Code, got.Out, got.ErrOut)
		}
	}
}

func TestCompletionIsTheScriptItself(t *testing.T) {
	for shell, want := range map[string]string{"bash": "complete -o default", "zsh": "autoload -U", "fish": "complete -f -c bronzeward"} {
		got := runProgram(t, "completion", shell)
		if got.Code != cli.ExitOK || !strings.Contains(got.Out, want) || strings.Contains(got.Out, "Execute the following") {
			t.Errorf("%s: code %d: %s%s", shell, got.Code, got.Out, got.ErrOut)
		}
	}
	if got := runProgram(t, "completion"); got.Code != cli.ExitUsage {
		t.Errorf("without a shell: code %d", got.Code)
	}
}

func TestTheHelpReadsAsItDid(t *testing.T) {
	for name, args := range map[string][]string{"help": {"--help"}, "changes-help": {"changes", "--help"}} {
		t.Run(name, func(t *testing.T) {
			got := runProgram(t, args...)
			if got.Code != cli.ExitOK {
				t.Fatalf("code %d\n%s", got.Code, got.ErrOut)
			}
			clitest.Golden(t, name, got)
		})
	}
}
