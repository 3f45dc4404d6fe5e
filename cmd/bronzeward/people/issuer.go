package people

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
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
)

const (
	// issuerWithin bounds one request to an issuer.
	issuerWithin = 30 * time.Second
	// mostIssuerAnswer is the longest answer of an issuer that is taken, in bytes.
	mostIssuerAnswer = 1 << 20
)

// issuer is an OpenID Connect issuer to log in at.
type issuer struct {
	loginIssuer
	client *http.Client
	doc    issuerDocument
	caFile string
}

// issuerDocument is what of an issuer's discovery document a login needs (OpenID Connect
// Discovery 1.0 §3, RFC 8414, RFC 8628 §4, RFC 9207 §3).
type issuerDocument struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Device        string   `json:"device_authorization_endpoint"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	SaysIssuer    bool     `json:"authorization_response_iss_parameter_supported"`
}

// openIssuer asks an issuer where it is asked for tokens. Redirects are not followed: what
// an issuer says of itself it says at its own address.
func openIssuer(ctx context.Context, from loginIssuer, caFile string) (*issuer, error) {
	is := &issuer{loginIssuer: from, caFile: caFile}
	address, err := url.Parse(is.Issuer)
	if err != nil || address.Scheme != "https" || address.Host == "" || address.User != nil || address.RawQuery != "" || address.Fragment != "" {
		return nil, cli.Usage(fmt.Errorf("the issuer %q does not read as https://HOST: it is asked over TLS only (--issuer)", cli.Clip(is.Issuer, mostQuoted)))
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		raw, err := os.ReadFile(caFile)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("reading the issuer's CA (--issuer-ca): %w", err))
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(raw) {
			return nil, cli.Usage(fmt.Errorf("reading the issuer's CA (--issuer-ca): %s holds no PEM certificate", caFile))
		}
	}
	is.client = &http.Client{
		Transport: &boundedTransport{ctx, &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: conf, TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true,
			DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if err := is.discover(ctx, strings.TrimSuffix(is.Issuer, "/")+"/.well-known/openid-configuration"); err != nil {
		is.close()
		return nil, err
	}
	return is, nil
}

func (is *issuer) close() { is.client.CloseIdleConnections() }

func (is *issuer) discover(ctx context.Context, from string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return cli.Usage(fmt.Errorf("reading --issuer: %w", err))
	}
	resp, err := is.client.Do(req)
	if err != nil {
		return is.explain(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body) // bounded by the transport
	if err != nil {
		return is.explain(err)
	}
	switch {
	case resp.StatusCode >= http.StatusInternalServerError:
		return cli.Unavailable(fmt.Errorf("the issuer %s answered %q when asked for its configuration: try again later", is.Issuer, resp.Status))
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s answered %q, and not as an OpenID Connect issuer does: is the issuer's name right (--issuer)?", from, resp.Status)
	case json.Unmarshal(raw, &is.doc) != nil:
		return cli.Unavailable(fmt.Errorf("what %s answered is not an issuer's configuration: is the issuer's name right, and is it up?", from))
	case is.doc.Issuer != is.Issuer:
		return cli.Denied(fmt.Errorf("%s says that it is the issuer %q, and was asked as %q: they must be the same to the letter; nothing was sent there",
			from, cli.Clip(is.doc.Issuer, mostQuoted), is.Issuer))
	}
	if err := is.goodEndpoint("authorization_endpoint", is.doc.Authorization); err != nil {
		return err
	}
	return is.goodEndpoint("token_endpoint", is.doc.Token)
}

// goodEndpoint refuses an endpoint that is not an https address.
func (is *issuer) goodEndpoint(name, text string) error {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return fmt.Errorf("the issuer %s has no %s", is.Issuer, name)
	case err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "":
		return fmt.Errorf("the %s of the issuer %s does not read as https://HOST/PATH; nothing was sent there", name, is.Issuer)
	}
	return nil
}

// conf is the client of the flows: a public one, which has no secret to show.
func (is *issuer) conf(redirect string) *oauth2.Config {
	scopes := is.Scopes
	if len(scopes) == 0 {
		scopes = []string{"profile", "groups"}
	}
	if !slices.Contains(scopes, "openid") {
		scopes = append([]string{"openid"}, scopes...)
	}
	return &oauth2.Config{
		ClientID: is.ClientID, RedirectURL: redirect, Scopes: scopes,
		Endpoint: oauth2.Endpoint{AuthURL: is.doc.Authorization, TokenURL: is.doc.Token, DeviceAuthURL: is.doc.Device, AuthStyle: oauth2.AuthStyleInParams},
	}
}

// with has the library ask through this issuer's client.
func (is *issuer) with(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, is.client)
}

// explain says why an issuer could not be asked, or what it refused.
func (is *issuer) explain(err error) error {
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode != "":
		return is.refusal(refused.ErrorCode, refused.ErrorDescription)
	case errors.As(err, &refused) && refused.Response != nil:
		return cli.Unavailable(fmt.Errorf("the issuer %s answered %q when asked for a token: try again later", is.Issuer, refused.Response.Status))
	case errors.Is(err, errTooMuch):
		return fmt.Errorf("the issuer %s answered with more than %d bytes, and that is no answer to a login", is.Issuer, mostIssuerAnswer)
	}
	trust := "--issuer-ca FILE"
	if is.caFile != "" {
		trust = "--issuer-ca FILE (" + is.caFile + " is not it)"
	}
	return ask.Peer{Where: "the issuer " + is.Issuer, Trust: trust, Address: "is the issuer's name right (--issuer)?"}.Explain(err)
}

// refusal is an error answer of an issuer (RFC 6749 §4.1.2.1 and §5.2, RFC 8628 §3.5).
func (is *issuer) refusal(code, description string) error {
	said := cli.ASCII(cli.Clip(code, mostQuoted))
	if description != "" {
		said += ": " + cli.OneLine(cli.Clip(description, mostQuoted))
	}
	switch code {
	case "access_denied":
		return cli.Denied(fmt.Errorf("the login was refused at the issuer %s, by you or by its rules (%s): log in again, or ask who runs it", is.Issuer, said))
	case "expired_token":
		return cli.NotYet(fmt.Errorf("nobody said yes at the issuer %s in time (%s): log in again", is.Issuer, said))
	case "server_error", "temporarily_unavailable":
		return cli.Unavailable(fmt.Errorf("the issuer %s cannot log anybody in now (%s): try again later", is.Issuer, said))
	case "invalid_client", "unauthorized_client", "unsupported_grant_type", "unsupported_response_type", "invalid_scope":
		return cli.Denied(fmt.Errorf("the issuer %s does not let the client %q log in like this (%s): ask who runs it to allow it, or say --client-id", is.Issuer, is.ClientID, said))
	}
	return cli.Denied(fmt.Errorf("the issuer %s refused the login (%s)", is.Issuer, said))
}

// errTooMuch is an answer above mostIssuerAnswer.
var errTooMuch = errors.New("the answer is too long")

// boundedTransport reads every answer whole, within a time and a length, so that nothing
// behind it can be kept waiting or filled up. A request that knows no context ends with ctx.
type boundedTransport struct {
	ctx  context.Context //nolint:containedctx // the library asks for device codes without one
	base *http.Transport
}

// RoundTrip asks once.
func (b *boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeoutCause(req.Context(), issuerWithin, fmt.Errorf("no answer came within %s", issuerWithin))
	defer cancel()
	defer context.AfterFunc(b.ctx, cancel)()
	resp, err := b.base.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, b.cause(ctx, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, mostIssuerAnswer+1))
	if err != nil {
		return nil, b.cause(ctx, err)
	}
	if len(raw) > mostIssuerAnswer {
		return nil, errTooMuch
	}
	resp.Body = io.NopCloser(bytes.NewReader(raw))
	return resp, nil
}

// cause is why a request ended: the person, the time, or the network.
func (b *boundedTransport) cause(ctx context.Context, err error) error {
	switch {
	case b.ctx.Err() != nil:
		return context.Canceled
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

// CloseIdleConnections gives connections back.
func (b *boundedTransport) CloseIdleConnections() { b.base.CloseIdleConnections() }
