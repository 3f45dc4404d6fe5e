package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/gateway/httpapi/api"
)

// writeClientFile makes a configuration folder with a client file and has it used.
func writeClientFile(t *testing.T, text string) (folder string) {
	t.Helper()
	home := t.TempDir()
	folder = filepath.Join(home, "bronzeward")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "client.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CONFIG_HOME", home)
	return folder
}

func TestFlagsComeBeforeTheEnvironmentAndBothBeforeTheFile(t *testing.T) {
	s := clitest.NewStub(t)
	s.On("GET /whoami", clitest.Gives(http.StatusOK, api.Caller{Subject: "x", Groups: []string{}}))
	env := map[string]string{"BRONZEWARD_SERVER": s.URL, "BRONZEWARD_SERVER_CA": s.CA, "BRONZEWARD_CERTIFICATE": "", "BRONZEWARD_KEY": ""}
	certificate, key := s.Person(t, "fay")
	flags := []string{"--certificate", certificate, "--key", key}
	inEnv, inEnvKey := s.Person(t, "ed")
	inFile, inFileKey := s.Person(t, "bob")
	folder := writeClientFile(t, "certificate: me.crt\nkey: me.key\nserver: https://127.0.0.1:1\n")
	for from, to := range map[string]string{inFile: "me.crt", inFileKey: "me.key"} {
		raw, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, to), raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, row := range map[string]struct {
		env  map[string]string
		args []string
		who  string
		auth string
	}{
		"the file, by paths relative to it": {who: "bob"},
		"the environment":                   {env: map[string]string{"BRONZEWARD_CERTIFICATE": inEnv, "BRONZEWARD_KEY": inEnvKey}, who: "ed"},
		"flags": {
			env:  map[string]string{"BRONZEWARD_CERTIFICATE": inEnv, "BRONZEWARD_KEY": inEnvKey, "BRONZEWARD_SERVER": "https://127.0.0.1:1"},
			args: append([]string{"--server", s.URL}, flags...), who: "fay",
		},
		"a token alone leaves the file's certificate": {env: map[string]string{"BRONZEWARD_TOKEN": " t0ken\n"}, auth: "Bearer t0ken"},
		"a token beside a certificate":                {env: map[string]string{"BRONZEWARD_TOKEN": "t0ken"}, args: flags, who: "fay", auth: "Bearer t0ken"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, set := range []map[string]string{env, {"BRONZEWARD_TOKEN": ""}, row.env} {
				for k, v := range set {
					t.Setenv(k, v)
				}
			}
			got := runProgram(t, append([]string{"whoami"}, row.args...)...)
			if got.Code != cli.ExitOK {
				t.Fatalf("code %d\n%s", got.Code, got.ErrOut)
			}
			seen := s.Requests()
			last := seen[len(seen)-1]
			if last.Who != row.who || last.Header.Get("Authorization") != row.auth {
				t.Errorf("came as %q with %q, want %q with %q", last.Who, last.Header.Get("Authorization"), row.who, row.auth)
			}
		})
	}
}

func TestTheTokenFileIsReadForEveryRequest(t *testing.T) {
	s := clitest.NewStub(t)
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Error(err)
		}
	}
	write("first")
	s.On("GET /whoami", func(w http.ResponseWriter, r *http.Request) {
		write("second")
		clitest.Gives(http.StatusOK, api.Caller{Subject: "olga", Issuer: clitest.StubIssuer})(w, r)
	})
	s.On("GET /changes", clitest.Gives(http.StatusOK, api.ChangeList{Items: []api.Change{}}))
	if got := runProgram(t, "changes", "list", "--mine", "--token-file", file); got.Code != cli.ExitOK {
		t.Fatalf("code %d\n%s", got.Code, got.ErrOut)
	}
	var auth []string
	for _, r := range s.Requests() {
		auth = append(auth, r.Header.Get("Authorization"))
	}
	if strings.Join(auth, ",") != "Bearer first,Bearer second" {
		t.Errorf("tokens shown: %v", auth)
	}
}

