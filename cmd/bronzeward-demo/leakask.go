package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"go.yaml.in/yaml/v4"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/jackc/pgx/v5"

	"bronzeward/fixtures/talosd"
	"bronzeward/fixtures/world"
)

func grpcHeader(md *metadata.MD) grpc.CallOption  { return grpc.Header(md) }
func grpcTrailer(md *metadata.MD) grpc.CallOption { return grpc.Trailer(md) }

// ask makes one request of the HTTP API and keeps what comes back, head and body.
func (l *leak) ask(ctx context.Context, person, method, path string, body io.Reader, header ...string) ([]byte, error) {
	text, whole, err := l.request(ctx, person, method, path, body, header...)
	if err != nil {
		return nil, err
	}
	kind := inHTTP
	if path == "/metrics" {
		kind = inMetrics
	}
	return text, l.tell(kind, person+" "+method+" "+path, whole)
}

// request makes one request and gives the body of the answer, and the whole of it.
func (l *leak) request(ctx context.Context, person, method, path string, body io.Reader, header ...string) (text []byte, whole string, err error) {
	conf, err := l.w.ClientTLS(person)
	if err != nil {
		return nil, "", err
	}
	conf.ServerName, conf.NextProtos = "", nil
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, method, l.w.API()+path, body)
	if err != nil {
		return nil, "", err
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	if text, err = io.ReadAll(response.Body); err != nil {
		return nil, "", err
	}
	var out bytes.Buffer
	fmt.Fprintln(&out, response.Status)
	_ = response.Header.Write(&out) // a Buffer takes everything
	out.Write(text)
	return text, out.String(), nil
}

// post submits a configuration.
func (l *leak) post(ctx context.Context, person, path string, text []byte) error {
	body, err := json.Marshal(map[string]string{"machine": "worker-1", "configuration": string(text), "mode": "no-reboot"})
	if err != nil {
		return err
	}
	_, err = l.ask(ctx, person, http.MethodPost, path, bytes.NewReader(body), "Content-Type", "application/json", "Idempotency-Key", rand.Text())
	return err
}

