package people

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
	"bronzeward/fixtures/gatewaypki"
	"bronzeward/fixtures/idp"
	"bronzeward/gateway/httpapi/api"
)

// loginWorld is a gateway to log in at, an issuer, and a person's empty home.
type loginWorld struct {
	*clitest.Stub
	idp *idp.Server
	// issuerCA vouches for the issuer; talosconfig, config and state are the person's.
	issuerCA, talosconfig, config, state string

	mu sync.Mutex // guards what follows
	// offers and gives change what the gateway answers: how to log in, the certificate before it
	// is signed, and the answer.
	offers func(*loginOffer)
	signs  func(*x509.Certificate) (key any)
	gives  func(*issuedCertificate)
	// skew is how much longer than it says a token is taken.
	skew time.Duration
}

func newLoginWorld(t *testing.T) *loginWorld {
	t.Helper()
	w := &loginWorld{Stub: clitest.NewStub(t)}
	t.Setenv("BRONZEWARD_CERTIFICATE", "")
	t.Setenv("BRONZEWARD_KEY", "")
	home := t.TempDir()
	w.config, w.state, w.talosconfig = filepath.Join(home, "config"), filepath.Join(home, "state"), filepath.Join(home, "talos", "config")
	t.Setenv("XDG_CONFIG_HOME", w.config)
	t.Setenv("XDG_STATE_HOME", w.state)
	t.Setenv("TALOS_HOME", filepath.Dir(w.talosconfig))
	var err error
	if w.idp, err = idp.Start(idp.Config{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.idp.Close(); err != nil {
			t.Error(err)
		}
	})
	w.issuerCA = writeFile(t, filepath.Join(home, "issuer-ca.crt"), string(w.idp.CAPEM()))
	w.On("GET /login", w.offer)
	w.On("POST /certificates", w.issue)
	w.On("GET /whoami", w.whoami)
	return w
}

// writeFile makes a file and its folder.
func writeFile(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func onTime(w http.ResponseWriter) { w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat)) }

func (w *loginWorld) offer(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := loginOffer{
		Issuers:        []loginIssuer{{Issuer: w.idp.Issuer(), ClientID: "bronzeward", Audience: []string{"bronzeward"}, Scopes: []string{"openid", "profile", "groups"}}},
		TalosEndpoints: []string{"gate.example:50000"}, Clusters: []string{"lab"},
	}
	if w.offers != nil {
		w.offers(&o)
	}
	onTime(rw)
	clitest.Gives(http.StatusOK, o)(rw, r)
}

// issue signs a certificate for the request's key, named as its token says.
func (w *loginWorld) issue(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var body newCertificate
	err := json.NewDecoder(r.Body).Decode(&body)
	block, _ := pem.Decode([]byte(body.CSR))
	if err != nil || block == nil || r.Header.Get("Content-Type") != "application/json" {
		clitest.Refuses(http.StatusBadRequest, "BW-HTTP-400", "not a request for a certificate", "")(rw, r)
		return
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || csr.CheckSignature() != nil {
		clitest.Refuses(http.StatusBadRequest, "BW-HTTP-400", "the request is not signed by its key", "")(rw, r)
		return
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	said, groups, err := readClaims(token)
	if err != nil {
		clitest.Refuses(http.StatusUnauthorized, "BW-CREDENTIAL-001", "the token is not taken", "")(rw, r)
		return
	}
	life := 8 * time.Hour
	if body.LifetimeSeconds > 0 {
		life = time.Duration(body.LifetimeSeconds) * time.Second
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(0x5eed), Subject: pkix.Name{CommonName: said.subject}, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
		URIs: []*url.URL{gatewaypki.IdentityURI(said.issuer, said.subject, "human")},
	}
	key := csr.PublicKey
	if w.signs != nil {
		if other := w.signs(template); other != nil {
			key = other
		}
	}
	answer := issuedCertificate{
		Certificate: w.sign(template, key), Serial: "5eed", NotAfter: template.NotAfter, Entry: clitest.StubDecision,
		Identity: loginIdentity{Issuer: said.issuer, Subject: said.subject, Kind: "human", Groups: groups},
	}
	if w.gives != nil {
		w.gives(&answer)
	}
	onTime(rw)
	clitest.Gives(http.StatusCreated, answer)(rw, r)
}

// sign gives the chain of a certificate, PEM.
func (w *loginWorld) sign(template *x509.Certificate, key any) string {
	pair, err := w.People.Pair()
	if err != nil {
		panic(err)
	}
	authority, err := pair.TLS()
	if err != nil {
		panic(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, w.People.Cert(), key, authority.PrivateKey)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})) + string(w.People.CertPEM())
}

// whoami says who the token or the certificate is of.
func (w *loginWorld) whoami(rw http.ResponseWriter, r *http.Request) {
	onTime(rw)
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if said, groups, err := readClaims(token); err == nil {
		clitest.Gives(http.StatusOK, api.Caller{Issuer: said.issuer, Subject: said.subject, Kind: "human", Groups: groups, Proof: "token", ProofEnds: said.ends.Add(w.skew)})(rw, r)
		return
	}
	seen := w.Requests()
	if who := seen[len(seen)-1].Who; who != "" {
		clitest.Gives(http.StatusOK, api.Caller{Issuer: w.idp.Issuer(), Subject: who, Kind: "human", Groups: []string{}, Proof: "certificate"})(rw, r)
		return
	}
	clitest.Refuses(http.StatusUnauthorized, "BW-CREDENTIAL-001", "no credential", "")(rw, r)
}

