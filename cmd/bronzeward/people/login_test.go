package people

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	clientconfig "github.com/siderolabs/talos/pkg/machinery/client/config"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/fixtures/idp"
)

func (w *loginWorld) talosconfigOf(t *testing.T) *clientconfig.Config {
	t.Helper()
	read, err := clientconfig.FromString(readFile(t, w.talosconfig))
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func TestLoginByBrowserSetsTalosctlAndBronzewardUp(t *testing.T) {
	w := newLoginWorld(t)
	got := w.login(t, "olga")
	if got.Code != cli.ExitOK {
		t.Fatalf("code %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	out := strings.ReplaceAll(strings.ReplaceAll(got.Out, filepath.Dir(w.config), "HOME"), w.idp.Issuer(), "ISSUER")
	out = regexp.MustCompile(`until [-0-9]+ [:0-9]+ UTC`).ReplaceAllString(out, "until TIME")
	want := `you are olga of ISSUER, in talos-operators, by a certificate good until TIME (for 8h) (decision ` + clitest.StubDecision + `)
  talosctl    context lab in HOME/talos/config
  bronzeward  HOME/config/bronzeward/client.yaml
try: talosctl -n MACHINE version
`
	if out = strings.Replace(out, "(for 7h)", "(for 8h)", 1); out != want {
		t.Errorf("it says\n%s\nwant\n%s", out, want)
	}
	if !strings.Contains(got.ErrOut, w.idp.Issuer()+"/authorize?") {
		t.Errorf("the address is not printed:\n%s", got.ErrOut)
	}

	there := w.talosconfigOf(t)
	lab := there.Contexts["lab"]
	if there.Context != "lab" || lab == nil || strings.Join(lab.Endpoints, ",") != "gate.example:50000" || lab.Cluster != "lab" || lab.Auth.Basic != nil {
		t.Fatalf("the talosconfig is\n%s", readFile(t, w.talosconfig))
	}
	var parts [3][]byte
	for i, text := range []string{lab.CA, lab.Crt, lab.Key} {
		var err error
		if parts[i], err = base64.StdEncoding.DecodeString(text); err != nil {
			t.Fatal(err)
		}
	}
	if string(parts[0]) != readFile(t, w.CA) {
		t.Error("ca is not the gateway's")
	}
	pair, err := tls.X509KeyPair(parts[1], parts[2])
	if err != nil || len(pair.Certificate) != 2 || pair.Leaf.Subject.CommonName != "olga" {
		t.Errorf("certificate and key: %v", err)
	}
	for _, file := range []string{w.talosconfig, filepath.Join(w.config, "bronzeward", "client.yaml"), filepath.Join(w.state, "bronzeward", "lock")} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
		if info, err := os.Stat(filepath.Dir(file)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the folder of %s: %v, %v", file, info.Mode(), err)
		}
	}

	// No more steps: the other commands ask as her, without flags and environment.
	t.Setenv("BRONZEWARD_SERVER", "")
	t.Setenv("BRONZEWARD_SERVER_CA", "")
	me := runProgram(t, "whoami", "-o", "json")
	if me.Code != cli.ExitOK || !strings.Contains(me.Out, `"subject": "olga"`) || !strings.Contains(me.Out, `"proof": "certificate"`) {
		t.Errorf("whoami: code %d\n%s%s", me.Code, me.Out, me.ErrOut)
	}
	// Nor does the next login need any.
	if again := runAt(t.Context(), cli.Console{Browse: w.browserOf(t, "olga", nil)}, "login"); again.Code != cli.ExitOK {
		t.Errorf("a second login: code %d\n%s", again.Code, again.ErrOut)
	}
	if key := w.talosconfigOf(t).Contexts["lab"].Key; key == lab.Key {
		t.Error("a second login has the first one's key")
	}
}

// The CA of one issuer does not vouch for another.
func TestTheIssuersCAIsRememberedForThatIssuerAlone(t *testing.T) {
	w := newLoginWorld(t)
	if got := w.login(t, "olga"); got.Code != cli.ExitOK {
		t.Fatal(got.ErrOut)
	}
	f := newFalseIssuer(t, w)
	if got := runAt(t.Context(), cli.Console{Browse: f.browser(t, nil)}, "login"); got.Code != cli.ExitUsage || !strings.Contains(got.ErrOut, "signed by nobody that is trusted here") {
		t.Errorf("code %d\n%s", got.Code, got.ErrOut)
	}
}

func TestTheLifetimeIsLookedAtBeforeAndAfter(t *testing.T) {
	for name, row := range map[string]struct{ args, want []string }{
		"too short":     {[]string{"--lifetime", "1s"}, []string{"--lifetime 1s: a certificate is good for 60s at least and 365d at most"}},
		"below zero":    {[]string{"--lifetime=-1h"}, []string{"--lifetime -1h0m0s: "}},
		"too long":      {[]string{"--lifetime", "9000h"}, []string{"--lifetime 9000h0m0s: "}},
		"no seconds":    {[]string{"--lifetime", "90500ms"}, []string{"--lifetime 1m30.5s: it is in whole seconds"}},
		"no time":       {[]string{"--timeout", "0s"}, []string{"--timeout 0s: it is above zero"}},
		"both together": {[]string{"--timeout", "0s", "--lifetime", "1s"}, []string{"--timeout 0s", "--lifetime 1s"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLoginWorld(t)
			got := w.login(t, "olga", row.args...)
			for _, want := range row.want {
				if got.Code != cli.ExitUsage || !strings.Contains(got.ErrOut, want) {
					t.Errorf("code %d, no %q in\n%s", got.Code, want, got.ErrOut)
				}
			}
			if one := len(row.want) == 1; one && strings.Contains(got.ErrOut, "--timeout ") && strings.Contains(got.ErrOut, "--lifetime ") {
				t.Errorf("it names both:\n%s", got.ErrOut)
			}
			if n := len(w.Requests()); n != 0 {
				t.Errorf("the gateway was asked %d times", n)
			}
		})
	}
	w := newLoginWorld(t)
	w.signs = func(c *x509.Certificate) any {
		if most := time.Now().Add(8 * time.Hour); c.NotAfter.After(most) {
			c.NotAfter = most
		}
		return nil
	}
	const less = "warning: you asked for a certificate for "
	if got := w.login(t, "olga", "--lifetime", "90h"); got.Code != cli.ExitOK || !strings.Contains(got.ErrOut, less) || !strings.Contains(got.ErrOut, less+"90h0m0s, and the gateway gives one for 8h\n") {
		t.Errorf("code %d\n%s", got.Code, got.ErrOut)
	}
	if got := w.login(t, "olga", "--lifetime", "4h"); got.Code != cli.ExitOK || strings.Contains(got.ErrOut, less) {
		t.Errorf("code %d\n%s", got.Code, got.ErrOut)
	}
}

func TestTheKeyDoesNotLeave(t *testing.T) {
	w := newLoginWorld(t)
	if got := w.login(t, "olga"); got.Code != cli.ExitOK {
		t.Fatalf("code %d\n%s", got.Code, got.ErrOut)
	}
	key, err := base64.StdEncoding.DecodeString(w.talosconfigOf(t).Contexts["lab"].Key)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range w.Requests() {
		if strings.Contains(r.Body, "PRIVATE") || strings.Contains(r.Body, strings.Split(string(key), "\n")[1]) {
			t.Errorf("%s %s holds a private key", r.Method, r.Path)
		}
		if signed := r.Header.Get("Authorization") != ""; signed != (r.Path == "/certificates") {
			t.Errorf("%s %s: a token is shown: %v", r.Method, r.Path, signed)
		}
	}
}

func TestLoginInJSONHoldsNoSecret(t *testing.T) {
	w := newLoginWorld(t)
	got := w.login(t, "olga", "-o", "json", "--lifetime", "90m")
	var v loginView
	if err := json.Unmarshal([]byte(got.Out), &v); err != nil || got.Code != cli.ExitOK {
		t.Fatalf("code %d, %v\n%s%s", got.Code, err, got.Out, got.ErrOut)
	}
	if v.Server != w.URL || v.Proof != "certificate" || v.Identity.Subject != "olga" || v.Serial != "5eed" || v.Decision != clitest.StubDecision || v.CurrentContext != "lab" || v.ClientFile == "" {
		t.Errorf("it says %+v", v)
	}
	if seen := w.Requests(); !strings.Contains(seen[len(seen)-1].Body, `"lifetime_seconds":5400`) {
		t.Errorf("the lifetime is not asked for: %s", seen[len(seen)-1].Body)
	}
	key := strings.Split(readFile(t, v.File), "-----BEGIN PRIVATE KEY-----\n")[1][:40]
	if strings.Contains(got.Out+got.ErrOut, key) || strings.Contains(got.Out+got.ErrOut, "eyJ") {
		t.Errorf("a secret is printed:\n%s%s", got.Out, got.ErrOut)
	}
}

// watcher hands what is written to a function.
type watcher struct{ see func(string) }

func (w watcher) Write(raw []byte) (int, error) {
	w.see(string(raw))
	return len(raw), nil
}

func TestLoginByDevice(t *testing.T) {
	for name, row := range map[string]struct {
		settle func(s *idp.Server, code string) error
		code   int
		want   string
	}{
		"yes": {func(s *idp.Server, code string) error { return s.ApproveDevice(code, "ada") }, cli.ExitOK, "you are ada of "},
		"no":  {func(s *idp.Server, code string) error { return s.DenyDevice(code) }, cli.ExitDenied, "was refused at the issuer "},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLoginWorld(t)
			var said strings.Builder
			code := run(t.Context(), []string{"login", "--device", "--issuer-ca", w.issuerCA}, cli.Console{In: strings.NewReader(""), Out: &said, ErrOut: watcher{func(text string) {
				said.WriteString(text)
				if at := regexp.MustCompile(`(?m)^    ([A-Z2-7]{4}-[A-Z2-7]{4})$`).FindStringSubmatch(text); at != nil {
					if err := row.settle(w.idp, at[1]); err != nil {
						t.Error(err)
					}
				}
			}}})
			if code != row.code || !strings.Contains(said.String(), row.want) || !strings.Contains(said.String(), w.idp.Issuer()+"/device\n") {
				t.Errorf("code %d, want %d and %q:\n%s", code, row.code, row.want, said.String())
			}
		})
	}
}

