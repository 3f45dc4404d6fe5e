package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"bronzeward/fixtures/idp"
	"bronzeward/fixtures/leakscan"
)

// hook receives what approvers are told.
type hook struct {
	server *http.Server
	url    string
	done   chan error

	mu     sync.Mutex // guards bodies
	bodies []string
}

// mostHook is how much of a body is kept, in bytes.
const mostHook = 1 << 20

func startHook() (*hook, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &hook{url: "http://" + listener.Addr().String() + "/", done: make(chan error, 1)}
	h.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(r.Body, mostHook))
		var head strings.Builder
		_ = r.Header.Write(&head) // a Builder takes everything
		h.mu.Lock()
		h.bodies = append(h.bodies, r.URL.String()+"\n"+head.String()+"\n"+string(body))
		h.mu.Unlock()
	})}
	go func() { h.done <- h.server.Serve(listener) }()
	return h, nil
}

func (h *hook) close() error {
	err := h.server.Close()
	if served := <-h.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (h *hook) said() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.bodies...)
}

// configuration is what is added to the gateway's configuration: a talkative log, and a
// receiver whose address and key are secrets.
func (l *leak) configuration(dir string) (string, error) {
	raw := l.canaries.Base64("webhook secret", 32)
	secret := filepath.Join(dir, "pki", "webhook-secret")
	if err := os.MkdirAll(filepath.Dir(secret), 0o700); err != nil {
		return "", err
	}
	if err := os.WriteFile(secret, []byte("whsec_"+raw+"\n"), 0o600); err != nil {
		return "", err
	}
	return fmt.Sprintf("log:\n  level: debug\nnotify:\n  webhook_url: %s\n  webhook_secret_file: %s\nlimits:\n  calls_per_second: 1000\n  calls_per_second_per_address: 1000\nbook:\n  checkpoint_folder: %s\n",
		l.hook.url, secret, auditors), l.canaries.Err()
}

// takeSecrets takes as canaries every private key and every key file the world made, and what
// the control plane was generated with.
func (l *leak) takeSecrets() error {
	control, _ := l.w.Nodes["controlplane-1"].Active()
	if err := l.canaries.AddConfig("the control plane's configuration", control); err != nil {
		return err
	}
	keys, err := filepath.Glob(l.w.Path("pki", "*.key"))
	if err != nil {
		return err
	}
	if len(keys) < 5 {
		return fmt.Errorf("the world has %d private keys", len(keys))
	}
	for _, path := range keys {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := l.canaries.AddPrivateKey("pki/"+filepath.Base(path), raw); err != nil {
			return err
		}
	}
	return nil
}

// takeKeyFile takes the keys of a development key file, as bytes.
func (l *leak) takeKeyFile(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var file struct{ Keys map[string]string }
	if err := json.Unmarshal(raw, &file); err != nil {
		return err
	}
	for name, text := range file.Keys {
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return err
		}
		if err := l.canaries.Add(filepath.Base(path)+": "+name, string(key)); err != nil {
			return err
		}
	}
	return nil
}

// token is a person's token, whose signature and whole are canaries.
func (l *leak) token(person string, options ...idp.Option) (string, error) {
	token, err := l.w.IDP.Token(person, options...)
	if err != nil {
		return "", err
	}
	signature := token[strings.LastIndexByte(token, '.')+1:]
	if signature == "" {
		signature = token // a token that is not signed
	}
	return token, errors.Join(l.canaries.Add("a token of "+person, token), l.canaries.Add("the signature of a token of "+person, signature))
}

// plant puts every control into every kind of place, the way a leak would come there.
func (l *leak) plant(ctx context.Context) error {
	for _, statement := range []string{
		"create table public.planted (text text, raw bytea)",
		"alter table public.planted alter column text set storage external, alter column raw set storage external",
	} {
		if _, err := l.db.Exec(ctx, statement); err != nil {
			return err
		}
	}
	for _, text := range l.controls.Texts() {
		// Once small and once behind so much text that it is stored out of line.
		for _, before := range []string{"", strings.Repeat("a line that stands before it. ", 200)} {
			if _, err := l.db.Exec(ctx, "insert into public.planted values ($1, $2)", before+text, []byte(before+text)); err != nil {
				return err
			}
		}
	}
	for _, path := range []string{"gateway-1.log", "openbao/audit.log", "home/olga/.local/state/bronzeward/planted", auditors + "/latest.checkpoint"} {
		log, err := os.OpenFile(l.w.Path(path), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		_, err = log.WriteString(l.controls.Text())
		if err := errors.Join(err, log.Close()); err != nil {
			return err
		}
	}
	for _, kind := range []string{inMetrics, inHTTP, inGRPC, inTalosctl, inCommand, inWebhook, inRego, inCrash, inProcess} {
		if err := l.tell(kind, "control", l.controls.Text()); err != nil {
			return err
		}
	}
	return os.WriteFile(l.w.Path("planted"), []byte(l.controls.Text()), 0o600)
}

// carried makes sure that the story is about secrets: every canary of a configuration, a token
// or an answer is in what was sent to the gateway, came from a node, or was on the wire between
// the product and OpenBao or the issuer.
func (l *leak) carried() error {
	s := leakscan.NewScanner(l.canaries.All()...)
	for _, dir := range []string{"sent", "nodes", "pki", "examples", "talosconfig", "home"} {
		if err := s.Folder(l.w.Path(dir), func(string) string { return dir }); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for _, name := range s.Seen() {
		seen[name] = true
	}
	var missing []string
	for _, c := range l.canaries.All() {
		if !seen[c.Name] {
			missing = append(missing, c.Name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the story does not carry %d canaries, so that not finding them proves nothing: %s", len(missing), strings.Join(missing, "; "))
	}
	return nil
}
