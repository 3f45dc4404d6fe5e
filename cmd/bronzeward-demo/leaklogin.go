package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"bronzeward/fixtures/leakscan"
)

// loginOf begins the names of what a person's login writes into their own home.
func loginOf(person string) string { return person + "'s login: " }

// ownLogin excuses what a login has written where it belongs: in the home of its person.
func (l *leak) ownLogin(place string, c leakscan.Canary) bool {
	person, _, is := strings.Cut(c.Name, "'s login: ")
	return is && strings.HasPrefix(place, l.w.Home(person)+string(filepath.Separator))
}

// loggedIn logs people in by the browser and by a token of their own, uses what that wrote, and
// logs them out.
func (l *leak) loggedIn(ctx context.Context) error {
	token, err := l.w.IDP.Token("vera")
	if err != nil {
		return err
	}
	if err := l.canaries.Add(loginOf("vera")+"the token", token); err != nil {
		return err
	}
	file, err := l.send([]byte(token))
	if err != nil {
		return err
	}
	for _, one := range []struct {
		person string
		more   []string
	}{{"olga", nil}, {"olga", []string{"-o", "json"}}, {"vera", []string{"--jwt", file}}, {"ada", []string{"--issuer", "https://127.0.0.1:1"}}, {"sven", []string{"--jwt", l.w.Path("pki", "server.key")}}} {
		out, err := l.w.LogIn(ctx, one.person, one.more...)
		bad := one.person == "ada" || one.person == "sven"
		if (err != nil) != bad {
			return fmt.Errorf("logging %s in: %w\n%s", one.person, err, out)
		}
		if err := l.tell(inCommand, "login", saidAndEnded(out, err)); err != nil {
			return err
		}
		if err := l.takeIdentity(one.person); err != nil {
			return err
		}
	}
	for _, person := range []string{"olga", "vera"} {
		for _, args := range [][]string{{"talosctl", "-n", "worker-1", "version", "--short"}, {"talosctl", "config", "info"}, {"bronzeward", "whoami"}, {"bronzeward", "whoami", "-o", "json"}, {"bronzeward", "changes", "list"}} {
			out, err := l.w.FromHome(ctx, person, args[0], args[1:]...)
			if err != nil {
				return err
			}
			kind := inTalosctl
			if args[0] == "bronzeward" {
				kind = inCommand
			}
			if err := l.tell(kind, "of a login", out); err != nil {
				return err
			}
		}
	}
	// Olga's stays, so that a place with a secret of its own is searched.
	out, err := l.w.FromHome(ctx, "vera", "bronzeward", "logout")
	if err != nil {
		return err
	}
	return l.tell(inCommand, "logout", out)
}

// takeIdentity takes the keys that a person's logins have made.
func (l *leak) takeIdentity(person string) error {
	files, err := filepath.Glob(filepath.Join(l.w.Home(person), ".local", "state", "bronzeward", "logins", "*", "identity.pem"))
	if err != nil || len(files) == 0 {
		if person == "olga" {
			return errors.Join(err, errors.New("olga's login has written no key"))
		}
		return err
	}
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := l.canaries.AddPrivateKey(loginOf(person)+"the key", raw); err != nil {
			return err
		}
		// The next login writes over it; that it was there is kept.
		if _, err := l.send(raw); err != nil {
			return err
		}
	}
	return nil
}

// takeLogins takes as canaries what browsers' logins carried to and from the issuer.
func (l *leak) takeLogins() error {
	for _, name := range []string{"authorization code", "PKCE verifier", "ID token", "access token"} {
		secrets := l.logins.all(name)
		if len(secrets) == 0 {
			return fmt.Errorf("no login has carried: %s", name)
		}
		for _, secret := range secrets {
			if err := l.canaries.Add("the "+name+" of a login", secret); err != nil {
				return err
			}
			if strings.HasSuffix(name, "token") {
				if err := l.canaries.Add("the signature of the "+name+" of a login", secret[strings.LastIndexByte(secret, '.')+1:]); err != nil {
					return err
				}
			}
			if _, err := l.send([]byte(secret)); err != nil {
				return err
			}
		}
	}
	return nil
}

// takePEM takes the private key in a text, or the text itself when it is no key.
func (l *leak) takePEM(name, text string) error {
	if err := l.canaries.AddPrivateKey(name, []byte(text)); err == nil {
		return nil
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return l.canaries.Add(name, text)
	}
	return l.canaries.Add(name, strings.Split(text, "\n")[1])
}

// certified has digests made of secrets, and certificates asked for with private keys in the
// place of requests.
func (l *leak) certified(ctx context.Context) error {
	text, err := l.canaries.Worker("digested")
	if err != nil {
		return err
	}
	path, err := l.send(text)
	if err != nil {
		return err
	}
	other := "hmac-sha256:k1:" + strings.Repeat("0", 64)
	for _, args := range [][]string{{"digest", "-f", path}, {"digest", "-f", path, "-o", "json"}, {"digest", "-f", path, "--compare", other}} {
		if _, err := l.command(ctx, "olga", args...); err != nil {
			return err
		}
	}
	secret := l.canaries.Words("digested: no configuration")
	key := l.canaries.PEM("certified: a private key for a request")
	token, err := l.token("ada")
	if err != nil {
		return err
	}
	if _, err := l.send([]byte(token)); err != nil {
		return err
	}
	body := func(v any) string { raw, _ := json.Marshal(v); return string(raw) }
	var all errgroup.Group
	for _, one := range []struct{ person, path, body, kind string }{
		{"olga", "/digests", string(text), "application/yaml"},
		{"olga", "/digests", string(text), "application/json"},
		{"vera", "/digests", string(text), "application/yaml"},
		{"", "/digests", string(text), "application/yaml"},
		{"olga", "/digests", "\x00\xff" + secret, "application/yaml"},
		{"", "/certificates", body(map[string]string{"csr": key}), "application/json"},
		{"", "/certificates", body(map[string]string{"csr": secret}), "application/json"},
		{"", "/certificates", body(map[string]string{secret: key}), "application/json"},
		{"", "/certificates", body(map[string]any{"csr": map[string]string{secret: key}}), "application/json"},
		{"", "/certificates", `{"csr": "` + secret, "application/json"},
		{"olga", "/digest-keys", body(map[string]string{"key": secret}), "application/json"},
		{"rhea", "/digest-keys", "{}", "application/json"},
	} {
		all.Go(func() error { return l.certifiedOne(ctx, one.person, one.path, one.body, one.kind, token) })
	}
	return all.Wait()
}

// certifiedOne makes one such request. Certificates are asked for with a token.
func (l *leak) certifiedOne(ctx context.Context, person, path, body, kind, token string) error {
	if _, err := l.send([]byte(body)); err != nil {
		return err
	}
	header := []string{"Content-Type", kind, "Idempotency-Key", rand.Text()}
	if path == "/certificates" {
		header = append(header, "Authorization", "Bearer "+token)
	}
	answer, err := l.ask(ctx, person, http.MethodPost, path, strings.NewReader(body), header...)
	if path == "/certificates" && strings.Contains(string(answer), "BW-CREDENTIAL") {
		return fmt.Errorf("the request for a certificate was not looked at: %s", answer)
	}
	if person == "rhea" && !strings.Contains(string(answer), `"k2"`) {
		return fmt.Errorf("no digest key was added: %s", answer)
	}
	return err
}
