package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"bronzeward/fixtures/gatewaypki"
	"bronzeward/fixtures/idp"
	"bronzeward/fixtures/world"
)

// s0Web walks the other door: every defect of a credential, and every act as every role.
func s0Web(ctx context.Context, s *stage, w *world.World, db *pgx.Conn) error {
	before, err := controlRows(ctx, db)
	if err != nil {
		return err
	}
	olga, err := idp.Find("olga")
	if err != nil {
		return err
	}
	whoami := request{method: http.MethodGet, path: "/whoami"}
	err = each(gatewaypki.Defects(), func(defect gatewaypki.Defect) error {
		pair, err := w.People.PersonWith(gatewaypki.Person{Issuer: w.PeopleIssuer(), Subject: olga.Subject, Groups: olga.Groups}, defect)
		if err != nil {
			return err
		}
		cert, err := pair.TLS()
		if err != nil {
			return err
		}
		r := whoami
		r.cert = &cert
		if err := wantProblem(ctx, w, r, http.StatusUnauthorized, "BW-CREDENTIAL-001"); err != nil {
			return fmt.Errorf("a certificate that is %s: %w", defect, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = each(idp.Defects(), func(defect idp.Defect) error {
		token, err := w.IDP.Token("olga", idp.With(defect))
		if err != nil {
			return err
		}
		r := whoami
		r.token = token
		if err := wantProblem(ctx, w, r, http.StatusUnauthorized, "BW-CREDENTIAL-001"); err != nil {
			return fmt.Errorf("a token that is %s: %w", defect, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.did("the HTTP door: %d defects of credentials, each 401 with a problem document", len(gatewaypki.Defects())+len(idp.Defects()))
	refused, err := webActs(ctx, w, db)
	if err != nil {
		return err
	}
	s.did("every act over HTTP as every role that may not: %d times 403, one entry each, nothing written to control", refused)
	return sameControlRows(ctx, db, before)
}

// webActs asks every act as everybody whose role it is not.
func webActs(ctx context.Context, w *world.World, db *pgx.Conn) (refused int, err error) {
	// Ids that no row has: who may not act learns nothing of what there is.
	const chg, apr, attempt = "chg_01h455vb4pex5vsknk084sn02q", "apr_01h455vb4pex5vsknk084sn02q", "019a5c3e-7b1d-7f00-8000-0123456789ab"
	acts := []struct {
		method, path, body string
		may                []string
	}{
		{"POST", "/machines", `{"machines":[{"name":"x","cluster":"y","addresses":["127.0.9.9"]}]}`, []string{"olga"}},
		{"PATCH", "/machines/worker-1", `{"addresses":["127.0.9.9"],"port":50000,"labels":{}}`, []string{"olga"}},
		{"POST", "/machines/worker-1/observations", `{}`, []string{"olga", "rhea"}},
		{"POST", "/machines/worker-1/pins", `{"replace":true}`, []string{"ada"}},
		{"POST", "/identity-revocations", `{"issuer":"i","subject":"s","reason":"r"}`, []string{"rhea"}},
		{"GET", "/changes", "", []string{"olga", "vera", "ada", "audrey", "rhea", "sven"}},
		{"GET", "/machines", "", []string{"olga", "vera", "ada", "audrey", "rhea", "sven"}},
		{"GET", "/attempts", "", []string{"olga", "vera", "ada", "audrey", "rhea", "sven"}},
	}
	for _, person := range []string{"olga", "vera", "ada", "audrey", "rhea", "sven", "mallory"} {
		cert, err := tls.LoadX509KeyPair(w.Path("pki", person+".crt"), w.Path("pki", person+".key"))
		if err != nil {
			return refused, err
		}
		for _, act := range acts {
			if slices.Contains(act.may, person) {
				continue
			}
			from, err := entryCount(ctx, db)
			if err != nil {
				return refused, err
			}
			r := request{cert: &cert, method: act.method, path: act.path, body: act.body}
			if err := wantProblem(ctx, w, r, http.StatusForbidden, "BW-ACT-"); err != nil {
				return refused, fmt.Errorf("%s %s as %s: %w", act.method, act.path, person, err)
			}
			to, err := entryCount(ctx, db)
			if err != nil {
				return refused, err
			}
			if to-from != 1 {
				return refused, fmt.Errorf("%s %s as %s left %d entries, want one", act.method, act.path, person, to-from)
			}
			refused++
		}
		for _, path := range []string{"/changes/" + chg + "/approvals", "/approvals/" + apr + "/revocations", "/attempts/" + attempt + "/accountings"} {
			body := map[bool]string{true: `{"digest":"hmac-sha256:k1:00"}`, false: `{"reason":"r"}`}[strings.HasSuffix(path, "/approvals")]
			if strings.HasSuffix(path, "/accountings") {
				body = `{"landed":true,"reason":"r"}`
			}
			status, _, err := request{cert: &cert, method: http.MethodPost, path: path, body: body}.do(ctx, w)
			if err != nil {
				return refused, err
			}
			if status != http.StatusNotFound && status != http.StatusForbidden {
				return refused, fmt.Errorf("POST %s as %s: %d", path, person, status)
			}
		}
	}
	return refused, nil
}

// request is one request of the HTTP door.
type request struct {
	cert               *tls.Certificate
	token              string
	method, path, body string
}

// do sends it and gives status and body.
func (r request) do(ctx context.Context, w *world.World) (int, []byte, error) {
	conf, err := w.ClientTLS("")
	if err != nil {
		return 0, nil, err
	}
	conf.ServerName, conf.NextProtos = "", nil
	if r.cert != nil {
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return r.cert, nil }
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, r.method, w.API()+r.path, strings.NewReader(r.body))
	if err != nil {
		return 0, nil, err
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	answer, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, body, err
}

// wantProblem wants a problem document with that status, whose code begins like this.
func wantProblem(ctx context.Context, w *world.World, r request, status int, code string) error {
	got, body, err := r.do(ctx, w)
	if err != nil {
		return err
	}
	var problem struct{ Code, Detail string }
	if err := json.Unmarshal(body, &problem); err != nil {
		return fmt.Errorf("%d, and no problem document: %s", got, body)
	}
	if got != status || !strings.HasPrefix(problem.Code, code) {
		return fmt.Errorf("%d %s, want %d %s: %s", got, problem.Code, status, code, problem.Detail)
	}
	if len(r.token) > 20 && strings.Contains(string(body), r.token[len(r.token)-20:]) {
		return fmt.Errorf("the refusal quotes the token")
	}
	return nil
}