func TestWhatIsWrongWithTheClientFileIsNamedWithItsLine(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"unknown keys":   {"server: https://a:1\nsever: x\ntoken: y\n", "line 2: unknown key \"sever\" (the keys are server, server_ca, certificate, key and token_file)\nline 3: unknown key \"token\""},
		"a key twice":    {"server: https://a:1\nserver: https://b:1\n", "client.yaml"},
		"no YAML":        {": : [", "client.yaml"},
		"another type":   {"server: [a]\n", "line 1: this must be text"},
		"a bad address":  {"server: http://a:1\n", "is not https"},
		"a password":     {"server: https://me:hunter2@a:1\n", "names a user or password"},
		"half a pair":    {"server: https://a:1\nkey: me.key\n", "go together"},
		"a missing file": {"server: https://a:1\nkey: me.key\ncertificate: me.crt\n", "bronzeward/me.crt"},
	} {
		t.Run(name, func(t *testing.T) {
			writeClientFile(t, row.text)
			got := runProgram(t, "whoami")
			if got.Code != cli.ExitUsage || !strings.Contains(got.ErrOut, row.want) || strings.Contains(got.ErrOut, "hunter2") {
				t.Errorf("code %d, want %d and %q:\n%s", got.Code, cli.ExitUsage, row.want, got.ErrOut)
			}
		})
	}
}

func TestNoGatewayAndNobodyAreSaidAtOnce(t *testing.T) {
	got := runProgram(t, "changes", "list")
	for _, want := range []string{"no gateway is named: give --server https://HOST:PORT", "log in: bronzeward login --server https://HOST:PORT\n", "recorded under your name, give --certificate"} {
		if got.Code != cli.ExitUsage || !strings.Contains(got.ErrOut, want) {
			t.Errorf("code %d, and no %q in\n%s", got.Code, want, got.ErrOut)
		}
	}
}

func TestWhoIsNotLoggedInIsToldHowAtTheirGateway(t *testing.T) {
	writeClientFile(t, "server: https://gate.example:9443\n")
	for _, args := range [][]string{{"whoami"}, {"changes", "list"}} {
		got := runProgram(t, args...)
		if got.Code != cli.ExitUsage || !strings.Contains(got.ErrOut, "log in: bronzeward login --server https://gate.example:9443\n") {
			t.Errorf("%s: code %d\n%s", args, got.Code, got.ErrOut)
		}
	}
}

func TestAGatewayThatCannotBeAskedIsSaidWithWhatToDo(t *testing.T) {
	s := clitest.NewStub(t)
	plain := newPlainServer(t)
	other := clitest.NewStub(t) // signed by another CA
	t.Setenv("BRONZEWARD_SERVER", s.URL)
	t.Setenv("BRONZEWARD_SERVER_CA", s.CA)
	gone := newPlainServer(t)
	gone.Close()
	port := s.URL[strings.LastIndex(s.URL, ":"):]
	for name, row := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"nobody listens":       {[]string{"--server", strings.Replace(gone.URL, "http:", "https:", 1)}, cli.ExitUnavailable, []string{"nothing listens at https://127.0.0.1:", "http_listen"}},
		"another CA":           {[]string{"--server-ca", other.CA}, cli.ExitUsage, []string{"signed by nobody that is trusted here (its issuer is CN=server CA", "--server-ca FILE", "BRONZEWARD_SERVER_CA", "client.yaml"}},
		"another name":         {[]string{"--server", "https://localhost" + port}, cli.ExitUsage, []string{"is for another name (127.0.0.1)"}},
		"no TLS":               {[]string{"--server", strings.Replace(plain.URL, "http:", "https:", 1)}, cli.ExitUsage, []string{"does not speak TLS"}},
		"http":                 {[]string{"--server", plain.URL}, cli.ExitUsage, []string{"is not https"}},
		"not a gateway":        {nil, cli.ExitFailed, []string{`answered "404 Not Found", and not as Bronzeward does`}},
		"a CA file that isn't": {[]string{"--server-ca", s.Key}, cli.ExitUsage, []string{"holds no PEM certificate"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := runProgram(t, append([]string{"whoami"}, row.args...)...)
			for _, want := range row.want {
				if got.Code != row.code || !strings.Contains(got.ErrOut, want) {
					t.Errorf("code %d, want %d and %q:\n%s", got.Code, row.code, want, got.ErrOut)
				}
			}
		})
	}
}
