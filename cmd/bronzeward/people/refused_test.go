package people

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/fixtures/gatewaypki"
	"bronzeward/fixtures/idp"
)

// nothingWritten fails when a login that was refused left anything.
func (w *loginWorld) nothingWritten(t *testing.T) {
	t.Helper()
	for _, path := range []string{w.talosconfig, w.config, w.state} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", path, err)
		}
	}
}

// What a stranger answers on loopback, or an issuer that is not the right one, is not taken.
func TestAnAnswerThatIsNotTheIssuersIsNotTaken(t *testing.T) {
	for name, row := range map[string]struct {
		back   map[string][]string
		doc    map[string]any
		claims map[string]any
		code   int
		want   string
	}{
		"a good one":             {code: cli.ExitOK, want: ""},
		"another state":          {back: map[string][]string{"state": {"st"}}, code: cli.ExitDenied, want: "its state is another"},
		"no state":               {back: map[string][]string{"state": nil}, code: cli.ExitDenied, want: "its state is another"},
		"two codes":              {back: map[string][]string{"code": {"a", "b"}}, code: cli.ExitDenied, want: "malformed"},
		"no code":                {back: map[string][]string{"code": nil}, code: cli.ExitDenied, want: "without a code"},
		"a no in another state":  {back: map[string][]string{"state": {"st"}, "error": {"access_denied"}}, code: cli.ExitDenied, want: "its state is another"},
		"another iss":            {back: map[string][]string{"iss": {"https://evil.example"}}, code: cli.ExitDenied, want: "is not from the issuer"},
		"no iss, and one is due": {doc: map[string]any{"authorization_response_iss_parameter_supported": true}, code: cli.ExitDenied, want: "is not from the issuer"},
		"no by the person":       {back: map[string][]string{"code": nil, "error": {"access_denied"}}, code: cli.ExitDenied, want: "was refused at the issuer"},
		"an issuer in trouble":   {back: map[string][]string{"code": nil, "error": {"server_error"}}, code: cli.ExitUnavailable, want: "try again later"},
		"another nonce":          {claims: map[string]any{"nonce": "other"}, code: cli.ExitDenied, want: "its nonce is not the one"},
		"no nonce":               {claims: map[string]any{"nonce": nil}, code: cli.ExitDenied, want: "its nonce is not the one"},
		"a token of another":     {claims: map[string]any{"iss": "https://evil.example"}, code: cli.ExitDenied, want: "of another issuer"},
		"for another client":     {claims: map[string]any{"aud": "else"}, code: cli.ExitDenied, want: "for another client (else)"},
		"for another gateway":    {claims: map[string]any{"aud": "else", "azp": "bronzeward"}, code: cli.ExitDenied, want: "are for else, and the gateway takes those for bronzeward"},
		"nobody":                 {claims: map[string]any{"sub": ""}, code: cli.ExitDenied, want: "names no subject"},
		"claims of other types":  {claims: map[string]any{"exp": "soon"}, code: cli.ExitDenied, want: "not JSON of the types"},
		"another issuer's name":  {doc: map[string]any{"issuer": "https://evil.example"}, code: cli.ExitDenied, want: `says that it is the issuer "https://evil.example"`},
		"a slash more":           {doc: map[string]any{"issuer": "SLASH"}, code: cli.ExitDenied, want: "the same to the letter"},
		"a token endpoint apart": {doc: map[string]any{"token_endpoint": "http://127.0.0.1:1/token"}, code: cli.ExitFailed, want: "the token_endpoint of the issuer"},
		"an address that runs":   {doc: map[string]any{"authorization_endpoint": "file:///bin/sh"}, code: cli.ExitFailed, want: "the authorization_endpoint of the issuer"},
		"an option for a flag":   {doc: map[string]any{"authorization_endpoint": "--help"}, code: cli.ExitFailed, want: "the authorization_endpoint of the issuer"},
		"no PKCE":                {doc: map[string]any{"code_challenge_methods_supported": []string{"plain"}}, code: cli.ExitFailed, want: "does not take PKCE with S256"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLoginWorld(t)
			f := newFalseIssuer(t, w)
			f.doc, f.claims = row.doc, row.claims
			if f.doc["issuer"] == "SLASH" {
				f.doc["issuer"] = f.URL + "/"
			}
			got := runAt(t.Context(), cli.Console{Browse: f.browser(t, row.back)}, "login", "--issuer-ca", f.ca)
			if got.Code != row.code || !strings.Contains(got.ErrOut, row.want) {
				t.Errorf("code %d, want %d and %q:\n%s%s", got.Code, row.code, row.want, got.Out, got.ErrOut)
			}
			if row.code != cli.ExitOK {
				w.nothingWritten(t)
				for _, r := range w.Requests() {
					if r.Path != "/login" {
						t.Errorf("the gateway was asked for %s", r.Path)
					}
				}
			}
		})
	}
}

