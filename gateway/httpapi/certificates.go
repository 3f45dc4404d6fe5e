package httpapi

import (
	"net/http"
	"time"

	"bronzeward/gateway/control"
	"bronzeward/gateway/httpapi/api"
	"bronzeward/gateway/identity"
)

// leastLifetime and mostLifetime bound what may be asked for, in seconds; what is given is
// less where the configuration or the law say so.
const (
	leastLifetime = 60
	mostLifetime  = 365 * 24 * 60 * 60
)

func (d *door) issueCertificate(c *call) (answer, error) {
	var body api.NewCertificate
	if err := decode(c, &body); err != nil {
		return nil, err
	}
	key, err := identity.ReadRequest([]byte(body.Csr))
	if err != nil {
		return nil, malformed("csr: %s", err)
	}
	var lifetime time.Duration
	if asked := body.LifetimeSeconds; asked != nil {
		if *asked < leastLifetime || *asked > mostLifetime {
			return nil, malformed("lifetime_seconds is %d to %d, not %d", leastLifetime, mostLifetime, *asked)
		}
		lifetime = time.Duration(*asked) * time.Second
	}
	issued := func(i control.IssuedCertificate) answer {
		who := c.by.Caller
		return api.IssueCertificate201JSONResponse{Body: api.IssuedCertificate{
			Certificate: i.PEM, Serial: i.Serial, NotAfter: i.NotAfter.UTC(), Clusters: list(i.Clusters), Entry: i.EntryID.String(),
			Identity: api.NamedIdentity{Issuer: who.Issuer, Subject: who.Subject, Kind: api.Kind(who.Kind), Groups: list(who.Groups)},
		}}.VisitIssueCertificateResponse
	}
	once, err := once(c, issued)
	if err != nil {
		return nil, err
	}
	done, err := d.Certificates.IssueCertificate(c.ctx, c.by, key, lifetime, once)
	if err != nil {
		return c.repeated(err, c.route.act, nil)
	}
	c.entry.fallback(done.EntryID)
	return issued(done), nil
}

// Login is how people log in.
type Login struct {
	// Issuers are those whose tokens are taken of people, in the configuration's order.
	Issuers []LoginIssuer
	// TalosEndpoints are where people point talosctl, HOST:PORT.
	TalosEndpoints []string
}

// LoginIssuer is one issuer of people's tokens.
type LoginIssuer struct {
	Issuer, ClientID string
	Audience         []string
}

// loginScopes are what a login asks an issuer for: who somebody is, their name and their groups.
func loginScopes() []string { return []string{"openid", "profile", "groups"} }

// login says how people log in, which they have to know before they can prove anything. It
// names no cluster and no machine.
func (d *door) login(w http.ResponseWriter, _ *http.Request) {
	body := api.Login{Issuers: []api.LoginIssuer{}, TalosEndpoints: list(d.Login.TalosEndpoints)}
	for _, i := range d.Login.Issuers {
		body.Issuers = append(body.Issuers, api.LoginIssuer{Issuer: i.Issuer, ClientID: i.ClientID, Audience: list(i.Audience), Scopes: loginScopes()})
	}
	writeJSON(w, http.StatusOK, body)
}
