package people

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	clientconfig "github.com/siderolabs/talos/pkg/machinery/client/config"
	"pgregory.net/rapid"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/ownfile"
)

// oneContext is what a login writes, with a token for a credential.
func oneContext(name string) talosContext {
	return talosContext{name: name, cluster: name, endpoints: []string{"gate:50000"}, ca: []byte("ca"), username: "olga", token: goodToken}
}

// goodToken reads as a token: {"alg":"none"} and {"sub":"olga"}.
const goodToken = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJvbGdhIn0.c2ln"

func TestATalosconfigIsMerged(t *testing.T) {
	basic := "        auth:\n            basic:\n                username: olga\n                password: " + goodToken + "\n        cluster: lab\n"
	fresh := "    lab:\n        endpoints:\n            - gate:50000\n        ca: Y2E=\n" + basic
	for name, row := range map[string]struct {
		old       string
		take      bool
		overwrite bool
		want      string
		current   string
	}{
		"nothing":            {"", false, false, "context: lab\ncontexts:\n" + fresh, "lab"},
		"as talosctl begins": {"context: \"\"\ncontexts: {}\n", false, false, "context: lab\ncontexts:\n" + fresh, "lab"},
		"comments alone":     {"# mine\n", false, false, "# mine\ncontext: lab\ncontexts:\n" + fresh, "lab"},
		"another is current": {"context: a\ncontexts:\n    a: {x: 1}\n", false, false, "context: a\ncontexts:\n    a: {x: 1}\n" + fresh, "a"},
		"and is to go":       {"context: a\ncontexts:\n    a: {x: 1}\n", true, false, "context: lab\ncontexts:\n    a: {x: 1}\n" + fresh, "lab"},
		"current is none":    {"context: gone\ncontexts:\n    a: {x: 1}\n", false, false, "context: lab\ncontexts:\n    a: {x: 1}\n" + fresh, "lab"},
		"an empty context":   {"context: lab\ncontexts:\n    lab: {}\n", false, false, "context: lab\ncontexts:\n" + fresh, "lab"},
		"one's own, with nodes": {
			"context: lab\ncontexts:\n    lab:\n        target: 10.0.0.1\n        nodes: [w1] # mine\n        endpoints: [old]\n        auth: {basic: {username: x, password: " + goodToken + "}}\n        x: 1\nextra: true\n",
			false, false, "context: lab\ncontexts:\n    lab:\n        nodes: [w1] # mine\n        endpoints:\n            - gate:50000\n        x: 1\n        ca: Y2E=\n" + basic + "extra: true\n", "lab",
		},
		"an administrator's, given up": {"contexts:\n    lab:\n        crt: YWRtaW4=\n        key: a2V5\n        ca: b2xk\n", false, true, "contexts:\n    lab:\n        ca: Y2E=\n        endpoints:\n            - gate:50000\n" + basic + "context: lab\n", "lab"},
	} {
		t.Run(name, func(t *testing.T) {
			got, current, err := mergeTalosconfig([]byte(row.old), []talosContext{oneContext("lab")}, row.take, row.overwrite)
			if err != nil || string(got) != row.want || current != row.current {
				t.Errorf("%v, current %q, want %q\n%s\nwant\n%s", err, current, row.current, got, row.want)
			}
			if read, err := clientconfig.FromBytes(got); err != nil || read.Context != current || read.Contexts["lab"].Auth.Basic.Password != goodToken {
				t.Errorf("talosctl reads %+v, %v", read, err)
			}
		})
	}
}