func TestLoginWithATokenOneHas(t *testing.T) {
	for name, source := range map[string]string{"a file": "file", "standard input": "-", "the environment": ""} {
		t.Run(name, func(t *testing.T) {
			w := newLoginWorld(t)
			token, err := w.idp.Token("bot-ci")
			if err != nil {
				t.Fatal(err)
			}
			args, at, kept := []string{"login"}, cli.Console{}, filepath.Join(w.state, "bronzeward", "logins")
			switch source {
			case "file":
				kept = writeFile(t, filepath.Join(t.TempDir(), "token"), token+"\n")
				args = append(args, "--jwt", kept)
			case "-":
				args, at.In = append(args, "--jwt", "-"), strings.NewReader(token)
			default:
				t.Setenv("BRONZEWARD_TOKEN", token)
			}
			got := runAt(t.Context(), at, args...)
			if got.Code != cli.ExitOK || !strings.Contains(got.Out, "you are bot-ci of ") || !strings.Contains(got.Out, "by a token good until ") || strings.Contains(got.Out+got.ErrOut, token) {
				t.Fatalf("code %d\n%s%s", got.Code, got.Out, got.ErrOut)
			}
			lab := w.talosconfigOf(t).Contexts["lab"]
			if lab.Auth.Basic == nil || lab.Auth.Basic.Password != token || lab.Auth.Basic.Username != "bot-ci" || lab.Crt != "" || lab.Key != "" {
				t.Errorf("the context is\n%s", readFile(t, w.talosconfig))
			}
			t.Setenv("BRONZEWARD_TOKEN", "")
			if client := readFile(t, filepath.Join(w.config, "bronzeward", "client.yaml")); !strings.Contains(client, "token_file: "+kept) {
				t.Errorf("the client file is\n%s", client)
			}
			if me := runProgram(t, "whoami"); me.Code != cli.ExitOK || !strings.Contains(me.Out, "bot-ci") {
				t.Errorf("whoami: code %d\n%s", me.Code, me.ErrOut)
			}
			// A certificate takes its place, and nothing of it stays.
			if got := w.login(t, "olga"); got.Code != cli.ExitOK {
				t.Fatalf("code %d\n%s", got.Code, got.ErrOut)
			}
			for _, file := range []string{w.talosconfig, filepath.Join(w.config, "bronzeward", "client.yaml"), filepath.Join(w.state, "bronzeward", "lock")} {
				if text := readFile(t, file); strings.Contains(text, token) || strings.Contains(text, "token_file") {
					t.Errorf("%s still holds the token:\n%s", file, text)
				}
			}
		})
	}
}

