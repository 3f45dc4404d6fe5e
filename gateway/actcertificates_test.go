package gateway

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/faults"
	"bronzeward/fixtures/idp"
	"bronzeward/gateway/control"
	"bronzeward/gateway/identity"
	"bronzeward/policy"
)

// authority is a certificate authority of this process: it signs, and is trusted by whom it is the source for.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer

	mu     sync.Mutex // guards all below
	fails  error
	signed []*x509.Certificate
	// before is called before anything is signed; change makes the authority sign something else.
	before func()
	change func(*x509.Certificate)
}

func newIssuer(t testing.TB) *authority {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "people of the test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	return &authority{cert: must(x509.ParseCertificate(der))(t), key: key}
}

func (a *authority) People() []*x509.Certificate    { return []*x509.Certificate{a.cert} }
func (a *authority) Forbidden() []*x509.Certificate { return nil }

func (a *authority) Issue(_ context.Context, template *x509.Certificate, key crypto.PublicKey) ([][]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.before != nil {
		a.before()
	}
	a.signed = append(a.signed, template)
	if a.fails != nil {
		return nil, a.fails
	}
	made := *template
	if a.change != nil {
		a.change(&made)
	}
	der, err := x509.CreateCertificate(rand.Reader, &made, a.cert, key, a.key)
	return [][]byte{der, a.cert.Raw}, err
}

// issuing is a house whose people get certificates of the authority.
func issuing(t testing.TB, change func(*setup)) (*house, *authority) {
	t.Helper()
	ca := newIssuer(t)
	return newHouse(t, func(s *setup) {
		s.identity = func(c *identity.Config) { c.Authorities = ca }
		if change != nil {
			change(s)
		}
	}), ca
}

func (h *house) issues(ca *authority) *Acts {
	a := h.acts()
	a.Issuer = ca
	return a
}

// token is a person as the HTTP door proves them by a token.
func (h *house) token(t testing.TB, subject string) Actor {
	t.Helper()
	by := h.actor(t, subject)
	by.Caller.Proof, by.Caller.Name = identity.ProofToken, must(idp.Find(subject))(t).Name
	return by
}

func personKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

// credentialOf is what a person makes of an answer.
func credentialOf(t testing.TB, issued control.IssuedCertificate, key crypto.Signer) tls.Certificate {
	t.Helper()
	out := tls.Certificate{PrivateKey: key}
	for block, rest := pem.Decode([]byte(issued.PEM)); block != nil; block, rest = pem.Decode(rest) {
		out.Certificate = append(out.Certificate, block.Bytes)
	}
	return out
}

func TestAnIssuedCertificateIsThePersonUntilTheyAreRevoked(t *testing.T) {
	h, ca := issuing(t, nil)
	ctx, key := context.Background(), personKey(t)
	issued := must(h.issues(ca).IssueCertificate(ctx, h.token(t, "olga"), key.Public(), time.Hour, nil))(t)
	credential := credentialOf(t, issued, key)
	call := func() answer {
		return h.with(t, &tls.Config{Certificates: []tls.Certificate{credential}}).call(ctx, methodVersion, to("w1"), nil)
	}
	if a := call(); a.code() != codes.OK {
		t.Fatalf("with the certificate: %v", a.err)
	}
	if got := h.texts(t, "select distinct caller_subject || ' ' || caller_kind || ' ' || proof from audit.entries where kind = 'rpc'"); len(got) != 1 || got[0] != "olga human certificate" {
		t.Errorf("the calls are of %q", got)
	}
	entries := h.texts(t, "select verdict || ' ' || (convert_from(record, 'utf8')::json->>'detail') from audit.entries where method = 'certificates.issue' and id::text = $1", issued.EntryID.String())
	leaf := must(x509.ParseCertificate(credential.Certificate[0]))(t)
	for _, part := range []string{"allow serial " + issued.Serial + ", key ", ", not after " + leaf.NotAfter.UTC().Format(time.RFC3339)} {
		if len(entries) != 1 || !strings.Contains(entries[0], part) {
			t.Errorf("the entry is %q, want %q in it", entries, part)
		}
	}
	if leaf.Subject.String() != "CN=Olga Operator" || leaf.SerialNumber.Text(16) != issued.Serial || !leaf.NotAfter.Equal(issued.NotAfter) {
		t.Errorf("%s, serial %x, ends %v; told %s, %v", leaf.Subject, leaf.SerialNumber, leaf.NotAfter, issued.Serial, issued.NotAfter)
	}
	if strings.Join(issued.Clusters, " ") != cluster {
		t.Errorf("clusters %q", issued.Clusters)
	}
	must(h.store.RevokeIdentity(ctx, policy.Person{Issuer: issuer, Subject: "olga"}, "left", admin("identities.revoke")))(t)
	if a := call(); a.code() == codes.OK {
		t.Error("the certificate of somebody revoked is taken")
	}
	_, err := h.issues(ca).IssueCertificate(ctx, h.token(t, "olga"), key.Public(), time.Hour, nil)
	wantDenied(t, err, "BW-ACT-001")
	if len(ca.signed) != 1 {
		t.Errorf("%d certificates were signed", len(ca.signed))
	}
}

