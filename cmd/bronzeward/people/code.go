package people

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"html"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"golang.org/x/oauth2"

	"bronzeward/cmd/bronzeward/cli"
)

// byCode logs in by authorization code with PKCE (RFC 6749 §4.1, RFC 7636, RFC 8252): the
// person's browser goes to the issuer and comes back to a listener on loopback. nonce is what
// the ID token must hold.
func (l *Login) byCode(ctx context.Context, g *cli.Globals, is *issuer) (token *oauth2.Token, nonce string, err error) {
	if len(is.doc.Challenges) > 0 && !slices.Contains(is.doc.Challenges, "S256") {
		return nil, "", fmt.Errorf("the issuer %s does not take PKCE with S256, and without it whoever sees the code could take the login: ask who runs it", is.Issuer)
	}
	back, err := listen(ctx, l.RedirectURI, is)
	if err != nil {
		return nil, "", err
	}
	defer back.close()
	nonce = rand.Text()
	verifier, conf := oauth2.GenerateVerifier(), is.conf(back.uri.String())
	address := conf.AuthCodeURL(back.state, oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("nonce", nonce))

	opened := false
	if !l.NoBrowser && g.Browse != nil {
		opened = g.Browse(address) == nil
	}
	if opened {
		fmt.Fprintf(g.ErrOut, "A browser was opened for you to log in at %s. If none came, open this address:\n\n    %s\n\n", is.Issuer, address)
	} else {
		fmt.Fprintf(g.ErrOut, "Open this address in a browser on this computer:\n\n    %s\n\nFor a browser on another one: bronzeward login --device\n\n", address)
	}
	defer g.NewProgress().Begin("waiting for your browser")()
	bounded, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	select {
	case <-ctx.Done():
		return nil, "", interrupted(ctx)
	case <-bounded.Done():
		if ctx.Err() != nil {
			return nil, "", interrupted(ctx)
		}
		return nil, "", cli.NotYet(fmt.Errorf("no browser came back from %s within %s: log in again, with --timeout for longer, or with --device from another computer", is.Issuer, l.Timeout))
	case came := <-back.came:
		if came.err != nil {
			return nil, "", came.err
		}
		token, err = conf.Exchange(is.with(ctx), came.code, oauth2.VerifierOption(verifier))
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, "", interrupted(ctx)
		}
		return nil, "", is.explain(err)
	}
	return token, nonce, nil
}

// interrupted ends a login that its person ended.
func interrupted(ctx context.Context) error {
	return fmt.Errorf("nothing was written: %w", context.Cause(ctx))
}

// callback listens on loopback for one answer of a browser.
type callback struct {
	uri    *url.URL
	state  string
	is     *issuer
	server *http.Server
	served chan struct{}
	// came holds the one answer that counts, the first.
	came chan callbackAnswer
}

// callbackAnswer is a code, or why there is none.
type callbackAnswer struct {
	code string
	err  error
}

// listen opens the listener. Without a redirect address of one's own it is at a port and
// under a path that nobody can guess, so that only who was told the address can answer.
func listen(ctx context.Context, redirect string, is *issuer) (*callback, error) {
	address := &url.URL{Scheme: "http", Host: "127.0.0.1", Path: "/" + rand.Text()}
	if redirect != "" {
		var err error
		if address, err = url.Parse(redirect); err != nil || address.Scheme != "http" || !onLoopback(address.Hostname()) || address.User != nil || address.RawQuery != "" || address.Fragment != "" {
			return nil, cli.Usage(errors.New("--redirect-uri does not read as http://127.0.0.1:PORT/PATH: the browser must come back to this computer; the port may be left out"))
		}
	}
	host, port := address.Hostname(), address.Port()
	if port == "" {
		port = "0"
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("listening for your browser: %w; --device needs no listener", err)
	}
	_, port, _ = net.SplitHostPort(listener.Addr().String())
	address.Host = net.JoinHostPort(address.Hostname(), port)
	if address.Path == "" {
		address.Path = "/"
	}
	back := &callback{uri: address, state: rand.Text(), is: is, served: make(chan struct{}), came: make(chan callbackAnswer, 1)}
	back.server = &http.Server{
		Handler: back, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10,
		ErrorLog: log.New(io.Discard, "", 0),
	}
	back.server.SetKeepAlivesEnabled(false)
	go func() {
		defer close(back.served)
		_ = back.server.Serve(listener) // ends by close
	}()
	return back, nil
}

func onLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// close lets an answer that is being written be read, and ends the listener.
func (b *callback) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if b.server.Shutdown(ctx) != nil {
		_ = b.server.Close()
	}
	<-b.served
}

// ServeHTTP takes the one answer. The Host must be the listener's own: a page of somebody
// else's name that leads here is not obeyed.
func (b *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Host != b.uri.Host || r.URL.Path != b.uri.Path {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
		return
	}
	answer := b.read(r.URL.RawQuery)
	status, words := http.StatusOK, "The answer has arrived. Go on in the terminal; this page may be closed."
	if answer.err != nil {
		status, words = http.StatusBadRequest, "Not logged in: "+answer.err.Error()
	}
	select {
	case b.came <- answer:
	default:
		status, words = http.StatusGone, "This login has had its answer already; this page may be closed."
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer") // the address of this page holds the code
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<!doctype html><title>Bronzeward</title><p>"+html.EscapeString(words)+"</p>\n")
}

// read takes an answer apart (RFC 6749 §4.1.2, RFC 9207 §2.4). The state comes first: an
// answer to another question is not looked at, whatever it says.
func (b *callback) read(query string) callbackAnswer {
	values, err := url.ParseQuery(query)
	once := func(name string) string {
		if len(values[name]) > 1 {
			err = errors.New(name + " came twice")
		}
		return values.Get(name)
	}
	state, code, said, from := once("state"), once("code"), once("error"), once("iss")
	switch {
	case err != nil:
		return callbackAnswer{err: cli.Denied(errors.New("what the browser brought back is malformed; nothing was taken: log in again"))}
	case subtle.ConstantTimeCompare([]byte(state), []byte(b.state)) != 1:
		return callbackAnswer{err: cli.Denied(errors.New("what the browser brought back is not the answer to this login (its state is another): somebody may be trying to log you in as somebody else; nothing was taken: log in again"))}
	case from != "" && from != b.is.Issuer || from == "" && b.is.doc.SaysIssuer:
		return callbackAnswer{err: cli.Denied(fmt.Errorf("what the browser brought back is not from the issuer %s; nothing was taken: log in again", b.is.Issuer))}
	case said != "":
		return callbackAnswer{err: b.is.refusal(said, values.Get("error_description"))}
	case code == "":
		return callbackAnswer{err: cli.Denied(fmt.Errorf("the issuer %s sent the browser back without a code: log in again", b.is.Issuer))}
	}
	return callbackAnswer{code: code}
}
