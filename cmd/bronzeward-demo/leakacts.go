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

	"bronzeward/gateway/httpapi/api"
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
	for _, machine := range []string{"worker-1", "worker-2"} {
		d, err := untilDrift(ctx, l.w, machine, api.DriftStateOpen)
		if err != nil {
			return err
		}
		for _, args := range [][]string{
			{"drift", "list", "-o", "json"},
			{"drift", "show", d.ID},
			{"drift", "show", d.ID, "-o", "json"},
			{"machines", "show", machine, "-o", "json"},
			{"drift", "revert", d.ID, "--reason", "as it was"},
			{"drift", "adopt", d.ID, "--reason", "as it is"},
		} {
			if _, err := l.command(ctx, "olga", args...); err != nil && args[1] != "adopt" { // the law may refuse to have it adopted
				return err
			}
		}
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
	if _, err = l.apply(ctx, []byte(annotated(string(text), l.canaries.Words("over a drift")))); err != nil {
		return err
	}
	return l.w.HoldAgainstNow(ctx) // what comes next is not to be refused for it
}

// unusable gives the gateway files and addresses with secrets that it cannot use.
func (l *leak) unusable(ctx context.Context) error {
	good, err := os.ReadFile(l.w.ConfigFile())
	if err != nil {
		return err
	}
	secret := func(name string) string { return l.canaries.Words("unusable: " + name) }
	paths := map[string]string{}
	for name, text := range map[string]string{
		"key.pem": l.canaries.PEM("unusable: a private key"), "webhook": "whsec_" + secret("a webhook secret"),
		"keys-development.json":   `{"current": "k1", "keys": {"k1": "` + l.canaries.Base64("unusable: a key in a file", 32) + `"}}`,
		"broken-development.json": `{"current": "k1", "keys": {"` + secret("a broken key file"),
		"role-id":                 secret("a role id"), "secret-id": secret("a secret id"), "token": secret("a token file"), "jwt": secret("a service account's token"),
		"two-lines": secret("a secret id of two lines") + "\n" + secret("its second line"),
	} {
		if paths[name], err = l.secretFile(name, text); err != nil {
			return err
		}
	}
	var all errgroup.Group
	all.SetLimit(6) // more at once would not get to say anything in their time
	for name, edit := range map[string][2]string{
		"a database's password":        {`(?m)^  url: .*$`, "  url: postgres://gateway:" + secret("a database's password") + "@127.0.0.1:1/bronzeward"},
		"an address that is none":      {`(?m)^  url: .*$`, "  url: \"postgres://gateway:" + secret("an address that is none") + "@127.0.0.1:x/%zz\""},
		"a password as key and value":  {`(?m)^  url: .*$`, "  url: \"host=127.0.0.1 port=x password=" + secret("a password as key and value") + "\""},
		"a private key":                {`(?m)^  key: pki/server.key$`, "  key: " + paths["key.pem"]},
		"a webhook's address":          {`(?m)^  webhook_url: .*$`, "  webhook_url: \"https://u:" + secret("a webhook's address") + "@[bad/%zz\""},
		"a webhook's secret":           {`(?m)^  webhook_secret_file: .*$`, "  webhook_secret_file: " + paths["webhook"]},
		"a key that is no setting":     {`(?m)^log:$`, "password: " + secret("a key that is no setting") + "\nlog:"},
		"a value of another type":      {`(?m)^  level: debug$`, "  level: [" + secret("a value of another type") + "]"},
		"a duration that is none":      {`(?m)^log:$`, "apply: {transport_deadline: " + secret("a duration that is none") + "}\nlog:"},
		"an issuer with a credential":  {`(?m)^    - issuer: .*$`, "    - issuer: https://u:" + secret("an issuer with a credential") + "@127.0.0.1:1/"},
		"a receiver with a credential": {`(?m)^  webhook_url: .*$`, "  webhook_url: http://u:" + secret("a receiver with a credential") + "@127.0.0.1:1/"},

		"a bad role id":              {`(?m)^    role_id_file: .*$`, "    role_id_file: " + paths["role-id"]},
		"a bad secret id":            {`(?m)^    secret_id_file: .*$`, "    secret_id_file: " + paths["secret-id"]},
		"a secret id of two lines":   {`(?m)^    secret_id_file: .*$`, "    secret_id_file: " + paths["two-lines"]},
		"a key for a secret id":      {`(?m)^    secret_id_file: .*$`, "    secret_id_file: " + paths["key.pem"]},
		"a token file":               {`(?m)^    role_id_file: .*$`, "    method: token\n    token_file: " + paths["token"]},
		"a token file of two lines":  {`(?m)^    role_id_file: .*$`, "    method: token\n    token_file: " + paths["two-lines"]},
		"a service account":          {`(?m)^    role_id_file: .*$`, "    method: kubernetes\n    role: r\n    jwt_file: " + paths["jwt"]},
		"a method that is none":      {`(?m)^    role_id_file: .*$`, "    method: " + secret("a method that is none")},
		"a key for an authority":     {`(?m)^  ca: .*$`, "  ca: " + paths["key.pem"]},
		"another authority":          {`(?m)^  ca: .*$`, "  ca: pki/people-ca.crt"},
		"an OpenBao with a password": {`(?m)^  address: .*$`, "  address: https://u:" + secret("an OpenBao with a password") + "@127.0.0.1:1"},
		"an OpenBao that is nowhere": {`(?m)^  address: .*$`, "  address: https://127.0.0.1:1"},
		"an address with a token":    {`(?m)^  address: .*$`, "  address: \"https://127.0.0.1:1/?token=" + secret("an address with a token") + "\""},
	} {
		all.Go(func() error { return l.unusableConfig(ctx, name, string(good), edit[0], edit[1], false) })
	}
	// Without OpenBao there are files.
	files := openBaoPart.ReplaceAllLiteralString(string(good), "talos:\n  certificate: pki/talos.crt\n  key: pki/talos.key\n  ca: pki/talos-ca.crt\ndigest:\n  keys_file: "+
		paths["keys-development.json"]+"\nseal:\n  keys_file: "+paths["keys-development.json"]+"\n")
	if err := l.takeKeyFile(paths["keys-development.json"]); err != nil {
		return err
	}
	for name, edit := range map[string][2]string{
		"good files":               {`(?m)^log:$`, "log:"},
		"the upstream private key": {`(?m)^  key: pki/talos.key$`, "  key: " + paths["key.pem"]},
		"a broken key file":        {`(?m)^  keys_file: .*$`, "  keys_file: " + paths["broken-development.json"]},
		"files beside OpenBao":     {`(?m)^log:$`, "openbao: {address: https://127.0.0.1:1, ca: " + paths["key.pem"] + "}\nlog:"},
	} {
		all.Go(func() error { return l.unusableConfig(ctx, name, files, edit[0], edit[1], true) })
	}
	return all.Wait()
}

var openBaoPart = regexp.MustCompile(`(?m)^openbao:\n(  .*\n)*`)

// unusableConfig checks and serves a configuration with one line replaced, and keeps what is
// said of it.
func (l *leak) unusableConfig(ctx context.Context, name, good, old, line string, development bool) error {
	place := regexp.MustCompile(old)
	text := place.ReplaceAllLiteralString(good, line)
	if !place.MatchString(good) {
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
	commands := [][]string{{"config", "check", "--config", path}, {"serve", "--config", path}, {"migrate", "--config", path}}
	if development {
		commands[1] = append(commands[1], "--development")
	} else {
		commands = append(commands, []string{"openbao", "setup", "--check", "--config", path})
	}
	for _, args := range commands {
		// Some of it is good enough to run with; what is said of it by then is enough.
		bounded, cancel := context.WithTimeout(ctx, 2*time.Second)
		out, err := l.w.AsOpenBaoOperator(bounded, args...)
		cancel()
		if err := l.tell(inCommand, name+" "+args[0], saidAndEnded(out, err)); err != nil {
			return err
		}
	}
	return os.Remove(path)
}