func TestEachClusterHasAContextAndTheCurrentOneStays(t *testing.T) {
	w := newLoginWorld(t)
	w.offers = func(o *loginOffer) { o.Clusters = []string{"lab", "shop"} }
	writeFile(t, w.talosconfig, "# mine\ncontext: home\ncontexts:\n    home: # do not touch\n        endpoints: [10.0.0.1]\n        future: {a: 1}\n        crt: aG9tZQ==\n")
	got := w.login(t, "olga")
	if got.Code != cli.ExitOK || !strings.Contains(got.Out, "contexts lab, shop in ") || !strings.Contains(got.Out, "the current one stays home") || !strings.Contains(got.Out, "try: talosctl --context lab -n MACHINE version") {
		t.Fatalf("code %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	text := readFile(t, w.talosconfig)
	if !strings.HasPrefix(text, "# mine\ncontext: home\ncontexts:\n    home: # do not touch\n        endpoints: [10.0.0.1]\n        future: {a: 1}\n        crt: aG9tZQ==\n    lab:\n") {
		t.Errorf("what was there did not stay:\n%s", text)
	}
	for _, name := range []string{"lab", "shop"} {
		if c := w.talosconfigOf(t).Contexts[name]; c == nil || c.Cluster != name {
			t.Errorf("context %s: %+v", name, c)
		}
	}
	if got := w.login(t, "olga", "--cluster", "shop", "--context", "x", "--set-current"); got.Code != cli.ExitOK || w.talosconfigOf(t).Context != "x" || w.talosconfigOf(t).Contexts["x"].Cluster != "shop" {
		t.Errorf("code %d\n%s", got.Code, got.ErrOut)
	}
	for want, args := range map[string][]string{
		"--context names one context": {"--context", "x"}, `has no cluster "moon"`: {"--cluster", "moon"}, `is not HOST or HOST:PORT`: {"--endpoint", "a:b:c"},
	} {
		if got := w.login(t, "olga", args...); got.Code != cli.ExitUsage || !strings.Contains(got.ErrOut, want) {
			t.Errorf("%v: code %d, want %q\n%s", args, got.Code, want, got.ErrOut)
		}
	}
}

func TestTheBrowserComesBackWhereTheIssuerKnowsIt(t *testing.T) {
	w := newLoginWorld(t)
	var redirect string
	at := cli.Console{Browse: w.browserOf(t, "olga", func(back *url.URL) { redirect = back.Scheme + "://" + back.Hostname() + back.Path })}
	got := runAt(t.Context(), at, "login", "--issuer-ca", w.issuerCA, "--redirect-uri", "http://127.0.0.1/callback")
	if got.Code != cli.ExitOK || redirect != "http://127.0.0.1/callback" {
		t.Errorf("code %d, back to %s\n%s", got.Code, redirect, got.ErrOut)
	}
	for _, bad := range []string{"https://127.0.0.1/x", "http://evil.example/x", "http://127.0.0.1/x?y", "http://me@127.0.0.1/x", "http://10.0.0.1/"} {
		if got := w.login(t, "olga", "--redirect-uri", bad); got.Code != cli.ExitUsage || !strings.Contains(got.ErrOut, "--redirect-uri") {
			t.Errorf("%s: code %d\n%s", bad, got.Code, got.ErrOut)
		}
	}
}

// Login and whoami name the same end of a token, its own; whoami says too until when it is taken.
func TestWhoamiNamesTheTokensOwnEnd(t *testing.T) {
	w := newLoginWorld(t)
	token := writeFile(t, filepath.Join(t.TempDir(), "token"), newFalseIssuer(t, w).mint())
	said, err := claimsOf(readFile(t, token))
	if err != nil {
		t.Fatal(err)
	}
	w.skew = time.Minute
	taken := said.ends.Add(w.skew)
	in, me := runProgram(t, "login", "--jwt", token), runProgram(t, "whoami")
	if want := "good until " + cli.Stamp(&said.ends); in.Code != cli.ExitOK || !strings.Contains(in.Out, want) {
		t.Errorf("login: code %d, no %q in\n%s%s", in.Code, want, in.Out, in.ErrOut)
	}
	if want := cli.Stamp(&said.ends) + "; the gateway takes it until " + cli.Stamp(&taken); me.Code != cli.ExitOK || !strings.Contains(me.Out, want) {
		t.Errorf("whoami: code %d, no %q in\n%s%s", me.Code, want, me.Out, me.ErrOut)
	}
}