func TestACertificateThatIsNotOnesOwnIsNotTaken(t *testing.T) {
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := gatewaypki.New(gatewaypki.Config{Name: "stranger"})
	if err != nil {
		t.Fatal(err)
	}
	edit := func(f func(*x509.Certificate)) func(*x509.Certificate) any {
		return func(c *x509.Certificate) any { f(c); return nil }
	}
	answer := func(text func(chain string) string) func(*issuedCertificate) {
		return func(i *issuedCertificate) { i.Certificate = text(i.Certificate) }
	}
	for name, row := range map[string]struct {
		signs func(*x509.Certificate) any
		gives func(*issuedCertificate)
		want  string
	}{
		"another key":   {signs: func(*x509.Certificate) any { return other.Public() }, want: "of another key than yours"},
		"somebody else": {signs: edit(func(c *x509.Certificate) { c.URIs[0] = gatewaypki.IdentityURI("https://x", "mallory", "human") }), want: "names somebody else: mallory of https://x"},
		"nobody":        {signs: edit(func(c *x509.Certificate) { c.URIs = nil }), want: "does not name one person"},
		"two people":    {signs: edit(func(c *x509.Certificate) { c.URIs = append(c.URIs, c.URIs[0]) }), want: "does not name one person"},
		"over": {signs: edit(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		}), want: "it was good until"},
		"not yet":         {signs: edit(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }), want: "is not good before"},
		"a server's":      {signs: edit(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), want: "not for a TLS client"},
		"an authority":    {signs: edit(func(c *x509.Certificate) { c.IsCA = true }), want: "not for a TLS client"},
		"none":            {gives: answer(func(string) string { return "" }), want: "there is none"},
		"something else":  {gives: answer(func(c string) string { return c + "and more" }), want: "something else than PEM certificates"},
		"a key beside it": {gives: answer(func(c string) string { return c + "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n" }), want: "something else than PEM certificates"},
		"a chain that isn't": {gives: answer(func(c string) string {
			leaf, _, _ := strings.Cut(c, "-----END CERTIFICATE-----\n")
			return leaf + "-----END CERTIFICATE-----\n" + string(stranger.CertPEM())
		}), want: "number 2 of its chain did not sign number 1"},
		"a huge one": {gives: answer(func(c string) string { return strings.Repeat(c, 1000) }), want: "more than 65536 bytes"},
		"a long one": {gives: answer(func(c string) string { return strings.Repeat(c, 5) }), want: "more than 8 certificates"},
		"broken": {gives: answer(func(string) string {
			return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}))
		}), want: "cannot be read"},
		"another's answer": {gives: func(i *issuedCertificate) { i.Identity.Subject = "mallory" }, want: "took you for somebody else"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLoginWorld(t)
			w.signs, w.gives = row.signs, row.gives
			got := w.login(t, "olga")
			if got.Code != cli.ExitDenied || !strings.Contains(got.ErrOut, row.want) || !strings.Contains(got.ErrOut, "nothing was written") {
				t.Errorf("code %d, want %d and %q:\n%s", got.Code, cli.ExitDenied, row.want, got.ErrOut)
			}
			w.nothingWritten(t)
		})
	}
}