// wantDenied fails the test unless the law denied with this code, and an entry says so.
func wantDenied(t testing.TB, err error, code string) {
	t.Helper()
	var denied *DeniedAct
	if !errors.As(err, &denied) || denied.Decision.Codes()[0] != code || denied.Receipt.ID.String() == (control.ChangeID{}).String() {
		t.Errorf("got %v, want a denial %s", err, code)
	}
}

func TestACertificateLastsAsLongAsAllAgree(t *testing.T) {
	hours := func(text string) policy.File {
		return policy.File{Path: "bronzeward/api/data.yaml", Body: []byte("certificates: {hours: " + text + "}\n")}
	}
	var (
		h   *house
		ca  *authority
		was string
	)
	for i, row := range []struct {
		name       string
		law        string
		configured time.Duration
		asked      time.Duration
		want       time.Duration
	}{
		{"nothing said", "", 0, 0, 8 * time.Hour},
		{"less asked", "", 0, time.Hour, time.Hour},
		{"more asked", "", 0, 24 * time.Hour, 8 * time.Hour},
		{"less configured", "", 2 * time.Hour, 3 * time.Hour, 2 * time.Hour},
		{"more configured than the law grants", "", 12 * time.Hour, 0, 8 * time.Hour},
		{"the law grants more", "24", 12 * time.Hour, 0, 12 * time.Hour},
		{"more configured than there is", "24", 48 * time.Hour, 48 * time.Hour, 24 * time.Hour},
		{"the law grants less", "1", 12 * time.Hour, 0, time.Hour},
	} {
		if i == 0 || row.law != was {
			h, ca = issuing(t, func(s *setup) {
				s.workers = 0
				if row.law != "" {
					s.law = sync.OnceValues(func() (law, error) { return newLaw(hours(row.law)) })
				}
			})
			was = row.law
		}
		t.Run(row.name, func(t *testing.T) {
			a := h.issues(ca)
			a.CertificateLifetime = row.configured
			before := must(h.store.Refresh(context.Background(), 0))(t).Now()
			issued := must(a.IssueCertificate(context.Background(), h.token(t, "vera"), personKey(t).Public(), row.asked, nil))(t)
			after := must(h.store.Refresh(context.Background(), 0))(t).Now()
			if issued.NotAfter.Before(before.Add(row.want-2*time.Second)) || issued.NotAfter.After(after.Add(row.want+time.Second)) {
				t.Errorf("ends %v, asked between %v and %v, want %v", issued.NotAfter, before, after, row.want)
			}
		})
	}
}

// carelessAct allows every act and says what the test wants besides.
func carelessAct(besides string) func() (law, error) {
	return sync.OnceValues(func() (law, error) {
		return newLaw(policy.File{Path: "bronzeward/api/decision.rego", Body: []byte(`package bronzeward.api

# METADATA
# title: decision
# entrypoint: true
decision := {"allow": true, "reasons": [], "approvals": {"required": 0, "groups": [], "self_approval": false}` + besides + `}
`)})
	})
}