func TestATalosconfigThatCannotBeMergedIsLeft(t *testing.T) {
	for name, row := range map[string]struct{ old, want string }{
		"no YAML":              {": [", "parsing"},
		"a list":               {"- s3cr3t\n", "line 1: it does not hold keys and values"},
		"text":                 {"s3cr3t", "does not hold keys"},
		"contexts as a list":   {"contexts:\n  - s3cr3t\n", "line 2: `contexts` does not hold"},
		"context as a list":    {"context: [s3cr3t]\n", "`context` is not a name"},
		"two documents":        {"context: a\n---\ncontext: s3cr3t\n", "document"},
		"keys twice":           {"contexts: {}\ncontexts: {}\n", "line 2: a key comes twice"},
		"aliases":              {"contexts:\n  a: &x {key: s3cr3t}\n  lab: *x\n", "anchor or alias"},
		"merge keys":           {"x: &x {key: s3cr3t}\ncontexts:\n  lab:\n    <<: *x\n", "anchor or alias"},
		"an administrator's":   {"contexts:\n  lab: {crt: " + base64.StdEncoding.EncodeToString([]byte("s3cr3t")) + "}\n", "that no login wrote"},
		"somebody's password":  {"contexts:\n  lab: {auth: {basic: {username: a, password: s3cr3t}}}\n", "that no login wrote"},
		"a certificate beside": {"contexts:\n  lab: {crt: YQ==, auth: {basic: {password: " + goodToken + "}}}\n", "that no login wrote"},
		"only endpoints":       {"contexts:\n  lab: {endpoints: [a]}\n", "that no login wrote"},
		"a list for a context": {"contexts:\n  lab: [a]\n", "that no login wrote"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := mergeTalosconfig([]byte(row.old), []talosContext{oneContext("lab")}, false, false)
			if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("error %v, want %q\n%s", err, row.want, got)
			}
		})
	}
}