func TestAnIssuerThatCannotBeAskedIsSaidWithWhatToDo(t *testing.T) {
	for name, row := range map[string]struct {
		edit func(t *testing.T, w *loginWorld)
		args []string
		code int
		want []string
	}{
		"another CA":      {func(_ *testing.T, w *loginWorld) { w.issuerCA = w.CA }, nil, cli.ExitUsage, []string{"the certificate of the issuer https://127.0.0.1", "signed by nobody that is trusted here", "--issuer-ca FILE"}},
		"a CA that isn't": {func(_ *testing.T, w *loginWorld) { w.issuerCA = w.Key }, nil, cli.ExitUsage, []string{"--issuer-ca", "holds no PEM certificate"}},
		"no CA file":      {func(_ *testing.T, w *loginWorld) { w.issuerCA = "/nosuch" }, nil, cli.ExitUsage, []string{"--issuer-ca", "/nosuch"}},
		"closes":          {outage(idp.OutageRefuse), nil, cli.ExitUnavailable, []string{"asking the issuer https://127.0.0.1"}},
		"in trouble":      {outage(idp.OutageError), nil, cli.ExitUnavailable, []string{`answered "503 Service Unavailable"`, "try again later"}},
		"talks nonsense":  {outage(idp.OutageGarbage), nil, cli.ExitUnavailable, []string{"is not an issuer's configuration"}},
		"gone":            {func(t *testing.T, w *loginWorld) { _ = w.idp.Close() }, nil, cli.ExitUnavailable, []string{"nothing listens at the issuer https://127.0.0.1", "--issuer"}},
		"over http":       {nil, []string{"--issuer", "http://127.0.0.1:1", "--client-id", "x"}, cli.ExitUsage, []string{"asked over TLS only (--issuer)"}},
		"not an issuer": {func(_ *testing.T, w *loginWorld) {
			w.issuerCA = w.CA
			w.offers = func(o *loginOffer) { o.Issuers[0].Issuer = w.URL }
		}, nil, cli.ExitFailed, []string{`answered "404 Not Found", and not as an OpenID Connect issuer does`}},
		"none": {func(_ *testing.T, w *loginWorld) { w.offers = func(o *loginOffer) { o.Issuers = nil } }, nil, cli.ExitUsage, []string{"names no issuer to log in at", "--client-id"}},
		"one of two": {func(_ *testing.T, w *loginWorld) {
			w.offers = func(o *loginOffer) {
				o.Issuers = append(o.Issuers, loginIssuer{Issuer: "https://b.example", ClientID: "x"})
			}
		}, nil, cli.ExitUsage, []string{"takes tokens of 2 issuers", "--issuer https://b.example"}},
		"no client": {nil, []string{"--issuer", "https://c.example"}, cli.ExitUsage, []string{"the client at the issuer https://c.example is not known"}},
		"no device flow": {func(t *testing.T, w *loginWorld) {
			f := newFalseIssuer(t, w)
			w.issuerCA = f.ca
			f.doc["device_authorization_endpoint"] = ""
		}, []string{"--device"}, cli.ExitFailed, []string{"has no device flow"}},
		"an unknown client": {nil, []string{"--device", "--client-id", "nobody"}, cli.ExitDenied, []string{`does not let the client "nobody" log in like this (invalid_client: unknown client_id)`}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLoginWorld(t)
			if row.edit != nil {
				row.edit(t, w)
			}
			got := runAt(t.Context(), cli.Console{}, append([]string{"login", "--issuer-ca", w.issuerCA}, row.args...)...)
			for _, want := range row.want {
				if got.Code != row.code || !strings.Contains(got.ErrOut, want) {
					t.Errorf("code %d, want %d and %q:\n%s", got.Code, row.code, want, got.ErrOut)
				}
			}
			w.nothingWritten(t)
		})
	}
}

