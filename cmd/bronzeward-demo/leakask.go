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
	"time"

	"github.com/jackc/pgx/v5"
	"go.yaml.in/yaml/v4"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
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
	attempts, err := l.strings(ctx, "select id::text from control.attempts")
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
