package ask

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"

	"bronzeward/cmd/bronzeward/cli"
)

const (
	// MostTries of one request: a restart of one replica behind a balancer is bridged.
	MostTries = 5
	// firstPause between two tries; it doubles up to mostPause.
	firstPause = 200 * time.Millisecond
	mostPause  = 5 * time.Second
	// answerWithin bounds one try. Observing asks a node, which may take its time.
	answerWithin = 2 * time.Minute
	// appliedWithin bounds one try of an apply, which is answered when its attempt has its state.
	appliedWithin = 15 * time.Minute
	// mostAnswer is the longest answer taken, in bytes.
	mostAnswer = 64 << 20
)

// Asker carries requests to one gateway. Every POST gets an Idempotency-Key, and is sent
// again under the same one while the network or the gateway is away, so that it is carried
// out once however often it is sent. Safe for concurrent use.
type Asker struct {
	Client   *http.Client
	Settings Settings
	Progress *cli.Progress
	pause    time.Duration
}

// New reads the credential and the CA. A client certificate is shown whatever
// authorities the gateway asks for: its refusal says more than silence.
func New(s Settings, g *cli.Globals) (*Asker, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.ServerCA != "" {
		raw, err := os.ReadFile(s.ServerCA)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("reading the gateway's CA (--server-ca): %w", err))
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(raw) {
			return nil, cli.Usage(fmt.Errorf("reading the gateway's CA (--server-ca): %s holds no PEM certificate", s.ServerCA))
		}
	}
	if s.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(s.Certificate, s.key)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("reading your certificate: %w", err))
		}
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	out := &Asker{
		Settings: s, Progress: g.NewProgress(), pause: g.Pause,
		Client: &http.Client{
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, TLSClientConfig: cfg, TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true,
				DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			},
			// Whoever answers for the gateway is not told the credential for somebody else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if out.pause == 0 {
		out.pause = firstPause
	}
	_, err := out.Token()
	return out, err
}

// Token is read for every request, so that a file that is renewed meanwhile counts.
func (s *Asker) Token() (string, error) {
	if s.Settings.tokenFile == "" {
		return s.Settings.token, nil
	}
	raw, err := os.ReadFile(s.Settings.tokenFile)
	if err != nil {
		return "", cli.Usage(fmt.Errorf("reading your token: %w", err))
	}
	token := strings.TrimSpace(string(raw))
	if token == "" || strings.ContainsAny(token, "\r\n") {
		return "", cli.Usage(fmt.Errorf("reading your token: %s does not hold one token and nothing else", s.Settings.tokenFile))
	}
	return token, nil
}

// Do sends a request until it is answered, at most mostTries times.
func (s *Asker) Do(req *http.Request) (*http.Response, error) {
	defer s.Progress.Begin("asking " + req.URL.Host)()
	if req.Method == http.MethodPost && req.Header.Get("Idempotency-Key") == "" {
		key, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("making an Idempotency-Key: %w", err)
		}
		req.Header.Set("Idempotency-Key", key.String())
	}
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.Multiplier, pauses.MaxInterval = s.pause, 2, mostPause
	resp, err := backoff.Retry(req.Context(), func() (*http.Response, error) { return s.try(req) },
		backoff.WithBackOff(pauses), backoff.WithMaxTries(MostTries),
		backoff.WithNotify(func(error, time.Duration) { s.Progress.Note("no answer yet, trying again") }))
	if resp != nil { // the last one, whatever it says
		return resp, nil
	}
	return nil, s.Explain(err)
}

// try sends a request once. The answer's body is read whole, so that one that breaks off is
// a try that failed.
func (s *Asker) try(req *http.Request) (*http.Response, error) {
	within := answerWithin
	if strings.HasSuffix(req.URL.Path, "/applications") {
		within = appliedWithin
	}
	ctx := context.WithValue(req.Context(), shownKey{}, s.Settings.shown())
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no answer came within %s", within))
	defer cancel()
	again := req.Clone(ctx)
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, backoff.Permanent(err)
		}
		again.Body = body
	}
	token, err := s.Token()
	if err != nil {
		return nil, backoff.Permanent(err)
	}
	if token != "" {
		again.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := s.Client.Do(again)
	if err == nil {
		resp, err = whole(resp)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, backoff.Permanent(context.Cause(ctx))
	case err != nil && !Passing(err):
		return nil, backoff.Permanent(err)
	case err != nil:
		return nil, err
	}
	return resp, worthAnother(resp)
}

// whole reads an answer to its end.
func whole(resp *http.Response) (*http.Response, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer+1))
	if err != nil {
		return nil, err
	}
	if len(body) > mostAnswer {
		return nil, backoff.Permanent(fmt.Errorf("the answer has more than %d bytes", mostAnswer))
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// shownKey marks which credential a request shows, for the words of its refusal.
type shownKey struct{}

// errAway is an answer that says to try again.
var errAway = errors.New("the gateway cannot decide now")

// tried are the codes of what the gateway has tried again itself: asking a machine, having a
// certificate signed, adding a digest key, sealing or opening a change.
var tried = []string{"BW-UPSTREAM-", "BW-CERTIFICATE-", "BW-DIGEST-", "BW-CHANGE-"}

// worthAnother is nil for an answer that stands. A 503 is not final, but for one about what
// the gateway has tried again itself.
func worthAnother(resp *http.Response) error {
	if resp.StatusCode != http.StatusServiceUnavailable {
		return nil
	}
	body, _ := io.ReadAll(resp.Body) // it is in memory
	resp.Body = io.NopCloser(bytes.NewReader(body))
	var doc struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(body, &doc) // whoever answers for the gateway may say something else
	if slices.ContainsFunc(tried, func(area string) bool { return strings.HasPrefix(doc.Code, area) }) {
		return nil
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds >= 0 && time.Duration(seconds)*time.Second <= mostPause {
		return backoff.RetryAfter(seconds)
	}
	return errAway
}

// Showing is an asker with a token got in this run.
func (s *Asker) Showing(token, made string) *Asker {
	other := *s
	other.Settings.token, other.Settings.tokenFile, other.Settings.Made = token, "", made
	return &other
}

// Request sends a request with this credential, or none, and reads the answer as a T.
func Request[T any](ctx context.Context, s *Asker, method, path string, body any) (T, Answer, error) {
	var none T
	raw, err := json.Marshal(body)
	if err != nil {
		return none, Answer{}, fmt.Errorf("asking %s: %w", s.Settings.Server, err)
	}
	if body == nil {
		raw = nil
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(s.Settings.Server, "/")+path, bytes.NewReader(raw))
	if err != nil {
		return none, Answer{}, cli.Usage(fmt.Errorf("reading --server: %w", err))
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return Received[T](s.Do(req))
}