func outage(o idp.Outage) func(*testing.T, *loginWorld) {
	return func(t *testing.T, w *loginWorld) {
		if err := w.idp.SetOutage(o); err != nil {
			t.Fatal(err)
		}
	}
}

// An issuer that answers without end is cut off, at each of its routes.
func TestAnEndlessAnswerIsCutOff(t *testing.T) {
	endless := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"id_token":"`))
		for chunk := bytes.Repeat([]byte("a"), 1<<16); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	w := newLoginWorld(t)
	f := newFalseIssuer(t, w)
	f.token = endless
	got := runAt(t.Context(), cli.Console{Browse: f.browser(t, nil)}, "login", "--issuer-ca", f.ca)
	if got.Code != cli.ExitFailed || !strings.Contains(got.ErrOut, "with more than 1048576 bytes") {
		t.Errorf("the token: code %d\n%s", got.Code, got.ErrOut)
	}
	f.doc["x"] = strings.Repeat("a", 2<<20)
	if got := runAt(t.Context(), cli.Console{}, "login", "--issuer-ca", f.ca); got.Code != cli.ExitFailed || !strings.Contains(got.ErrOut, "with more than 1048576 bytes") {
		t.Errorf("its configuration: code %d\n%s", got.Code, got.ErrOut)
	}
	w.nothingWritten(t)
}

// A redirect of an issuer or a gateway is not followed: the token would go along.
func TestARedirectIsNotFollowed(t *testing.T) {
	w := newLoginWorld(t)
	f := newFalseIssuer(t, w)
	f.token = func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, w.URL+"/stolen", http.StatusTemporaryRedirect)
	}
	got := runAt(t.Context(), cli.Console{Browse: f.browser(t, nil)}, "login", "--issuer-ca", f.ca)
	if got.Code != cli.ExitUnavailable || !strings.Contains(got.ErrOut, "307 Temporary Redirect") {
		t.Errorf("code %d\n%s", got.Code, got.ErrOut)
	}
	f.token = nil
	w.offers = func(o *loginOffer) { o.Issuers[0].Issuer = f.URL + "/elsewhere" }
	if got := runAt(t.Context(), cli.Console{}, "login", "--issuer-ca", f.ca); got.Code != cli.ExitFailed {
		t.Errorf("code %d\n%s", got.Code, got.ErrOut)
	}
	for _, r := range w.Requests() {
		if r.Path != "/login" {
			t.Errorf("%s was asked for", r.Path)
		}
	}
}

func TestAGatewayThatRefusesSaysWhy(t *testing.T) {
	for name, row := range map[string]struct {
		pattern string
		answer  http.HandlerFunc
		code    int
		want    []string
	}{
		"the law":     {"POST /certificates", clitest.Refuses(http.StatusForbidden, "BW-IDENTITY-001", "this identity has been revoked", ""), cli.ExitDenied, []string{"DENIED BW-IDENTITY-001: this identity has been revoked (decision " + clitest.StubDecision + ")"}},
		"the token":   {"POST /certificates", clitest.Refuses(http.StatusUnauthorized, "BW-CREDENTIAL-001", "the token is not good yet", ""), cli.ExitDenied, []string{"the token is not good yet", "you showed the token that this login got from https://127.0.0.1"}},
		"a lifetime":  {"POST /certificates", clitest.Refuses(http.StatusBadRequest, "BW-HTTP-400", "lifetime_seconds is above 28800", "ask for less"), cli.ExitUsage, []string{"lifetime_seconds is above 28800", "ask for less"}},
		"away":        {"POST /certificates", clitest.Refuses(http.StatusServiceUnavailable, "BW-VAULT-001", "OpenBao is sealed", ""), cli.ExitUnavailable, []string{"OpenBao is sealed"}},
		"no login":    {"GET /login", clitest.Refuses(http.StatusNotFound, "BW-HTTP-404", "no such path", ""), cli.ExitFailed, []string{"gives nobody a certificate (BW-HTTP-404)", "--jwt FILE"}},
		"not one":     {"GET /login", clitest.Gives(http.StatusOK, "hello"), cli.ExitFailed, []string{"reading what 127.0.0.1"}},
		"bad names":   {"GET /login", clitest.Gives(http.StatusOK, loginOffer{Clusters: []string{"a\nb"}}), cli.ExitFailed, []string{"is malformed"}},
		"bad address": {"GET /login", clitest.Gives(http.StatusOK, loginOffer{TalosEndpoints: []string{"a:b"}}), cli.ExitFailed, []string{"is malformed"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLoginWorld(t)
			w.replace(t, row.pattern, row.answer)
			got := w.login(t, "olga")
			for _, want := range row.want {
				if got.Code != row.code || !strings.Contains(got.ErrOut, want) {
					t.Errorf("code %d, want %d and %q:\n%s", got.Code, row.code, want, got.ErrOut)
				}
			}
			w.nothingWritten(t)
		})
	}
}