// shown shows a token to the HTTP API, and to both doors where no token belongs. All at once:
// refusals of callers whom nobody proved are kept back until their second is over.
func (l *leak) shown(ctx context.Context, name, token string) error {
	if _, err := l.send([]byte(token)); err != nil {
		return err
	}
	var all errgroup.Group
	for _, header := range [][]string{
		{"Authorization", "Bearer " + token},
		{"Authorization", token},
		{"Authorization", "Basic " + token},
		{"Cookie", "token=" + token},
		{"X-Token", token},
		{"Idempotency-Key", token},
		{"User-Agent", token},
		{"Traceparent", token},
		{"X-Request-Id", token},
	} {
		all.Go(func() error {
			_, err := l.ask(ctx, "", http.MethodGet, "/whoami", nil, header...)
			return err
		})
	}
	inPath := url.PathEscape(token)
	for _, path := range []string{"/changes?access_token=", "/whoami?token=", "/changes?cursor=", "/changes/", "/machines/", "/nothing/"} {
		all.Go(func() error {
			// The answer names the path that was asked for, to whoever asked; it is not kept
			// here. The book and the log are searched.
			_, _, err := l.request(ctx, "olga", http.MethodGet, path+inPath, nil)
			return err
		})
	}
	all.Go(func() error {
		return l.oneRequest(ctx, "olga", "/machine.MachineService/Version", nil, "nodes", token, "context", token)
	})
	for _, md := range [][]string{{"authorization", "Bearer " + token}, {"x-token", token}, {"token", token}, {"cookie", token}} {
		all.Go(func() error {
			return l.oneRequest(ctx, "", "/machine.MachineService/Version", nil, append(md, "nodes", "worker-1")...)
		})
	}
	if err := all.Wait(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

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
			if out, err = l.command(ctx, "ada", args...); err != nil {
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

// questions asks everything that can be asked, as those who may.
func (l *leak) questions(ctx context.Context) error {
	raw, err := l.ask(ctx, "", http.MethodGet, "/openapi.yaml", nil)
	if err != nil {
		return err
	}
	var document struct {
		Paths map[string]map[string]any `yaml:"paths"`
	}
	if err := yaml.Load(raw, &document); err != nil {
		return err
	}
	attempts, err := l.strings(ctx, "select 'att_' || id::text from control.attempts")
	if err != nil {
		return err
	}
	ids := append([]string{"worker-1", "worker-2", "controlplane-1"}, l.changes...)
	ids = append(ids, attempts...)
	routes := 0
	for path, methods := range document.Paths {
		if methods["get"] == nil {
			continue
		}
		routes++
		asked := []string{path}
		if strings.Contains(path, "{id}") {
			asked = nil
			for _, id := range ids {
				asked = append(asked, strings.Replace(path, "{id}", id, 1))
			}
		}
		for _, one := range asked {
			for _, person := range []string{"vera", "audrey"} {
				if _, err := l.ask(ctx, person, http.MethodGet, one, nil); err != nil {
					return err
				}
			}
		}
	}
	if routes < 15 {
		return fmt.Errorf("the API's description has %d routes to read", routes)
	}
	return errors.Join(l.commands(ctx), l.inputs(ctx))
}

// commands runs every command that shows something.
func (l *leak) commands(ctx context.Context) error {
	for _, args := range [][]string{
		{"decisions", "list", "--limit", "1000"},
		{"decisions", "list", "--limit", "1000", "-o", "json"},
		{"changes", "list"},
		{"changes", "list", "-o", "json"},
		{"attempts", "list", "-o", "json"},
		{"notices", "list", "-o", "json"},
		{"machines", "list", "-o", "json"},
		{"machines", "show", "worker-1"},
		{"machines", "timeline", "worker-1"},
		{"identities", "list"},
		{"whoami"},
		{"policy", "status"},
	} {
		if _, err := l.command(ctx, "audrey", args...); err != nil {
			return err
		}
	}
	decisions, err := l.strings(ctx, `select id::text from audit.entries where class in ('apply', 'config-read') or kind = 'http' order by recorded_at desc limit 25`)
	if err != nil {
		return err
	}
	for _, id := range decisions {
		if _, err := l.command(ctx, "audrey", "decisions", "show", id); err != nil {
			return err
		}
	}
	return nil
}

// inputs keeps what the policies were given, and judges some of it again, explained.
func (l *leak) inputs(ctx context.Context) error {
	inputs, err := l.strings(ctx, `select convert_from(record, 'UTF8')::jsonb ->> 'facts' from audit.entries where convert_from(record, 'UTF8')::jsonb ? 'facts' order by length(record) desc`)
	if err != nil {
		return err
	}
	if len(inputs) < 50 || !strings.Contains(strings.Join(inputs, ""), "fp:") {
		return fmt.Errorf("%d inputs of policies are in the book, or none with a configuration", len(inputs))
	}
	for i, text := range inputs {
		if err := l.tell(inRego, "input", text); err != nil {
			return err
		}
		if i >= 5 {
			continue
		}
		path := l.w.Path(fmt.Sprintf("input-%d.yaml", i))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
		for _, output := range []string{"table", "json"} {
			if _, err := l.command(ctx, "", "policy", "eval", path, "-o", output); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *leak) strings(ctx context.Context, query string) ([]string, error) {
	rows, err := l.db.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// dies ends gateways in the middle of an apply, so that they print what every goroutine does.
func (l *leak) dies(ctx context.Context) error {
	for i, signal := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGABRT} {
		name := fmt.Sprintf("gateway-%d", i+1)
		g := l.w.Gateways[name]
		if g == nil {
			// The second one takes the place of the first, and writes its log as JSON.
			l.w.Extra = strings.Replace(l.w.Extra, "level: debug", "level: debug\n  format: json", 1)
			var err error
			if g, err = l.w.StartGatewayAt(ctx, name, l.w.Endpoint); err != nil {
				return err
			}
			l.w.Gateways = map[string]*world.Gateway{name: g}
			if err := l.second(ctx, g); err != nil {
				return err
			}
		}
		if err := l.kill(ctx, g, signal); err != nil {
			return err
		}
	}
	for i, body := range l.hook.said() {
		if err := l.tell(inWebhook, fmt.Sprint(i), body); err != nil {
			return err
		}
	}
	if len(l.hook.said()) == 0 {
		return errors.New("no webhook was sent")
	}
	return nil
}

// second does with a gateway that writes JSON a part of what was done with the first.
func (l *leak) second(ctx context.Context, g *world.Gateway) error {
	*l.w = *l.w.At(g)
	text, err := l.canaries.Worker("the second gateway")
	if err != nil {
		return err
	}
	if _, err := l.apply(ctx, text); err != nil {
		return err
	}
	return errors.Join(l.tokens(ctx), l.broken(ctx), l.quoted(ctx))
}

// kill ends a gateway while it holds a configuration, and keeps what it prints at its end.
func (l *leak) kill(ctx context.Context, g *world.Gateway, signal syscall.Signal) error {
	if _, err := l.ask(ctx, "", http.MethodGet, "/metrics", nil); err != nil {
		return err
	}
	for _, file := range []string{"cmdline", "environ"} {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", g.Pid(), file))
		if err != nil {
			return err
		}
		if err := l.tell(inProcess, g.Instance+" "+file, string(raw)); err != nil {
			return err
		}
	}
	node := l.w.Nodes["worker-2"]
	if err := node.Fault(talosd.Fault{Kind: talosd.Pause, Method: "/cosi.resource.State/Get", Times: -1}); err != nil {
		return err
	}
	active, _ := node.Active()
	path, err := l.send([]byte(annotated(string(active), l.canaries.Words("held when the gateway dies"))))
	if err != nil {
		return err
	}
	held := make(chan error, 1)
	before := len(node.Log().Calls())
	go func() {
		out, err := l.w.Talosctl(ctx, "olga", "-n", "worker-2", "apply-config", "--mode=no-reboot", "-f", path)
		held <- l.tell(inTalosctl, "held", saidAndEnded(out, err))
	}()
	waiting, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := node.Log().Wait(waiting, func(calls []talosd.Call) bool {
		for _, c := range calls[min(before, len(calls)):] {
			if c.Held {
				return true
			}
		}
		return false
	}); err != nil {
		return fmt.Errorf("waiting until the node holds a call: %w", err)
	}
	from := len(g.Log())
	if err := syscall.Kill(g.Pid(), signal); err != nil {
		return err
	}
	<-g.Done()
	node.ClearFaults()
	if err := <-held; err != nil {
		return err
	}
	text := g.Log()[from:]
	if !strings.Contains(text, "goroutine ") {
		return fmt.Errorf("after %v the gateway printed no goroutines:\n%.2000s", signal, text)
	}
	return l.tell(inCrash, g.Instance, text)
}