// Whatever stands in a talosconfig: merged and dropped again, all other contexts are as before.
func TestOtherContextsStay(t *testing.T) {
	name := rapid.StringMatching(`[a-z]{1,3}|yes|~|1\.0|a: b|#x`)
	rapid.Check(t, func(t *rapid.T) {
		before := clientconfig.Config{Contexts: map[string]*clientconfig.Context{}}
		for _, one := range rapid.SliceOfDistinct(name, rapid.ID[string]).Draw(t, "names") {
			before.Contexts[one] = &clientconfig.Context{Endpoints: rapid.SliceOf(name).Draw(t, "endpoints"), Crt: rapid.StringMatching(`[A-Za-z0-9]{0,8}`).Draw(t, "crt")}
			before.Context = one
		}
		mine := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{4}`), 1, 3, rapid.ID[string]).Draw(t, "mine")
		old, err := before.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		var contexts []talosContext
		for _, one := range mine {
			contexts = append(contexts, oneContext(one))
		}
		merged, _, err := mergeTalosconfig(old, contexts, rapid.Bool().Draw(t, "take"), false)
		if err != nil {
			t.Fatal(err)
		}
		after, dropped, _, err := dropContexts(merged, append(mine, "nosuch"))
		if err != nil || len(dropped) != len(mine) {
			t.Fatalf("dropped %v, %v", dropped, err)
		}
		read, err := clientconfig.FromBytes(after)
		if err != nil {
			t.Fatal(err)
		}
		for one := range before.Contexts {
			if fmt.Sprintf("%+v", *before.Contexts[one]) != fmt.Sprintf("%+v", *read.Contexts[one]) {
				t.Errorf("%s was %+v and is %+v", one, *before.Contexts[one], *read.Contexts[one])
			}
		}
		if len(read.Contexts) != len(before.Contexts) {
			t.Errorf("%d contexts became %d", len(before.Contexts), len(read.Contexts))
		}
	})
}

func FuzzMergeTalosconfig(f *testing.F) {
	for _, seed := range []string{"", "context: a\ncontexts:\n    a: {x: 1}\n", "contexts: *x", "? [a]: b", "contexts:\n  lab: !!binary YQ==\n", "#\xa3"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, old []byte) {
		got, current, err := mergeTalosconfig(old, []talosContext{oneContext("lab")}, true, true)
		if err != nil {
			return
		}
		read, err := readTalosconfig(got)
		if err != nil || current != "lab" || len(read.taken([]string{"lab"})) > 0 {
			t.Errorf("%q became\n%s\n%v", old, got, err)
		}
	})
}

func FuzzClaims(f *testing.F) {
	for _, seed := range []string{goodToken, "", "..", "a.b.c", "eyJhbGciOiJub25lIn0.eyJleHAiOjFlMzAwfQ.c2ln", "e30.eyJhdWQiOlsxXX0.e30"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		said, err := claimsOf(token)
		if err == nil && (len(token) > mostToken || strings.Count(token, ".") != 2 || said.ends.Year() > 9999) {
			t.Errorf("%q reads as %+v", token, said)
		}
		if err != nil && len(token) > 12 && strings.Contains(err.Error(), token) {
			t.Errorf("the error quotes the token: %v", err)
		}
	})
}

func FuzzReadChain(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if chain, err := readChain(raw); err == nil && (len(chain) == 0 || len(chain) > mostChainCertificates) {
			t.Errorf("%d certificates", len(chain))
		}
	})
}

func TestALinkIsNotWrittenThrough(t *testing.T) {
	w := newLoginWorld(t)
	elsewhere := writeFile(t, filepath.Join(t.TempDir(), "elsewhere"), "context: \"\"\ncontexts: {}\n")
	for name, to := range map[string]string{"to a file": elsewhere, "to nowhere": filepath.Join(t.TempDir(), "nosuch")} {
		if err := os.MkdirAll(filepath.Dir(w.talosconfig), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, w.talosconfig); err != nil {
			t.Fatal(err)
		}
		got := w.login(t, "olga")
		if got.Code != cli.ExitUsage || !strings.Contains(got.ErrOut, w.talosconfig+" is a link to ") || readFile(t, elsewhere) != "context: \"\"\ncontexts: {}\n" {
			t.Errorf("%s: code %d\n%s", name, got.Code, got.ErrOut)
		}
		if err := os.Remove(w.talosconfig); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.login(t, "olga", "--talosconfig", t.TempDir()); got.Code != cli.ExitUsage || !strings.Contains(got.ErrOut, "is not a regular file") {
		t.Errorf("a folder: code %d\n%s", got.Code, got.ErrOut)
	}
	if got := w.login(t, "olga", "--talosconfig", elsewhere); got.Code != cli.ExitOK || !strings.Contains(got.Out, "talosctl --talosconfig "+elsewhere+" -n MACHINE") {
		t.Errorf("the file itself: code %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
}

func TestAFileThatSomebodyElseChangesIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "file")
	rounds := 0
	err := ownfile.Rewrite(path, func(old []byte) ([]byte, error) {
		if rounds++; rounds < ownfile.MostRounds {
			writeFile(t, path, fmt.Sprintf("theirs %d", rounds))
		}
		return append(old, " and mine"...), nil
	})
	if got := readFile(t, path); err != nil || got != "theirs 2 and mine" {
		t.Errorf("%v: %q", err, got)
	}
	rounds = 0
	err = ownfile.Rewrite(path, func([]byte) ([]byte, error) {
		rounds++
		writeFile(t, path, fmt.Sprintf("theirs %d", rounds))
		return []byte("mine"), nil
	})
	if got := readFile(t, path); err == nil || !strings.Contains(err.Error(), "keeps changing it") || got != "theirs 3" {
		t.Errorf("%v: %q", err, got)
	}
	if err := ownfile.Rewrite(path, func([]byte) ([]byte, error) { return nil, errors.New("no") }); err == nil || readFile(t, path) != "theirs 3" {
		t.Error("an edit that fails writes")
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("beside it lie %v, %v", left, err)
	}
}

func TestLoginsAtTheSameTimeAreBothThere(t *testing.T) {
	w := newLoginWorld(t)
	names := []string{"a", "b", "c", "d"}
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			if got := w.login(t, "olga", "--context", name); got.Code != cli.ExitOK {
				t.Errorf("code %d\n%s", got.Code, got.ErrOut)
			}
		})
	}
	all.Wait()
	there := w.talosconfigOf(t).Contexts
	for _, name := range names {
		if there[name] == nil {
			t.Errorf("context %s is lost", name)
		}
	}
}