// replace answers one route otherwise, the others as before.
func (w *loginWorld) replace(t *testing.T, pattern string, answer http.HandlerFunc) {
	t.Helper()
	w.Mux = http.NewServeMux()
	for p, h := range map[string]http.HandlerFunc{"GET /login": w.offer, "POST /certificates": w.issue, "GET /whoami": w.whoami} {
		if p == pattern {
			h = answer
		}
		w.On(p, h)
	}
}

func TestClocksThatDisagreeAreSaid(t *testing.T) {
	w := newLoginWorld(t)
	at := func(now time.Time, next http.HandlerFunc) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Date", now.UTC().Format(http.TimeFormat))
			next(rw, r)
		}
	}
	past := time.Now().Add(-10*time.Minute - 30*time.Second) // half a minute for the test to run
	w.replace(t, "POST /certificates", at(past, clitest.Refuses(http.StatusUnauthorized, "BW-CREDENTIAL-001", "the token is not valid yet", "")))
	if got := w.login(t, "olga"); got.Code != cli.ExitDenied || !strings.Contains(got.ErrOut, "the issuer's clock is 10m ahead of the gateway's") {
		t.Errorf("code %d\n%s", got.Code, got.ErrOut)
	}
	w.replace(t, "GET /login", at(past, clitest.Gives(http.StatusOK, loginOffer{Issuers: []loginIssuer{{Issuer: w.idp.Issuer(), ClientID: "bronzeward"}}})))
	if got := w.login(t, "olga"); got.Code != cli.ExitOK || !strings.Contains(got.ErrOut, "warning: your clock is 10m ahead of the gateway's") {
		t.Errorf("code %d\n%s", got.Code, got.ErrOut)
	}
	token, err := w.idp.Token("olga", idp.With(idp.Expired))
	if err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, filepath.Join(t.TempDir(), "token"), token)
	if got := runProgram(t, "login", "--jwt", file); got.Code != cli.ExitDenied || !strings.Contains(got.ErrOut, "ended 49m ago") || strings.Contains(got.ErrOut, token) {
		t.Errorf("code %d\n%s", got.Code, got.ErrOut)
	}
}

func TestATokenWithoutGroupsIsWarnedOf(t *testing.T) {
	w := newLoginWorld(t)
	if got := w.login(t, "mallory"); got.Code != cli.ExitOK || !strings.Contains(got.ErrOut, "warning: your token names no group") || !strings.Contains(got.Out, "in no group") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
}

func TestWhatIsNoTokenIsNotWritten(t *testing.T) {
	w := newLoginWorld(t)
	for name, content := range map[string]string{"empty": "", "opaque": "s3cr3t", "two lines": "a.b.c\nd.e.f", "not base64": "a.b!.c", "huge": strings.Repeat("a", 1<<20)} {
		got := runProgram(t, "login", "--jwt", writeFile(t, filepath.Join(t.TempDir(), "token"), content))
		if got.Code != cli.ExitUsage || !strings.Contains(got.ErrOut, "is no token") || content != "" && strings.Contains(got.ErrOut, content) {
			t.Errorf("%s: code %d\n%s", name, got.Code, got.ErrOut)
		}
	}
	w.nothingWritten(t)
}

