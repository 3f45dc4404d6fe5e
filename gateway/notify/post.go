package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// maxAnswer is how much of the receiver's answer is read, in bytes, so that it may finish
// writing a short one.
const maxAnswer = 4 << 10

// outcome is what came of a try.
type outcome struct {
	// result is one of the results of the metric.
	result string
	// why is for people and is kept in the row; it quotes no text of the receiver.
	why string
	// cause is for the log only; nil when why says it all.
	cause error
	// after is how long the receiver asks to be left alone; zero when it does not.
	after time.Duration
}

// newClient makes a client that goes where the configuration says and nowhere else.
func newClient(c Config) *http.Client {
	transport := &http.Transport{
		TLSClientConfig:        &tls.Config{RootCAs: c.RootCAs, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		DisableKeepAlives:      true, // notices are minutes apart
		DisableCompression:     true, // so that what is read is what was sent
		MaxResponseHeaderBytes: 16 << 10,
	}
	if c.Proxy != nil {
		transport.Proxy = http.ProxyURL(c.Proxy)
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// post signs the body and sends it once.
func (s *Sender) post(ctx context.Context, id string, body []byte, secrets signer) outcome {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	at := s.cfg.Now()
	signature, err := secrets.sign(id, at, body)
	if err != nil {
		return outcome{result: resultFailed, why: err.Error(), cause: err}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return outcome{result: resultFailed, why: "the request could not be made"}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "bronzeward")
	request.Header.Set(standardwebhooks.HeaderWebhookID, id)
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	response, err := s.client.Do(request)
	if err != nil {
		return outcome{result: resultFailed, why: s.reason(err)}
	}
	defer response.Body.Close()
	// The status is the answer, whatever becomes of the rest.
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswer)
	return s.judge(response)
}

// judge reads the status as Standard Webhooks says.
func (s *Sender) judge(r *http.Response) outcome {
	status := strconv.Itoa(r.StatusCode)
	if text := http.StatusText(r.StatusCode); text != "" {
		status += " " + text
	}
	switch {
	case r.StatusCode >= 200 && r.StatusCode < 300:
		return outcome{result: resultSent}
	case r.StatusCode == http.StatusGone:
		return outcome{result: resultDead, why: "the receiver answered " + status + ": it wants no more of this"}
	case r.StatusCode >= 300 && r.StatusCode < 400:
		return outcome{result: resultFailed, why: "the receiver answered " + status + ", and redirects are not followed: set the address it redirects to"}
	}
	return outcome{result: resultFailed, why: "the receiver answered " + status, after: s.retryAfter(r.Header.Get("Retry-After"))}
}

// retryAfter reads the header's seconds or date; zero when it is neither (RFC 9110, 10.2.3).
func (s *Sender) retryAfter(value string) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(s.cfg.Now()))
	}
	return 0
}

// reason says why no answer came. Errors of the HTTP client name the whole URL, and some quote
// what the receiver wrote; only those that can do neither are passed on.
func (s *Sender) reason(err error) string {
	var (
		timeout     interface{ Timeout() bool }
		lookup      *net.DNSError
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
		network     *net.OpError
	)
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("no answer within %s", s.cfg.Timeout)
	case errors.As(err, &lookup):
		return lookup.Error()
	case errors.As(err, &certificate):
		return certificate.Error()
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "one side speaks TLS and the other does not"
	case errors.As(err, &network):
		return network.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed before an answer came"
	}
	return "the answer is not readable as HTTP"
}
