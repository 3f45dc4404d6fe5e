// Package people is what people do about themselves and others: log in and out, ask who they are to
// the gateway, and revoke somebody for good.
package people

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/ownfile"
	"bronzeward/gateway/httpapi/api"
)

// Login gets a person a credential and writes it to where talosctl and this program look
// for one.
type Login struct {
	ask.ServerFlags

	Device      bool   `xor:"way" help:"Log in with a browser on another computer: a code is shown to enter there."`
	JWT         string `xor:"way" name:"jwt" placeholder:"FILE|-" help:"Use a token you have, from a file or standard input; BRONZEWARD_TOKEN holds one too. No certificate is asked for."`
	NoBrowser   bool   `help:"Open no browser; the address to open is printed in any case."`
	Issuer      string `placeholder:"URL" help:"The issuer to log in at; default the gateway's."`
	ClientID    string `name:"client-id" placeholder:"ID" help:"The client at the issuer; default the gateway's."`
	IssuerCA    string `name:"issuer-ca" env:"BRONZEWARD_ISSUER_CA" placeholder:"FILE" help:"CA certificates that vouch for the issuer; default those of the last login there, or the system's."`
	RedirectURI string `name:"redirect-uri" placeholder:"URI" help:"Where the browser comes back, for issuers that must know it: http://127.0.0.1[:PORT]/PATH; default a port and path nobody can guess."`

	Lifetime time.Duration `placeholder:"DURATION" help:"How long the certificate is to be good, such as 4h; default and most the gateway's."`
	Timeout  time.Duration `default:"10m" help:"How long to wait for you in the browser."`

	Talosconfig string   `env:"TALOSCONFIG" placeholder:"FILE" help:"The talosconfig to write into; default ~/.talos/config."`
	Context     string   `placeholder:"NAME" help:"The context to write; default the cluster's name."`
	Cluster     string   `placeholder:"NAME" help:"Only this cluster of the gateway's; default all, a context each."`
	Endpoint    []string `placeholder:"HOST:PORT" help:"Where talosctl is pointed; default what the gateway says."`
	SetCurrent  bool     `help:"Make this the current context and gateway, whatever they are now."`
	Overwrite   bool     `help:"Replace a context of the same name that no login wrote."`
}

// loginRun is one login.
type loginRun struct {
	*Login
	*cli.Globals
	asker       *ask.Asker
	file        ask.File
	offer       loginOffer
	contexts    []talosContext
	endpoints   []string // of every context
	ca          []byte   // of every context; empty for the system's
	talosconfig string
	folder      loginFolder
	// now is the gateway's clock.
	now time.Time
}

// loginCredential is what a login got: a certificate and its key, or a token.
type loginCredential struct {
	identity loginIdentity
	until    time.Time
	// certificate and key, PEM.
	certificate, key []byte
	serial, entry    string
	// issuer is where the person logged in; empty with a token of theirs.
	issuer string
	// token, and the file of the person's it was read from; empty when there is none that stays.
	token, tokenFile string
}

func (l *Login) Run(ctx context.Context, g *cli.Globals) error {
	r, err := l.prepare(ctx, g)
	if err != nil {
		return err
	}
	defer r.asker.Client.CloseIdleConnections()
	r.clockWarning()
	var got loginCredential
	if source := l.tokenSource(); source != "" {
		got, err = r.takeToken(ctx, source)
	} else {
		got, err = r.takeCertificate(ctx)
	}
	if err != nil {
		return err
	}
	return r.write(ctx, got)
}

// tokenSource says where a token is that the person has: a file, - for standard input, or
// tokenVariable. Empty when one must be got.
func (l *Login) tokenSource() string {
	switch {
	case l.JWT != "":
		return l.JWT
	case !l.Device && strings.TrimSpace(os.Getenv(tokenVariable)) != "":
		return tokenVariable
	}
	return ""
}

// tokenVariable holds a token.
const tokenVariable = "BRONZEWARD_TOKEN"