func TestALoginThatIsGivenUpEnds(t *testing.T) {
	w := newLoginWorld(t)
	for name, row := range map[string]struct {
		args []string
		code int
		want string
	}{
		"by the person":        {nil, cli.ExitFailed, "nothing was written"},
		"by the person, there": {[]string{"--device"}, cli.ExitFailed, "nothing was written"},
		"by time":              {[]string{"--timeout", "1ms"}, cli.ExitNotYet, "no browser came back"},
		"by time, there":       {[]string{"--device", "--timeout", "1ms"}, cli.ExitNotYet, "nobody entered the code"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var said strings.Builder
			code := run(ctx, append([]string{"login", "--issuer-ca", w.issuerCA}, row.args...), cli.Console{In: strings.NewReader(""), Out: &said, ErrOut: watcher{func(text string) {
				said.WriteString(text)
				if strings.HasPrefix(text, "Open this") && row.code == cli.ExitFailed {
					cancel() // as Ctrl-C does
				}
			}}})
			if code != row.code || !strings.Contains(said.String(), row.want) {
				t.Errorf("code %d, want %d and %q:\n%s", code, row.code, row.want, said.String())
			}
			w.nothingWritten(t)
		})
	}
}

// The listener answers one browser, at one address, once.
func TestTheListenerIsForOneAnswer(t *testing.T) {
	w := newLoginWorld(t)
	pages := make(chan string, 8)
	browse := func(address string) error {
		u, err := url.Parse(address)
		if err != nil {
			return err
		}
		back, err := url.Parse(u.Query().Get("redirect_uri"))
		if err != nil {
			return err
		}
		go func() {
			status := func(edit func(*http.Request)) {
				req, err := http.NewRequest("GET", back.String()+"?state=x", nil)
				if err != nil {
					t.Error(err)
					return
				}
				edit(req)
				client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				response, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				response.Body.Close()
				pages <- response.Status
			}
			status(func(r *http.Request) { r.URL.Path = "/favicon.ico" })
			status(func(r *http.Request) { r.Host = "evil.example" })
			status(func(r *http.Request) { r.Method = "POST" })
			_ = w.browserOf(t, "olga", nil)(address)
		}()
		return nil
	}
	if got := runAt(t.Context(), cli.Console{Browse: browse}, "login", "--issuer-ca", w.issuerCA); got.Code != cli.ExitOK {
		t.Fatalf("code %d\n%s", got.Code, got.ErrOut)
	}
	if got := <-pages + <-pages + <-pages; got != "404 Not Found404 Not Found405 Method Not Allowed" {
		t.Errorf("it answers %s", got)
	}
	is := &issuer{loginIssuer: loginIssuer{Issuer: "https://i.example"}}
	back, err := listen(t.Context(), "", is)
	if err != nil {
		t.Fatal(err)
	}
	defer back.close()
	good := back.uri.String() + "?code=c&state=" + back.state
	if status, page := visit(t, good); status != http.StatusOK || !strings.Contains(page, "The answer has arrived") {
		t.Errorf("the first answer: %d %s", status, page)
	}
	if status, _ := visit(t, good); status != http.StatusGone {
		t.Errorf("the second answer: %d", status)
	}
	if came := <-back.came; came.code != "c" || came.err != nil {
		t.Errorf("it came as %+v", came)
	}
	if status, page := visit(t, back.uri.String()+"?error=%3Cscript%3E&state="+back.state); status != http.StatusBadRequest || strings.Contains(page, "<script>") {
		t.Errorf("an error with a tag in it: %d %s", status, page)
	}
}