// Who gets no certificate, and nothing is signed for. The first row of each law is its control.
func TestWhoGetsNoCertificate(t *testing.T) {
	certificate := func(by *Actor) { by.Caller.Proof = identity.ProofCertificate }
	both := func(by *Actor) { by.Caller.Proof = identity.ProofBoth }
	old := func(by *Actor) { by.Caller.Proof, by.Caller.CertificateGroups = identity.ProofBoth, true }
	nothing := func(by *Actor) { by.Caller.Proof = "" }
	careless := carelessAct(`, "certificate_hours": 8`)
	var (
		h  *house
		ca *authority
	)
	for _, row := range []struct {
		name, who string
		law       func() (law, error) // null is that of the row before
		change    func(*Actor)
		code      string // empty gets one
	}{
		{"a token", "vera", shippedLaw, nil, ""},
		{"both", "vera", nil, both, ""},
		{"automation", "bot-ci", nil, nil, ""},
		{"a certificate alone", "vera", nil, certificate, "BW-ACT-009"},
		{"both, with the certificate's groups", "vera", nil, old, "BW-INVARIANT-020"},
		{"nobody in any group", "mallory", nil, nil, "BW-ACT-003"},
		{"a proof that has ended", "vera", nil, func(by *Actor) { by.Caller.ProofEnds = time.Now().Add(-time.Hour) }, "BW-ACT-005"},
		{"whoever, under a careless law", "mallory", careless, nil, ""},
		{"a certificate alone, under a careless law", "vera", nil, certificate, "BW-INVARIANT-020"},
		{"groups of a certificate, under a careless law", "vera", nil, old, "BW-INVARIANT-020"},
		{"no proof, under a careless law", "vera", nil, nothing, "BW-INVARIANT-020"},
		{"no hours, under a careless law", "vera", carelessAct(""), nil, policy.CodeMalformed},
		{"hours that are none, under a careless law", "vera", carelessAct(`, "certificate_hours": 25`), nil, policy.CodeMalformed},
	} {
		if row.law != nil {
			h, ca = issuing(t, func(s *setup) { s.workers, s.law = 0, row.law })
		}
		t.Run(row.name, func(t *testing.T) {
			by, signed, said := h.token(t, row.who), len(ca.signed), "select count(*) from audit.entries where method = 'certificates.issue' and verdict = 'deny' and codes[1] = $1"
			if row.change != nil {
				row.change(&by)
			}
			before := h.count(t, said, row.code)
			issued, err := h.issues(ca).IssueCertificate(context.Background(), by, personKey(t).Public(), 0, nil)
			if row.code == "" {
				if err != nil || issued.PEM == "" || len(ca.signed) != signed+1 {
					t.Errorf("got %v, %d signed", err, len(ca.signed)-signed)
				}
				return
			}
			wantDenied(t, err, row.code)
			if issued.PEM != "" || len(ca.signed) != signed {
				t.Errorf("%d certificates were signed, given %q", len(ca.signed)-signed, issued.PEM)
			}
			if n := h.count(t, said, row.code) - before; n != 1 {
				t.Errorf("%d entries say why", n)
			}
		})
	}
}

// awayError is like what OpenBao's room says.
type awayError struct{ class, text string }

func (e awayError) Error() string       { return e.text }
func (e awayError) ReasonClass() string { return e.class }