// prepare asks the gateway how people log in, and looks at the files that will be written:
// what is in the way is said before anybody goes to a browser. Nothing is written.
func (l *Login) prepare(ctx context.Context, g *cli.Globals) (*loginRun, error) {
	file, path, err := ask.ReadFile()
	if err != nil {
		return nil, err
	}
	if err := l.checkTimes(); err != nil {
		return nil, err
	}
	settings := ask.Settings{Server: cmp.Or(l.Server, file.Server), ServerCA: cmp.Or(l.ServerCA, file.ServerCA), File: path, Made: "no credential"}
	if settings.Server == "" {
		return nil, cli.Usage(fmt.Errorf("no gateway is named: give --server https://HOST:PORT, set BRONZEWARD_SERVER, or write `server: https://HOST:PORT` into %s", cmp.Or(path, "client.yaml")))
	}
	if settings.Server, err = ask.ServerURL(settings.Server); err != nil {
		return nil, cli.Usage(err)
	}
	var ca []byte
	if settings.ServerCA != "" {
		if settings.ServerCA, err = filepath.Abs(settings.ServerCA); err != nil {
			return nil, cli.Usage(fmt.Errorf("reading the gateway's CA (--server-ca): %w", err))
		}
		if ca, err = os.ReadFile(settings.ServerCA); err != nil {
			return nil, cli.Usage(fmt.Errorf("reading the gateway's CA (--server-ca): %w", err))
		}
	}
	r := &loginRun{Login: l, Globals: g, file: file}
	if r.folder, err = loginFolderOf(settings.Server); err != nil {
		return nil, err
	}
	if r.talosconfig, err = talosconfigPath(l.Talosconfig); err != nil {
		return nil, err
	}
	if r.asker, err = ask.New(settings, g); err != nil {
		return nil, err
	}
	offer, said, err := offerOf(ctx, r.asker)
	var none noOfferError
	if err != nil && (l.tokenSource() == "" || !errors.As(err, &none)) {
		return nil, err
	}
	r.offer, r.now = offer, said.Now
	r.ca = ca
	if r.endpoints, err = l.endpointsOf(offer, settings.Server); err != nil {
		return nil, err
	}
	return r, r.aim(offer.Clusters)
}

// The lifetimes that a gateway takes, whatever it grants then.
const (
	leastLifetime = time.Minute
	mostLifetime  = 365 * 24 * time.Hour
)

// checkTimes looks at the times asked for before anybody goes to a browser.
func (l *Login) checkTimes() error {
	var problems []error
	switch {
	case l.Lifetime == 0:
	case l.Lifetime < leastLifetime, l.Lifetime > mostLifetime:
		problems = append(problems, fmt.Errorf("--lifetime %s: a certificate is good for %s at least and %s at most", l.Lifetime, cli.Span(leastLifetime), cli.Span(mostLifetime)))
	case l.Lifetime%time.Second != 0:
		problems = append(problems, fmt.Errorf("--lifetime %s: it is in whole seconds", l.Lifetime))
	}
	if l.Timeout <= 0 {
		problems = append(problems, fmt.Errorf("--timeout %s: it is above zero", l.Timeout))
	}
	if err := errors.Join(problems...); err != nil {
		return cli.Usage(err)
	}
	return nil
}

// aim says which contexts will be written, and looks whether something is in their way.
func (r *loginRun) aim(clusters []string) (err error) {
	if slices.ContainsFunc(clusters, func(name string) bool { return !isName(name) }) {
		return fmt.Errorf("%s names a cluster by what is no name; nothing was written", r.asker.Settings.Server)
	}
	if r.contexts, err = r.contextsOf(clusters, r.endpoints, r.ca); err != nil {
		return err
	}
	return r.inTheWay()
}

// inTheWay looks at the files without writing.
func (r *loginRun) inTheWay() error {
	old, err := ownfile.Read(r.talosconfig)
	if err != nil {
		return err
	}
	if _, _, err := mergeTalosconfig(old, r.contexts, r.SetCurrent, r.Overwrite); err != nil {
		return cli.Usage(fmt.Errorf("%s: %w", r.talosconfig, err))
	}
	path := r.asker.Settings.File
	if path == "" {
		return nil
	}
	if old, err = ownfile.Read(path); err != nil {
		return err
	}
	if _, err := readYAMLFile(old); err != nil {
		return cli.Usage(fmt.Errorf("%s: %w", path, err))
	}
	return nil
}

// clockWarning tells a person whose clock is wrong, because what else fails by it does not.
func (r *loginRun) clockWarning() {
	behind := time.Until(r.now)
	way := "behind"
	if behind < 0 {
		behind, way = -behind, "ahead of"
	}
	if behind > mostSkew {
		fmt.Fprintf(r.ErrOut, "warning: your clock is %s %s the gateway's; times below are the gateway's\n", cli.Span(behind), way)
	}
}

