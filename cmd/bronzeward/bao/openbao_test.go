package bao

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/cmd/bronzeward/config"
	policies "bronzeward/deploy/openbao"
	"bronzeward/fixtures/openbao/baotest"
	"bronzeward/fixtures/talospki"
	"bronzeward/gateway/vault"
)

// openBaoText is a configuration with OpenBao in the place of files.
func openBaoText(text, address, ca, auth string) string {
	text = strings.Replace(text, "talos: {certificate: talos.crt, key: talos.key, ca: talos-ca.crt}\n", "", 1)
	text = strings.Replace(text, "digest: {keys_file: keys-development.json}\n", "", 1)
	return text + fmt.Sprintf("openbao: {address: %q, ca: %q, auth: %s}\n", address, ca, auth)
}

// What an operator does with OpenBao, in order, by the whole program on a real server.
func TestOpenBaoCommands(t *testing.T) {
	server := baotest.Own(t)
	folder, text := clitest.GoodConfig(t)
	config := clitest.WriteConfig(t, folder, openBaoText(text, server.Address(), server.CAFile(), "{role_id_file: role-id, secret_id_file: secret-id}"))
	people, err := talospki.NewCA(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "people.crt"), people.Cert, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("BAO_TOKEN", "")
	do := func(t *testing.T, want int, args ...string) clitest.Ran {
		t.Helper()
		got := runProgram(t, append([]string{"openbao"}, append(args, "--config", config)...)...)
		if got.Code != want {
			t.Fatalf("%v: exit code %d, want %d\n%s%s", args, got.Code, want, got.Out, got.ErrOut)
		}
		for _, text := range []string{got.Out, got.ErrOut} {
			if strings.Contains(text, server.RootToken()) {
				t.Fatalf("%v shows the token", args)
			}
		}
		return got
	}
	says := func(t *testing.T, text string, words ...string) {
		t.Helper()
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("it does not say %q:\n%s", w, text)
			}
		}
	}
	root := func(t *testing.T, method, path string, body any) {
		t.Helper()
		if status, answer, err := server.API(t.Context(), method, path, body); err != nil || status >= 300 {
			t.Fatal(status, answer, err)
		}
	}

	says(t, do(t, cli.ExitUsage, "setup").ErrOut, "no OpenBao token: give --token-file or BAO_TOKEN, or log in with bao login")
	says(t, do(t, cli.ExitUsage, "setup", "--token-file", "/does/not/exist").ErrOut, "reading your OpenBao token: open /does/not/exist")
	t.Setenv("BAO_TOKEN", "canary-of-nobody")
	if got := do(t, cli.ExitDenied, "setup", "--check"); strings.Contains(got.ErrOut, "canary") {
		t.Error("it shows the token")
	} else {
		says(t, got.ErrOut, "OpenBao does not know your token", "(BAO_TOKEN)")
		file := filepath.Join(os.Getenv("HOME"), "stale")
		if err := os.WriteFile(file, []byte("canary-of-nobody"), 0o600); err != nil {
			t.Fatal(err)
		}
		says(t, do(t, cli.ExitDenied, "setup", "--check", "--token-file", file).ErrOut, "(--token-file "+file+")")
	}
	t.Setenv("BAO_TOKEN", "")
	if err := os.WriteFile(filepath.Join(os.Getenv("HOME"), ".vault-token"), []byte(server.RootToken()), 0o600); err != nil {
		t.Fatal(err)
	}

	got := do(t, cli.ExitChanged, "setup", "--check")
	says(t, got.Out, "mount bronzeward (kv 2)", "missing", "Transit key bronzeward-seal (aes256-gcm96)", "policy bronzeward-operator", "AppRole bronzeward-gateway")
	says(t, do(t, cli.ExitUsage, "setup").ErrOut, "nothing was changed: give --yes, since nobody can be asked here")
	if got := do(t, cli.ExitChanged, "setup", "--check"); strings.Contains(got.Out, "good") {
		t.Fatalf("something was made:\n%s", got.Out)
	}
	refused := runAt(t.Context(), cli.Console{In: strings.NewReader("no\n"), Interactive: true}, "openbao", "setup", "--config", config)
	if refused.Code != cli.ExitFailed || !strings.Contains(refused.ErrOut, "nothing was done") || !strings.Contains(refused.ErrOut, server.Address()) {
		t.Errorf("after no: %+v", refused)
	}
	got = do(t, cli.ExitOK, "setup", "--yes")
	says(t, got.Out, "Transit key bronzeward-ca (ecdsa-p256): done", "the gateway's login: what it needs and no more, at", "done; bronzeward openbao setup --check looks again")
	for _, file := range []string{"role-id", "secret-id"} {
		info, err := os.Stat(filepath.Join(folder, file))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", file, info, err)
		}
	}
	secret, err := os.ReadFile(filepath.Join(folder, "secret-id"))
	if err != nil {
		t.Fatal(err)
	}
	// What setup does not make is shown, and only --check ends with a code for it.
	const none = "there is none: bronzeward openbao put-credential --cluster NAME"
	says(t, do(t, cli.ExitOK, "setup", "--yes").Out, none, "none yet: the first gateway to start writes it", "what it needs and no more")
	says(t, do(t, cli.ExitChanged, "setup", "--check").Out, none)
	first := credentialFiles(t)
	putFirst := func() {
		t.Helper()
		do(t, cli.ExitOK, "put-credential", "--cluster", "lab", "--certificate", first.certificate, "--key", first.key, "--ca", first.ca)
	}
	putFirst()
	for _, again := range []string{"--yes", "--check"} {
		says(t, do(t, cli.ExitOK, "setup", again).Out, "nothing is missing", "what it needs and no more", "Talos credential, at bronzeward/talos/lab", "version 1, its certificate ends 2")
	}
	t.Run("Talos credentials and the anchor", func(t *testing.T) {
		root(t, http.MethodDelete, "bronzeward/data/talos/lab", nil)
		says(t, do(t, cli.ExitChanged, "setup", "--check").Out, "it was deleted: bronzeward openbao put-credential --cluster lab")
		root(t, http.MethodPost, "bronzeward/data/talos/lab", map[string]any{"data": map[string]any{"certificate": "canary", "key": "canary", "ca": "canary"}})
		if got := do(t, cli.ExitChanged, "setup", "--check"); strings.Contains(got.Out, "canary") {
			t.Error("it quotes what is there")
		} else {
			says(t, got.Out, "version 2 cannot be used", "put-credential --cluster lab")
		}
		do(t, cli.ExitOK, "setup", "--yes")
		kept, err := os.ReadFile(first.certificate)
		if err != nil {
			t.Fatal(err)
		}
		key, err := os.ReadFile(first.key)
		if err != nil {
			t.Fatal(err)
		}
		root(t, http.MethodPost, "bronzeward/data/talos/lab", map[string]any{"data": map[string]any{"certificate": string(kept), "key": string(key), "ca": string(people.Cert)}})
		says(t, do(t, cli.ExitChanged, "setup", "--check").Out, "version 3 cannot be used", "an authority that signs people's certificates")
		root(t, http.MethodPost, "bronzeward/data/talos/lab", map[string]any{"data": map[string]any{"certificate": []string{"canary"}}})
		says(t, do(t, cli.ExitChanged, "setup", "--check").Out, "it has another shape")
		root(t, http.MethodPost, "bronzeward/data/talos/No%20Cluster", map[string]any{"data": map[string]any{"x": "y"}})
		says(t, do(t, cli.ExitChanged, "setup", "--check").Out, "it is no name of a cluster")
		root(t, http.MethodDelete, "bronzeward/metadata/talos/No%20Cluster", nil)
		putFirst()
		root(t, http.MethodPost, "bronzeward/data/anchor", map[string]any{"data": map[string]any{"epoch": "e-7", "size": 3, "written": time.Now()}})
		says(t, do(t, cli.ExitOK, "setup", "--check").Out, "epoch e-7, size 3")
		root(t, http.MethodDelete, "bronzeward/data/anchor", nil)
		says(t, do(t, cli.ExitChanged, "setup", "--check").Out, "bao kv undelete -mount=bronzeward -versions=1 anchor")
		root(t, http.MethodDelete, "bronzeward/metadata/anchor", nil)
		do(t, cli.ExitOK, "setup", "--check")
	})
	if now, err := os.ReadFile(filepath.Join(folder, "secret-id")); err != nil || string(now) != string(secret) {
		t.Errorf("the secret id was written over: %v", err)
	}
	var parts []openBaoPart
	if err := json.Unmarshal([]byte(do(t, cli.ExitOK, "setup", "--check", "-o", "json").Out), &parts); err != nil || len(parts) < 15 {
		t.Errorf("got %d parts, %v", len(parts), err)
	}

	t.Run("a login that may too much", func(t *testing.T) {
		root(t, http.MethodPut, "sys/policies/acl/bronzeward-gateway", map[string]any{"policy": strings.Replace(policies.Gateway, `decrypt/bronzeward-seal" { capabilities = ["update"]`, `decrypt/bronzeward-seal" { capabilities = ["read"]`, 1) + `path "sys/policies/acl/*" { capabilities = ["read"] }`})
		says(t, do(t, cli.ExitChanged, "setup", "--check").Out, "policy bronzeward-gateway", "differs", "the gateway's login at sys/policies/acl/bronzeward-gateway", "too wide: it has read and needs nothing", "too wide, and missing: it has read and needs update")
		says(t, do(t, cli.ExitOK, "setup", "--yes").Out, "policy bronzeward-gateway: done")
	})
	t.Run("a secret id that is not taken", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(folder, "secret-id"), []byte("another"), 0o600); err != nil {
			t.Fatal(err)
		}
		says(t, do(t, cli.ExitChanged, "setup", "--yes").ErrOut, "everything is made, but the gateway's login is not as it should be", "AppRole at approle", "remove "+filepath.Join(folder, "secret-id"), "bronzeward openbao setup")
		says(t, do(t, cli.ExitChanged, "setup", "--check").Out, "wrong")
		if err := os.WriteFile(filepath.Join(folder, "secret-id"), secret, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(folder, "secret-id"), 0o644); err != nil {
			t.Fatal(err)
		}
		says(t, do(t, cli.ExitChanged, "setup", "--check").Out, "others may read it (mode 0644)", "the gateway's login", "chmod 600")
		if err := os.Chmod(filepath.Join(folder, "secret-id"), 0o600); err != nil {
			t.Fatal(err)
		}
		do(t, cli.ExitOK, "setup", "--check")
	})
	t.Run("what only a person can mend", func(t *testing.T) {
		root(t, http.MethodPost, "transit/keys/bronzeward-seal/config", map[string]any{"exportable": true})
		says(t, do(t, cli.ExitFailed, "setup", "--yes").ErrOut, "Transit key bronzeward-seal (aes256-gcm96): it can leave OpenBao", "nothing was changed")
		root(t, http.MethodPost, "transit/keys/bronzeward-seal/config", map[string]any{"deletion_allowed": true})
		root(t, http.MethodDelete, "transit/keys/bronzeward-seal", nil)
		says(t, do(t, cli.ExitChanged, "setup", "--check").Out, "setup makes it; changes that wait under one that was deleted stay lost")
		do(t, cli.ExitOK, "setup", "--yes")
	})
	t.Run("a login that is elsewhere", func(t *testing.T) {
		other := clitest.WriteConfig(t, t.TempDir(), openBaoText(text, server.Address(), server.CAFile(), "{method: kubernetes, role: gateway, jwt_file: /does/not/exist}"))
		for file, to := range map[string]string{"server.crt": "x", "server.key": "x", "people.crt": string(people.Cert)} {
			if err := os.WriteFile(filepath.Join(filepath.Dir(other), file), []byte(to), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got := runProgram(t, "openbao", "setup", "--check", "--config", other)
		if got.Code != cli.ExitChanged || !strings.Contains(got.Out, "unknown") || !strings.Contains(got.Out, "run --check where the gateway runs") {
			t.Errorf("got %+v", got)
		}
		if got := runProgram(t, "openbao", "setup", "--yes", "--config", other); got.Code != cli.ExitOK {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("put-credential", func(t *testing.T) {
		files := credentialFiles(t)
		put := func(want int, cluster string, more ...string) clitest.Ran {
			return do(t, want, append([]string{"put-credential", "--cluster", cluster, "--certificate", files.certificate, "--key", files.key, "--ca", files.ca}, more...)...)
		}
		says(t, put(cli.ExitOK, "east").Out, "the Talos credential of east is version 1; running gateways use it within 30s")
		says(t, put(cli.ExitOK, "east", "-o", "json").Out, `"version": 1`)
		says(t, put(cli.ExitUsage, "../ca").ErrOut, `"../ca" is no name of a cluster`)
		says(t, do(t, cli.ExitUsage, "put-credential", "--cluster", "east", "--certificate", files.ca, "--key", files.key, "--ca", files.ca).ErrOut, "--key "+files.key, "private key does not match")
		putAs := func(want int, with credentialFile, more ...string) clitest.Ran {
			return do(t, want, append([]string{"put-credential", "--cluster", "north", "--certificate", with.certificate, "--key", with.key, "--ca", with.ca}, more...)...)
		}
		mixed := files
		mixed.ca = credentialFiles(t).ca
		says(t, putAs(cli.ExitUsage, mixed).ErrOut, "--certificate "+files.certificate+" is not signed by --ca "+mixed.ca, "--any-ca")
		mixed.ca = filepath.Join(folder, "people.crt")
		for _, more := range [][]string{nil, {"--any-ca"}} {
			if got := putAs(cli.ExitUsage, mixed, more...); strings.Contains(got.Out, "version") {
				t.Errorf("%v: %+v", more, got)
			}
		}
		says(t, putAs(cli.ExitUsage, mixed, "--any-ca").ErrOut, "--ca "+mixed.ca, "the key of an authority that signs people's certificates")
		_, kept, err := server.API(t.Context(), http.MethodGet, "bronzeward/data/ca", nil)
		if err != nil {
			t.Fatal(err)
		}
		mixed.ca = filepath.Join(t.TempDir(), "kept.crt")
		current := kept["data"].(map[string]any)["data"].(map[string]any)["current"].(string)
		if err := os.WriteFile(mixed.ca, []byte(current), 0o600); err != nil {
			t.Fatal(err)
		}
		says(t, putAs(cli.ExitUsage, mixed, "--any-ca").ErrOut, "the key of an authority that signs people's certificates")
		if status, _, err := server.API(t.Context(), http.MethodGet, "bronzeward/metadata/talos/north", nil); err != nil || status != http.StatusNotFound {
			t.Errorf("it was written: %d, %v", status, err)
		}
		// The control: a CA that signs nobody is taken with the flag.
		mixed.ca = credentialFiles(t).ca
		says(t, putAs(cli.ExitOK, mixed, "--any-ca").Out, "north is version 1")
	})
	t.Run("rotate-ca, drop-ca, checkpoint-key", func(t *testing.T) {
		says(t, do(t, cli.ExitOK, "drop-ca").Out, "there is no authority before the current one")
		says(t, do(t, cli.ExitUsage, "rotate-ca").ErrOut, "nothing was changed: give --yes")
		says(t, do(t, cli.ExitOK, "rotate-ca", "--yes").Out, "the one before stays trusted", "bronzeward openbao drop-ca")
		says(t, do(t, cli.ExitNotYet, "rotate-ca", "--yes").ErrOut, "two authorities are trusted already: first bronzeward openbao drop-ca")
		until := time.Now().Add(vault.MostCertificateLife).UTC().Format("2006-")
		says(t, do(t, cli.ExitNotYet, "drop-ca").ErrOut, "may be good until "+until, "nothing was changed", "--yes")
		at := runAt(t.Context(), cli.Console{In: strings.NewReader("yes\n"), Interactive: true}, "openbao", "drop-ca", "--config", config)
		if at.Code != cli.ExitNotYet {
			t.Errorf("a typed yes drops it early: %+v", at)
		}
		says(t, do(t, cli.ExitOK, "drop-ca", "--yes", "-o", "json").Out, `"dropped": true`)
		says(t, do(t, cli.ExitOK, "drop-ca").Out, "there is no authority before the current one")
		says(t, do(t, cli.ExitOK, "checkpoint-key").Out, "VERSION", "ED25519")
		var keys []struct {
			Version int
			Ed25519 string
		}
		if err := json.Unmarshal([]byte(do(t, cli.ExitOK, "checkpoint-key", "-o", "json").Out), &keys); err != nil || len(keys) != 1 || keys[0].Version != 1 || len(keys[0].Ed25519) != 44 {
			t.Errorf("got %v, %v", keys, err)
		}
		root(t, http.MethodPost, "transit/keys/bronzeward-checkpoint/rotate", nil)
		verifiesBoth(t, server, do(t, cli.ExitOK, "checkpoint-key", "--public-key").Out)
		says(t, do(t, cli.ExitUsage, "checkpoint-key", "--public-key", "-o", "json").ErrOut, "leave out --output")
	})
	t.Run("a token that may not", func(t *testing.T) {
		_, answer, err := server.API(t.Context(), http.MethodPost, "auth/token/create", map[string]any{"policies": []string{"bronzeward-operator"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("BAO_TOKEN", answer["auth"].(map[string]any)["client_token"].(string))
		says(t, do(t, cli.ExitDenied, "rotate-ca", "--yes").ErrOut, "your OpenBao token may not do this (403)", "at transit/keys/bronzeward-ca/rotate", "a token that may make mounts, keys, policies and roles")
		files := credentialFiles(t)
		says(t, do(t, cli.ExitOK, "put-credential", "--cluster", "west", "--certificate", files.certificate, "--key", files.key, "--ca", files.ca).Out, "west is version 1")
	})
	t.Run("sealed", func(t *testing.T) {
		if err := server.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"setup", "--check"}, {"setup", "--yes"}, {"rotate-ca", "--yes"}, {"drop-ca"}, {"checkpoint-key"}} {
			says(t, do(t, cli.ExitUnavailable, args...).ErrOut, "OpenBao is sealed")
		}
	})
	t.Run("away", func(t *testing.T) {
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
		says(t, do(t, cli.ExitUnavailable, "setup", "--check").ErrOut, "OpenBao cannot be reached: nothing listens at "+server.Address()+" (openbao.address)")
	})
}

type credentialFile struct{ certificate, key, ca string }

// credentialFiles writes a Talos client's certificate with the role os:impersonator.
func credentialFiles(t *testing.T) credentialFile {
	t.Helper()
	ca, err := talospki.NewCA(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	client, err := talospki.Client(ca, time.Now(), "os:impersonator")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out := credentialFile{filepath.Join(dir, "talos.crt"), filepath.Join(dir, "talos.key"), filepath.Join(dir, "ca.crt")}
	for path, text := range map[string][]byte{out.certificate: client.Cert, out.key: client.Key, out.ca: ca.Cert} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestOpenBaoIsNotConfigured(t *testing.T) {
	folder, text := clitest.GoodConfig(t)
	got := runProgram(t, "openbao", "setup", "--config", clitest.WriteConfig(t, folder, text))
	if got.Code != cli.ExitUsage || !strings.Contains(got.ErrOut, "openbao is not configured: openbao.address") {
		t.Errorf("got %+v", got)
	}
}

// A way to log in that is none may be a secret that stands in the wrong line.
func TestAWrongLoginMethodIsNotRepeated(t *testing.T) {
	const secret = "5f2c9a17-a-secret-id"
	folder, text := clitest.GoodConfig(t)
	config := clitest.WriteConfig(t, folder, openBaoText(text, "https://127.0.0.1:1", "people.crt", "{method: "+secret+"}"))
	got := runProgram(t, "config", "check", "--config", config)
	if said := got.Out + got.ErrOut; got.Code == 0 || strings.Contains(said, secret) || !strings.Contains(said, "openbao.auth.method: is not approle") {
		t.Errorf("exit code %d\n%s", got.Code, said)
	}
}

// How long a gateway goes without reading is bound to how long a new digest key or authority waits for it.
func TestRefreshLeavesRoomForNewKeys(t *testing.T) {
	for refresh, refused := range map[string]bool{"1m": false, "61s": true, "10m": true, "-1s": true} {
		folder, text := clitest.GoodConfig(t)
		_, err := config.Load(clitest.WriteConfig(t, folder, text+"openbao: {address: 'https://bao', refresh: "+refresh+"}\n"))
		if err == nil || strings.Contains(err.Error(), "openbao.refresh: ") != refused {
			t.Errorf("%s: %v", refresh, err)
		}
	}
}

// Files are for development: where openbao is missing or mistyped, it is what is asked for.
func TestAMistypedOpenBaoIsAskedFor(t *testing.T) {
	folder, text := clitest.GoodConfig(t)
	mistyped := strings.Replace(openBaoText(text, "https://bao", "people.crt", "{role_id_file: a, secret_id_file: b}"), "openbao:", "openboo:", 1)
	_, err := config.Load(clitest.WriteConfig(t, folder, mistyped))
	if err == nil || !strings.Contains(err.Error(), "openboo") {
		t.Fatalf("got %v", err)
	}
	_, bare := config.Load(clitest.WriteConfig(t, folder, strings.Join(strings.Split(mistyped, "openboo:")[:1], "")))
	for _, err := range []error{err, bare} {
		if !strings.Contains(err.Error(), "openbao.address: is required: configure openbao; or, for development, files") || strings.Contains(err.Error(), "talos.key: ") || strings.Contains(err.Error(), "digest.keys_file: ") {
			t.Errorf("got %v", err)
		}
	}
	// The control: half a set of files is development's, and the other half is asked for.
	_, err = config.Load(clitest.WriteConfig(t, folder, strings.Replace(text, "digest: {keys_file: keys-development.json}\n", "", 1)))
	if err == nil || !strings.Contains(err.Error(), "digest.keys_file") || strings.Contains(err.Error(), "openbao.address") {
		t.Errorf("got %v", err)
	}
}
