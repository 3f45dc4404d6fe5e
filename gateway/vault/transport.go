package vault

import (
	"fmt"
	"io"
	"net"
	"net/http"
)

// unreadableError is an answer that is not read.
type unreadableError struct{ reason string }

// Error is the reason.
func (e *unreadableError) Error() string { return e.reason }

// limited bounds what is read of an answer, and refuses to be sent elsewhere.
type limited struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusMultipleChoices && response.StatusCode < http.StatusBadRequest {
		_ = response.Body.Close()
		return nil, &unreadableError{fmt.Sprintf("OpenBao sends the question elsewhere (status %d), and the token goes nowhere else: name a node that answers itself in openbao.address", response.StatusCode)}
	}
	response.Body = &limitedBody{ReadCloser: response.Body, left: mostAnswer}
	return response, nil
}

// limitedBody errs where a longer answer goes on, so that a cut one is never taken for whole.
type limitedBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		var one [1]byte
		if n, err := b.ReadCloser.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, &unreadableError{fmt.Sprintf("the answer is longer than %d bytes: see openbao.address", mostAnswer)}
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