func TestWhenSigningFailsNothingIsGivenAndAnEntrySaysWhy(t *testing.T) {
	h, ca := issuing(t, func(s *setup) { s.workers = 0 })
	for _, row := range []struct {
		name  string
		fails error
		sign  func(*x509.Certificate)
		want  string
		never string
		// passing is true when the caller is asked to try again.
		passing bool
	}{
		{name: "sealed", passing: true, fails: awayError{"sealed", "OpenBao is sealed"}, want: "and none was given: OpenBao is sealed (sealed)"},
		{name: "as OpenBao's room says it", passing: true, fails: errAway, want: "and none was given: OpenBao is sealed (sealed)"},
		{name: "a class inside", fails: errors.Join(errors.New("x"), awayError{"key_missing", "key bronzeward-ca\nis gone"}), want: "key bronzeward-ca is gone (key_missing)"},
		{name: "no class", fails: errors.New("s3cret"), want: "the gateway's log says why", never: "s3cret"},
		{name: "too slow", passing: true, fails: context.DeadlineExceeded, want: "(slow)"},
		{name: "somebody else is named", sign: func(c *x509.Certificate) { c.URIs = c.URIs[:1] }, want: "the gateway's log says why"},
		{name: "an authority is made", sign: func(c *x509.Certificate) { c.IsCA = true }, want: "the gateway's log says why"},
	} {
		t.Run(row.name, func(t *testing.T) {
			ca.fails, ca.change = row.fails, row.sign
			issued, err := h.issues(ca).IssueCertificate(context.Background(), h.token(t, "vera"), personKey(t).Public(), 0, nil)
			var refused *refusedError
			hint := "trying again does not help: tell who runs "
			if row.passing {
				hint = "try again"
			}
			if !errors.As(err, &refused) || refused.status != codes.Unavailable || len(refused.hints) != 1 || !strings.HasPrefix(refused.hints[0], hint) || refused.code != "BW-CERTIFICATE-002" || !strings.Contains(refused.message, row.want) || issued.PEM != "" {
				t.Fatalf("got %v, %q", err, issued.PEM)
			}
			if row.never != "" && strings.Contains(refused.Error(), row.never) {
				t.Errorf("%s shows the cause", refused)
			}
			got := h.texts(t, "select verdict || ' ' || convert_from(record, 'utf8') from audit.entries where method = 'certificates.issue' and id::text = $1", refused.entry.ID.String())
			if len(got) != 1 || !strings.HasPrefix(got[0], "refuse ") || !strings.Contains(got[0], row.want) || !strings.Contains(got[0], "serial ") || row.never != "" && strings.Contains(got[0], row.never) {
				t.Errorf("the entry is %q", got)
			}
			if n := h.count(t, "select count(*) from audit.entries where method = 'certificates.issue' and verdict = 'allow'"); n != 0 {
				t.Errorf("%d entries say that one was issued", n)
			}
		})
	}
}

func TestWithoutAnAuthorityTheRefusalSaysSo(t *testing.T) {
	h := newHouse(t, func(s *setup) { s.workers = 0 })
	_, err := h.acts().IssueCertificate(context.Background(), h.token(t, "vera"), personKey(t).Public(), 0, nil)
	var refused *refusedError
	if !errors.As(err, &refused) || refused.status != codes.Unimplemented || !strings.Contains(refused.message, "no authority for people's certificates is configured (openbao)") {
		t.Errorf("got %v", err)
	}
}

// What happens between signing and the transaction counts: the certificate that was signed is given to nobody. The first row is the
// control.
func TestWhatMovesWhileACertificateIsSignedCounts(t *testing.T) {
	oneHour := policy.File{Path: "bronzeward/api/data.yaml", Body: []byte("certificates: {hours: 1}\n")}
	for _, row := range []struct {
		name    string
		moves   func(*testing.T, *house)
		asked   time.Duration
		denied  string // empty gets one
		away    bool
		proxied bool
	}{
		{name: "nothing"},
		{name: "the caller is revoked", denied: "BW-ACT-001", moves: func(t *testing.T, h *house) {
			must(h.store.RevokeIdentity(context.Background(), policy.Person{Issuer: issuer, Subject: "vera"}, "left", admin("identities.revoke")))(t)
		}},
		{name: "the law grants less", denied: policy.CodeNoPolicy, moves: func(t *testing.T, h *house) {
			h.activate(t, must(newLaw(oneHour))(t).bundle)
		}},
		{name: "the law grants less, and that was asked for", asked: time.Hour, moves: func(t *testing.T, h *house) {
			h.activate(t, must(newLaw(oneHour))(t).bundle)
		}},
		{name: "its entry is not committed", away: true, moves: func(_ *testing.T, h *house) { h.proxy.Order(faults.CutRequest, "audit.entries") }},
		{name: "its entry is committed, and the answer is lost", proxied: true, moves: func(_ *testing.T, h *house) { h.proxy.Order(faults.CutReply, "audit.entries") }},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h, ca := issuing(t, func(s *setup) { s.workers, s.ownEngine, s.proxied = 0, true, row.away || row.proxied })
			ca.before = func() {
				if n := h.count(t, "select count(*) from pg_stat_activity where datname = current_database() and usename = $1 and state like 'idle in transaction%'", asGateway); n != 0 {
					t.Errorf("%d transactions are open while something is asked over the network", n)
				}
				if row.moves != nil {
					row.moves(t, h)
				}
			}
			issued, err := h.issues(ca).IssueCertificate(context.Background(), h.token(t, "vera"), personKey(t).Public(), row.asked, nil)
			if len(ca.signed) != 1 {
				t.Fatalf("%d certificates were signed, so this test shows nothing (%v)", len(ca.signed), err)
			}
			given := h.count(t, "select count(*) from audit.entries where method = 'certificates.issue' and verdict = 'allow'")
			if (given == 1) != (issued.PEM != "") {
				t.Errorf("given %q, and %d entries say so", issued.PEM, given)
			}
			switch {
			case row.denied == "" && !row.away:
				if err != nil || issued.PEM == "" {
					t.Errorf("got %v", err)
				}
			case issued.PEM != "" || err == nil:
				t.Errorf("given %q, %v", issued.PEM, err)
			case row.denied != "":
				wantDenied(t, err, row.denied)
			}
		})
	}
}