// readClaims is what a gateway would read in a token; its signature is not what is tested.
func readClaims(token string) (claims, []string, error) {
	said, err := claimsOf(token)
	if err != nil {
		return said, nil, err
	}
	payload, _ := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	var more struct{ Groups []string }
	err = json.Unmarshal(payload, &more)
	return said, more.Groups, err
}

// browserOf is a browser in which this person says who they are, and edit may lead astray
// where it is sent back to.
func (w *loginWorld) browserOf(t *testing.T, person string, edit func(back *url.URL)) func(string) error {
	client := w.idp.Client()
	return func(address string) error {
		go func() {
			u, err := url.Parse(address)
			if err != nil {
				t.Error(err)
				return
			}
			query := u.Query()
			query.Set("login_hint", person)
			u.RawQuery = query.Encode()
			response, err := client.Get(u.String())
			if err != nil {
				t.Error(err)
				return
			}
			response.Body.Close()
			back, err := response.Location()
			if err != nil {
				t.Errorf("the issuer answers %d and no redirect", response.StatusCode)
				return
			}
			if edit != nil {
				edit(back)
			}
			visit(t, back.String())
		}()
		return nil
	}
}

// visit asks for a page and gives its status and text.
func visit(t *testing.T, address string) (int, string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(address)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

// login runs login with a browser of this person's.
func (w *loginWorld) login(t *testing.T, person string, args ...string) clitest.Ran {
	t.Helper()
	return runAt(t.Context(), cli.Console{Browse: w.browserOf(t, person, nil)}, append([]string{"login", "--issuer-ca", w.issuerCA}, args...)...)
}

// falseIssuer is an issuer that says what a test wants it to: nothing of it is signed, as
// nothing of it would be by a thief.
type falseIssuer struct {
	*httptest.Server
	ca string
	// doc and claims are laid over what a good one says; token replaces its whole answer.
	doc, claims map[string]any
	token       http.HandlerFunc
	nonce       string
}

func newFalseIssuer(t *testing.T, w *loginWorld) *falseIssuer {
	t.Helper()
	f := &falseIssuer{doc: map[string]any{}, claims: map[string]any{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(rw http.ResponseWriter, r *http.Request) {
		doc := map[string]any{
			"issuer": f.URL, "authorization_endpoint": f.URL + "/authorize", "token_endpoint": f.URL + "/token",
			"device_authorization_endpoint": f.URL + "/device",
		}
		maps.Copy(doc, f.doc)
		clitest.Gives(http.StatusOK, doc)(rw, r)
	})
	mux.HandleFunc("/token", func(rw http.ResponseWriter, r *http.Request) {
		if f.token != nil {
			f.token(rw, r)
			return
		}
		clitest.Gives(http.StatusOK, map[string]any{"token_type": "Bearer", "access_token": "opaque", "id_token": f.mint()})(rw, r)
	})
	mux.HandleFunc("/device", func(rw http.ResponseWriter, r *http.Request) {
		clitest.Gives(http.StatusOK, map[string]any{
			"device_code": "d", "user_code": "ABCD-EFGH", "verification_uri": f.URL + "/device", "expires_in": 300, "interval": 1,
		})(rw, r)
	})
	f.Server = httptest.NewUnstartedServer(mux)
	f.Config.ErrorLog = log.New(io.Discard, "", 0)
	authority, err := gatewaypki.New(gatewaypki.Config{Name: "false issuer"})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Server("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	served, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	f.TLS = &tls.Config{Certificates: []tls.Certificate{served}, MinVersion: tls.VersionTLS12}
	f.StartTLS()
	t.Cleanup(f.Close)
	f.ca = writeFile(t, filepath.Join(t.TempDir(), "ca.crt"), string(authority.CertPEM()))
	w.offers = func(o *loginOffer) { o.Issuers[0].Issuer = f.URL }
	return f
}

// mint makes a token that nobody signed.
func (f *falseIssuer) mint() string {
	said := map[string]any{
		"iss": f.URL, "sub": "olga", "aud": "bronzeward", "nonce": f.nonce, "groups": []string{"talos-operators"},
		"iat": time.Now().Unix(), "exp": time.Now().Add(10 * time.Minute).Unix(),
	}
	maps.Copy(said, f.claims)
	payload, _ := json.Marshal(said)
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(payload) + ".c2ln"
}

// browser comes back at once, with these parameters over the right ones.
func (f *falseIssuer) browser(t *testing.T, over map[string][]string) func(string) error {
	return func(address string) error {
		u, err := url.Parse(address)
		if err != nil {
			return err
		}
		f.nonce = u.Query().Get("nonce")
		back := url.Values{"state": {u.Query().Get("state")}, "code": {"c0de"}}
		for name, values := range over {
			back[name] = values
			if values == nil {
				delete(back, name)
			}
		}
		go visit(t, u.Query().Get("redirect_uri")+"?"+back.Encode())
		return nil
	}
}
