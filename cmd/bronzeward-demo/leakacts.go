package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// captured takes changes with secrets through what can become of them.
func (l *leak) captured(ctx context.Context) error {
	active, _ := l.w.Nodes["worker-1"].Active()
	rich, err := l.canaries.Worker("captured")
	if err != nil {
		return err
	}
	plain := func(name string) []byte { return []byte(annotated(string(active), l.canaries.Words(name))) }
	for _, c := range []struct {
		text []byte
		end  []string // the act that ends it; an approval and an apply when empty
		by   string
	}{
		{text: rich},
		{text: plain("rejected"), end: []string{"changes", "reject", "CHANGE", "--reason", "no"}, by: "ada"},
		{text: plain("cancelled"), end: []string{"changes", "cancel", "CHANGE"}, by: "olga"},
		{text: plain("applied")},
	} {
		out, err := l.apply(ctx, c.text)
		if err != nil {
			return err
		}
		id := changeID.FindString(out)
		if id == "" {
			return fmt.Errorf("nothing was captured:\n%s", out)
		}
		l.changes = append(l.changes, id)
		for _, args := range [][]string{{"changes", "show", id}, {"changes", "diff", id}, {"changes", "show", id, "-o", "json"}} {
			if _, err := l.command(ctx, "ada", args...); err != nil {
				return err
			}
		}
		if c.end != nil {
			end := strings.Split(strings.Replace(strings.Join(c.end, "\x00"), "CHANGE", id, 1), "\x00")
			if _, err := l.command(ctx, c.by, end...); err != nil {
				return err
			}
			continue
		}
		shown, err := change(ctx, l.w, id)
		if err != nil {
			return err
		}
		if _, err := l.command(ctx, "ada", "changes", "approve", id, "--digest", shown.Digest); err != nil {
			return err
		}
		// The node refuses what needs a reboot, and quotes it.
		if _, err := l.apply(ctx, c.text); err != nil {
			return err
		}
		if _, err := l.command(ctx, "olga", "changes", "apply", id); err != nil {
			return err
		}
	}
	now, _ := l.w.Nodes["worker-1"].Active()
	if bytes.Equal(now, active) {
		return errors.New("the change that should be applied is not")
	}
	return nil
}

// drifted changes machines behind the gateway's back.
func (l *leak) drifted(ctx context.Context) error {
	text, err := l.canaries.Worker("behind its back")
	if err != nil {
		return err
	}
	if err := l.w.Nodes["worker-1"].SetConfig(text); err != nil {
		return err
	}
	staged := annotated(string(text), l.canaries.Words("staged"))
	if err := l.w.Nodes["worker-2"].Stage([]byte(staged)); err != nil {
		return err
	}
	for _, s := range [][]byte{text, []byte(staged)} {
		if _, err := l.send(s); err != nil { // what a node has is told nowhere else
			return err
		}
	}
	_, err = l.command(ctx, "olga", "machines", "observe", "worker-1", "worker-2", "controlplane-1")
	if err != nil {
		return err
	}
	_, err = l.apply(ctx, []byte(annotated(string(text), l.canaries.Words("over a drift"))))
	return err
}

// unusable gives the gateway files and addresses with secrets that it cannot use.
func (l *leak) unusable(ctx context.Context) error {
	good, err := os.ReadFile(l.w.ConfigFile())
	if err != nil {
		return err
	}
	secret := func(name string) string { return l.canaries.Words("unusable: " + name) }
	file := func(name, text string) (string, error) {
		path := l.w.Path("pki", "unusable-"+name)
		return path, os.WriteFile(path, []byte(text), 0o600)
	}
	paths := map[string]string{}
	for name, text := range map[string]string{
		"key.pem": l.canaries.PEM("unusable: a private key"), "keys-development.json": `{"current": "k1", "keys": {"k1": "` + secret("a key in a file") + `"}}`,
		"broken-development.json": `{"current": "k1", "keys": {"` + secret("a broken key file"), "webhook": "whsec_" + secret("a webhook secret"),
	} {
		if paths[name], err = file(name, text); err != nil {
			return err
		}
	}
	var all errgroup.Group
	for name, edit := range map[string][2]string{
		"a database's password":        {`(?m)^  url: .*$`, "  url: postgres://gateway:" + secret("a database's password") + "@127.0.0.1:1/bronzeward"},
		"an address that is none":      {`(?m)^  url: .*$`, "  url: \"postgres://gateway:" + secret("an address that is none") + "@127.0.0.1:x/%zz\""},
		"a password as key and value":  {`(?m)^  url: .*$`, "  url: \"host=127.0.0.1 port=x password=" + secret("a password as key and value") + "\""},
		"a private key":                {`(?m)^  key: pki/server.key$`, "  key: " + paths["key.pem"]},
		"the upstream private key":     {`(?m)^  key: pki/talos.key$`, "  key: " + paths["key.pem"]},
		"a key file":                   {`(?m)^  keys_file: .*$`, "  keys_file: " + paths["keys-development.json"]},
		"a broken key file":            {`(?m)^  keys_file: .*$`, "  keys_file: " + paths["broken-development.json"]},
		"a webhook's address":          {`(?m)^  webhook_url: .*$`, "  webhook_url: \"https://u:" + secret("a webhook's address") + "@[bad/%zz\""},
		"a webhook's secret":           {`(?m)^  webhook_secret_file: .*$`, "  webhook_secret_file: " + paths["webhook"]},
		"a key that is no setting":     {`(?m)^log:$`, "password: " + secret("a key that is no setting") + "\nlog:"},
		"a value of another type":      {`(?m)^  level: debug$`, "  level: [" + secret("a value of another type") + "]"},
		"a duration that is none":      {`(?m)^log:$`, "apply: {transport_deadline: " + secret("a duration that is none") + "}\nlog:"},
		"an issuer with a credential":  {`(?m)^    - issuer: .*$`, "    - issuer: https://u:" + secret("an issuer with a credential") + "@127.0.0.1:1/"},
		"a receiver with a credential": {`(?m)^  webhook_url: .*$`, "  webhook_url: http://u:" + secret("a receiver with a credential") + "@127.0.0.1:1/"},
	} {
		all.Go(func() error { return l.unusableConfig(ctx, name, good, edit[0], edit[1]) })
	}
	return all.Wait()
}

// unusableConfig checks and serves a configuration with one line replaced, and keeps what is
// said of it.
func (l *leak) unusableConfig(ctx context.Context, name string, good []byte, old, line string) error {
	text := regexp.MustCompile(old).ReplaceAllLiteralString(string(good), line)
	if text == string(good) {
		return fmt.Errorf("%s: the configuration has no line like %s", name, old)
	}
	// Beside the good one, so that the other paths in it hold.
	path := l.w.Path("unusable-" + strings.ReplaceAll(name, " ", "-") + ".yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	if _, err := l.send([]byte(text)); err != nil {
		return err
	}
	for _, args := range [][]string{{"config", "check", "--config", path}, {"serve", "--development", "--config", path}, {"migrate", "--config", path}} {
		// Some of it is good enough to run with; what is said of it by then is enough.
		bounded, cancel := context.WithTimeout(ctx, 2*time.Second)
		out, err := l.w.Bronzeward(bounded, "", args...)
		cancel()
		if err := l.tell(inCommand, name+" "+args[0], saidAndEnded(out, err)); err != nil {
			return err
		}
	}
	return os.Remove(path)
}
