package people

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// loginOffer is how a gateway says that people log in: GET /login.
type loginOffer struct {
	Issuers []loginIssuer `json:"issuers"`
	// TalosEndpoints are where talosctl is pointed, HOST:PORT.
	TalosEndpoints []string `json:"talos_endpoints"`
	Clusters       []string `json:"clusters"`
}

// loginIssuer is an issuer whose tokens a gateway takes, and its client there.
type loginIssuer struct {
	Issuer   string   `json:"issuer"`
	ClientID string   `json:"client_id"`
	Audience []string `json:"audience"`
	Scopes   []string `json:"scopes"`
}

// newCertificate asks for a certificate: POST /certificates.
type newCertificate struct {
	CSR             string `json:"csr"`
	LifetimeSeconds int64  `json:"lifetime_seconds,omitempty"`
}

// issuedCertificate is the answer.
type issuedCertificate struct {
	Certificate string        `json:"certificate"` // PEM, leaf first
	Serial      string        `json:"serial"`
	NotAfter    time.Time     `json:"not_after"`
	Identity    loginIdentity `json:"identity"`
	Entry       string        `json:"entry"`
	Clusters    []string      `json:"clusters"`
}

// loginIdentity is who somebody is to the gateway.
type loginIdentity struct {
	Issuer  string   `json:"issuer"`
	Subject string   `json:"subject"`
	Kind    string   `json:"kind"`
	Groups  []string `json:"groups"`
}

// noOfferError is a gateway that people do not log in at.
type noOfferError struct{ error }

// mostOffered bounds each list of an offer.
const mostOffered = 1000

// offerOf asks a gateway how to log in. What it names goes into files and addresses, so each
// name must be one.
func offerOf(ctx context.Context, s *ask.Asker) (loginOffer, ask.Answer, error) {
	o, said, err := ask.Request[loginOffer](ctx, s, http.MethodGet, "/login", nil)
	var p *ask.ProblemError
	if errors.As(err, &p) && (p.Status == http.StatusNotFound || p.Status == http.StatusUnauthorized) {
		return o, said, noOfferError{fmt.Errorf("%s gives nobody a certificate (%s): it may be older than this program, or set up without a CA for people; a token is taken all the same, with --jwt FILE", s.Settings.Server, p.Code)}
	}
	if err != nil {
		return o, said, err
	}
	odd := len(o.Issuers) > mostOffered || len(o.TalosEndpoints) > mostOffered || len(o.Clusters) > mostOffered
	for _, is := range o.Issuers {
		odd = odd || !isName(is.Issuer) || is.ClientID != "" && !isName(is.ClientID) || slices.ContainsFunc(is.Scopes, func(v string) bool { return !isName(v) || strings.Contains(v, " ") })
	}
	odd = odd || slices.ContainsFunc(o.Clusters, func(v string) bool { return !isName(v) })
	odd = odd || slices.ContainsFunc(o.TalosEndpoints, func(v string) bool { return !isEndpoint(v) })
	if odd {
		return o, said, fmt.Errorf("%s says how to log in, and what it says is malformed; nothing was done", s.Settings.Server)
	}
	return o, said, nil
}

// isName is true for a word that may stand in a file: not empty, not long, printable.
func isName(text string) bool {
	return text != "" && len(text) <= 1024 && strings.TrimSpace(text) == text && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// isEndpoint is true for HOST or HOST:PORT.
func isEndpoint(text string) bool {
	host, port := text, "50000"
	if strings.Contains(text, ":") && net.ParseIP(text) == nil {
		var err error
		if host, port, err = net.SplitHostPort(text); err != nil {
			return false
		}
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number > 0 && isName(host) && !strings.ContainsAny(host, " /@#?\\\"'")
}

// issuerOf picks the issuer to log in at: the one named, or the only one.
func (l *Login) issuerOf(o loginOffer, server string) (loginIssuer, error) {
	var fit []loginIssuer
	for _, is := range o.Issuers {
		if l.ClientID != "" {
			is.ClientID = l.ClientID
		}
		if l.Issuer == is.Issuer || l.Issuer == "" && is.ClientID != "" {
			fit = append(fit, is)
		}
	}
	switch {
	case len(fit) == 0 && l.Issuer != "": // one that the gateway does not name; it judges the token all the same
		fit = []loginIssuer{{Issuer: l.Issuer, ClientID: l.ClientID}}
	case len(fit) == 0:
		return loginIssuer{}, cli.Usage(fmt.Errorf("%s names no issuer to log in at: say --issuer URL and --client-id ID, or ask who runs it", server))
	case len(fit) > 1:
		var names []string
		for _, is := range fit {
			names = append(names, "--issuer "+cli.ShellWord(is.Issuer))
		}
		return loginIssuer{}, cli.Usage(fmt.Errorf("%s takes tokens of %d issuers: say which is yours\n  %s", server, len(fit), strings.Join(names, "\n  ")))
	}
	if fit[0].ClientID == "" {
		return loginIssuer{}, cli.Usage(fmt.Errorf("the client at the issuer %s is not known: say --client-id ID, or ask who runs %s", fit[0].Issuer, server))
	}
	return fit[0], nil
}

// endpointsOf are where talosctl is pointed: as named, as offered, or at the gateway's host.
func (l *Login) endpointsOf(o loginOffer, server string) ([]string, error) {
	for _, one := range l.Endpoint {
		if !isEndpoint(one) {
			return nil, cli.Usage(fmt.Errorf("--endpoint %q is not HOST or HOST:PORT", one))
		}
	}
	switch {
	case len(l.Endpoint) > 0:
		return l.Endpoint, nil
	case len(o.TalosEndpoints) > 0:
		return o.TalosEndpoints, nil
	}
	u, err := url.Parse(server)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("reading --server: %w", err))
	}
	return []string{net.JoinHostPort(u.Hostname(), "50000")}, nil
}

// contextsOf are the contexts to write, without a credential: one for each cluster of the
// gateway, or for the one named.
func (l *Login) contextsOf(clusters, endpoints []string, ca []byte) ([]talosContext, error) {
	if l.Cluster != "" {
		if len(clusters) > 0 && !slices.Contains(clusters, l.Cluster) {
			return nil, cli.Usage(fmt.Errorf("the gateway has no cluster %q; it has %s", l.Cluster, strings.Join(clusters, ", ")))
		}
		clusters = []string{l.Cluster}
	}
	if l.Context != "" && len(clusters) > 1 {
		return nil, cli.Usage(fmt.Errorf("--context names one context, and the gateway has %d clusters (%s): say --cluster NAME too", len(clusters), strings.Join(clusters, ", ")))
	}
	if len(clusters) == 0 {
		clusters = []string{""}
	}
	var out []talosContext
	for _, cluster := range clusters {
		name := cluster
		switch {
		case l.Context != "":
			name = l.Context
		case cluster == "":
			name = "bronzeward"
		}
		if !isName(name) {
			return nil, cli.Usage(fmt.Errorf("--context %q is not a name", name))
		}
		if !slices.ContainsFunc(out, func(c talosContext) bool { return c.name == name }) {
			out = append(out, talosContext{name: name, cluster: cluster, endpoints: endpoints, ca: ca})
		}
	}
	return out, nil
}

// identityOf is a caller as a login shows them.
func identityOf(c api.Caller) loginIdentity {
	return loginIdentity{Issuer: c.Issuer, Subject: c.Subject, Kind: string(c.Kind), Groups: c.Groups}
}