// Control: without the judgement of what was signed, one for eight hours is given under a law that grants one.
func TestControlWithoutJudgingWhatWasSigned(t *testing.T) {
	h, ca := issuing(t, func(s *setup) { s.workers, s.ownEngine = 0, true })
	ctx, a := context.Background(), h.issues(ca)
	i := &issuance{Acts: a, by: h.token(t, "vera"), key: personKey(t).Public(), subject: "serial 7"}
	ok(t, i.sign(ctx, big.NewInt(7)))
	h.activate(t, must(newLaw(policy.File{Path: "bronzeward/api/data.yaml", Body: []byte("certificates: {hours: 1}\n")}))(t).bundle)
	for _, guarded := range []bool{true, false} {
		more := besides{entry: i.note}
		if guarded {
			more.judge = i.judge
		}
		act, said, err := a.actBesides(ctx, i.by, ActCertificates, i.subject, "", more)
		ok(t, err)
		_, err = a.Store.Attest(ctx, act, func(uuid.UUID) (any, error) { return nil, nil })
		if err = a.denied(ctx, err, said); (err == nil) == guarded {
			t.Errorf("guarded %t: %v", guarded, err)
		}
	}
	if i.lifetime != 8*time.Hour {
		t.Errorf("signed for %v", i.lifetime)
	}
}

func TestACertificateIsIssuedOnceForAKey(t *testing.T) {
	h, ca := issuing(t, func(s *setup) { s.workers = 0 })
	ctx, key := context.Background(), personKey(t)
	once := func(body string) *control.Once {
		o := &control.Once{Key: "k-1", Route: "POST /certificates", Body: body, SameBody: func(kept string) bool { return kept == body }}
		o.Answer = func() (int, []byte, error) {
			done, is := o.Result.(control.IssuedCertificate)
			if !is {
				return 0, nil, errors.New("no certificate to keep")
			}
			return 201, []byte(done.PEM), nil
		}
		return o
	}
	first := must(h.issues(ca).IssueCertificate(ctx, h.token(t, "vera"), key.Public(), 0, once("a")))(t)
	_, err := h.issues(ca).IssueCertificate(ctx, h.token(t, "vera"), key.Public(), 0, once("a"))
	var before *control.ReplayedError
	if !errors.As(err, &before) || string(before.Body) != first.PEM || before.Receipt.ID == first.EntryID {
		t.Errorf("again: %v", err)
	}
	if _, err = h.issues(ca).IssueCertificate(ctx, h.token(t, "vera"), key.Public(), 0, once("b")); !errors.Is(err, control.ErrKeyReused) {
		t.Errorf("with another body: %v", err)
	}
	if len(ca.signed) != 1 {
		t.Errorf("%d certificates were signed", len(ca.signed))
	}
	// Who was revoked meanwhile is not given what was kept.
	must(h.store.RevokeIdentity(ctx, policy.Person{Issuer: issuer, Subject: "vera"}, "left", admin("identities.revoke")))(t)
	_, err = h.issues(ca).IssueCertificate(ctx, h.token(t, "vera"), key.Public(), 0, once("a"))
	wantDenied(t, err, "BW-ACT-001")
}