// takeCertificate has the person log in at an issuer, and the gateway sign a certificate for
// a key made here.
func (r *loginRun) takeCertificate(ctx context.Context) (loginCredential, error) {
	from, err := r.issuerOf(r.offer, r.asker.Settings.Server)
	if err != nil {
		return loginCredential{}, err
	}
	if r.IssuerCA == "" { // as the last login at this issuer
		if before := r.folder.readRecord(); before.Issuer == from.Issuer {
			r.IssuerCA = before.IssuerCA
		}
	}
	is, err := openIssuer(ctx, from, r.IssuerCA)
	if err != nil {
		return loginCredential{}, err
	}
	defer is.close()
	token, said, err := r.atIssuer(ctx, is)
	if err != nil {
		return loginCredential{}, err
	}
	key, keyPEM, csr, err := newKey()
	if err != nil {
		return loginCredential{}, err
	}
	got, answered, err := ask.Request[issuedCertificate](ctx, r.asker.Showing(token, "the token that this login got from "+is.Issuer), "POST", "/certificates",
		newCertificate{CSR: string(csr), LifetimeSeconds: int64(r.Lifetime / time.Second)})
	if err != nil {
		return loginCredential{}, said.clockHint(err, answered.Now)
	}
	// Which clusters there are is told to people who may look at them, and so not before.
	if len(got.Clusters) > 0 {
		if err := r.aim(got.Clusters); err != nil {
			return loginCredential{}, err
		}
	}
	chain, err := checkChain([]byte(got.Certificate), key.Public(), certificatePerson{said.issuer, said.subject}, answered.Now)
	if err != nil {
		return loginCredential{}, cli.Denied(fmt.Errorf("what %s gave as your certificate is not taken: %w; nothing was written", r.asker.Settings.Server, err))
	}
	if got.Identity.Issuer != said.issuer || got.Identity.Subject != said.subject {
		return loginCredential{}, cli.Denied(fmt.Errorf("%s took you for somebody else than your token names; nothing was written", r.asker.Settings.Server))
	}
	if len(got.Identity.Groups) == 0 {
		fmt.Fprintf(r.ErrOut, "warning: your token names no group, so the law gives you no role: ask who runs %s to put your groups into it\n", is.Issuer)
	}
	if less := r.Lifetime - chain[0].NotAfter.Sub(answered.Now); r.Lifetime > 0 && less > mostSkew {
		fmt.Fprintf(r.ErrOut, "warning: you asked for a certificate for %s, and the gateway gives one for %s\n", r.Lifetime, cli.Span((r.Lifetime - less).Round(time.Minute)))
	}
	return loginCredential{
		issuer: is.Issuer, identity: got.Identity, until: chain[0].NotAfter, certificate: encodeChain(chain), key: keyPEM,
		serial: fmt.Sprintf("%x", chain[0].SerialNumber), entry: got.Entry,
	}, nil
}

// atIssuer gets a token, and says what is in it.
func (r *loginRun) atIssuer(ctx context.Context, is *issuer) (string, claims, error) {
	if r.Device {
		got, err := r.byDevice(ctx, r.Globals, is)
		if err != nil {
			return "", claims{}, err
		}
		return is.tokenOf(got, "")
	}
	got, nonce, err := r.byCode(ctx, r.Globals, is)
	if err != nil {
		return "", claims{}, err
	}
	return is.tokenOf(got, nonce)
}

// takeToken uses a token that the person has, once the gateway has taken it.
func (r *loginRun) takeToken(ctx context.Context, source string) (loginCredential, error) {
	if r.Lifetime != 0 {
		return loginCredential{}, cli.Usage(errors.New("--lifetime is for a certificate, and a token has its own"))
	}
	token, said, file, err := r.readToken(source)
	if err != nil {
		return loginCredential{}, err
	}
	if !said.ends.IsZero() && !r.now.Before(said.ends) {
		return loginCredential{}, cli.Denied(fmt.Errorf("the token in %s ended %s ago, at %s: get a new one from %s", source, cli.Span(r.now.Sub(said.ends)), cli.Stamp(&said.ends), cli.ASCII(cli.Clip(said.issuer, mostQuoted))))
	}
	me, answered, err := ask.Request[api.Caller](ctx, r.asker.Showing(token, "the token in "+source), "GET", "/whoami", nil)
	if err != nil {
		return loginCredential{}, said.clockHint(err, answered.Now)
	}
	if len(me.Groups) == 0 {
		fmt.Fprintf(r.ErrOut, "warning: your token names no group, so the law gives you no role: ask who runs %s to put your groups into it\n", cli.ASCII(cli.Clip(me.Issuer, mostQuoted)))
	}
	until := said.ends
	if until.IsZero() || !me.ProofEnds.IsZero() && me.ProofEnds.Before(until) {
		until = me.ProofEnds
	}
	return loginCredential{identity: identityOf(me), until: until, token: token, tokenFile: file}, nil
}
