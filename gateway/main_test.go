package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
	"bronzeward/fixtures/gatewaypki"
	"bronzeward/fixtures/idp"
	"bronzeward/fixtures/openbao/baotest"
	"bronzeward/fixtures/oracle"
	"bronzeward/fixtures/postgres/pgtest"
	"bronzeward/fixtures/talospki"
	"bronzeward/gateway/control"
	"bronzeward/gateway/facts"
	"bronzeward/gateway/upstream"
	"bronzeward/policy"
)

var shared17 pgtest.Shared

func TestMain(m *testing.M) {
	shared17.Config.Settings = map[string]string{"max_connections": "300"}
	code := shared17.Main(baotest.Around(m))
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// built is the folder of the product's binary; empty when no test asked for it.
var built string

// product is the binary, built once for all tests that run it as processes of its own.
var product = sync.OnceValues(func() (bin string, err error) {
	if built, err = os.MkdirTemp("", "bronzeward-gateway-test-"); err != nil {
		return "", err
	}
	bin = filepath.Join(built, "bronzeward")
	if out, err := exec.Command("go", "build", "-o", bin, "bronzeward/cmd/bronzeward").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the product: %w\n%s", err, out)
	}
	return bin, nil
})

const (
	asGateway = "gw_gateway"
	issuer    = "https://people.test"
	cluster   = "lab"
)

// migrated is the template of all databases here: both schemas, the gateway's login, and
// the shipped law with a quorum of none, live.
var migrated = pgtest.Template{Name: "gateway_room", Prepare: func(ctx context.Context, dsn string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := control.Migrate(ctx, conn, nil); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "create role "+asGateway+" login in role bronzeward_gateway"); err != nil {
		return err
	}
	law, err := shippedLaw()
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "insert into control.bundles (revision, content, entry_id) values ($1, $2, gen_random_uuid())",
		law.bundle.Revision(), law.bundle.Bytes()); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "update control.live_bundle set revision = $1, counter = 1", law.bundle.Revision())
	return err
}}

// law is a bundle with an engine that has it; engines of one law are shared by all tests
// that do not activate another.
type law struct {
	bundle *policy.Bundle
	engine *policy.Engine
}

func newLaw(files ...policy.File) (law, error) {
	shipped, err := policy.Shipped()
	if err != nil {
		return law{}, err
	}
	data := policy.File{Path: "bronzeward/data.yaml", Body: []byte(`
role_bindings:
  ` + idp.GroupOperators + `: [operator]
  ` + idp.GroupApprovers + `: [approver]
  ` + idp.GroupViewers + `: [viewer]
  ` + idp.GroupAuditors + `: [auditor]
  ` + idp.GroupRecovery + `: [recovery-admin]
  ` + idp.GroupPolicyAdmins + `: [policy-admin]
  ` + idp.GroupAutomation + `: [operator]
  secret-readers: [secret-reader]
permissions:
  secret-reader: {classes: [read, config-read, apply], methods: [], see_secrets: true}
quorum: {required: 0}
`)}
	bundle, err := policy.OverlayFiles(shipped, append([]policy.File{data}, files...)...)
	if err != nil {
		return law{}, err
	}
	l := law{bundle: bundle, engine: policy.New(policy.EngineConfig{Budget: 20 * time.Second})}
	return l, l.engine.Use(context.Background(), bundle)
}

var (
	shippedLaw = sync.OnceValues(func() (law, error) { return newLaw() })
	// openLaw allows whatever it is asked, as a careless or hostile one would.
	openLaw = sync.OnceValues(func() (law, error) {
		return newLaw(admission(`"allow": true, "approvals": {"required": 0, "groups": [], "self_approval": false}`))
	})
	// openLawThatRedacts is openLaw for people who may not see secrets.
	openLawThatRedacts = sync.OnceValues(func() (law, error) {
		l := admission(`"allow": true, "approvals": {"required": 0, "groups": [], "self_approval": false}`)
		l.Body = []byte(strings.Replace(string(l.Body), `"redact": false`, `"redact": true`, 1))
		return newLaw(l)
	})
	// quorumLaw allows everything too, once two people have approved.
	quorumLaw = sync.OnceValues(func() (law, error) {
		return newLaw(admission(`"allow": true, "approvals": {"required": 2, "groups": ["` + idp.GroupApprovers + `"], "self_approval": false}`))
	})
)

// admission is a law of one line in the place of the shipped one.
func admission(fields string) policy.File {
	return policy.File{Path: "bronzeward/admission/decision.rego", Body: []byte(strings.ReplaceAll(`package bronzeward.admission

# METADATA
# title: decision
# entrypoint: true
decision := {"reasons": [], "upstream_roles": ["os:admin"], "redact": false, FIELDS}
`, "FIELDS", fields))}
}

// pki are the authorities and credentials that all tests share.
type pki struct {
	talos  talospki.Pair
	people *gatewaypki.Authority
	server *gatewaypki.Authority
	own    tls.Certificate

	mu      sync.Mutex // guards persons
	persons map[string]tls.Certificate
}

var keys = sync.OnceValues(func() (*pki, error) {
	p := &pki{persons: map[string]tls.Certificate{}}
	var err error
	if p.talos, err = talospki.NewCA(time.Now()); err != nil {
		return nil, err
	}
	if p.people, err = gatewaypki.New(gatewaypki.Config{Name: "people"}); err != nil {
		return nil, err
	}
	if p.server, err = gatewaypki.New(gatewaypki.Config{Name: "gateway"}); err != nil {
		return nil, err
	}
	pair, err := p.server.Server("127.0.0.1", "localhost")
	if err != nil {
		return nil, err
	}
	p.own, err = pair.TLS()
	return p, err
})

// sharedPKI gives the authorities of this package.
func sharedPKI(t testing.TB) *pki {
	t.Helper()
	return must(keys())(t)
}

// person is a client certificate; the groups are those of the fixtures' people.
func (p *pki) person(t testing.TB, subject string) tls.Certificate {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok := p.persons[subject]; ok {
		return c
	}
	who, err := idp.Find(subject)
	if err != nil {
		who = idp.Person{Subject: subject, Kind: "human", Groups: []string{"secret-readers"}}
	}
	pair := must(p.people.Person(gatewaypki.Person{Issuer: issuer, Subject: subject, Kind: who.Kind, Groups: who.Groups}))(t)
	p.persons[subject] = must(pair.TLS())(t)
	return p.persons[subject]
}

// credential is the gateway's os:impersonator certificate, from memory.
type credential struct{ one upstream.Credential }

func (c credential) Clusters() []string { return []string{""} }

func (c credential) Credential(context.Context, string) (upstream.Credential, error) {
	return c.one, nil
}

func (p *pki) upstream(t testing.TB) credential {
	t.Helper()
	client := must(talospki.Client(p.talos, time.Now(), "os:impersonator"))(t)
	return credential{one: upstream.Credential{Certificate: must(client.TLS())(t), CAs: []*x509.Certificate{must(p.talos.Leaf())(t)}}}
}

var digests = sync.OnceValues(func() (*facts.KeyRing, error) {
	return facts.NewKeyRing("k1", map[string][]byte{"k1": []byte(strings.Repeat("k", 32))})
})

// must fails the test when an error came.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually asks until the answer is yes; the deadline only ends a broken test.
func eventually(t testing.TB, what string, yes func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if yes() {
			return
		}
		time.Sleep(3 * time.Millisecond)
	}
	t.Fatalf("waiting for %s: it did not come", what)
}

// admin is who prepares what a test needs; the law is not asked.
func admin(name string) control.Act {
	return control.Act{Entry: func(control.Stamp) audit.Entry {
		return audit.Entry{Kind: audit.KindSystem, Verdict: audit.Allowed, Method: name}
	}}
}

// labelled is the base configuration with one node label more, which may be applied
// without a reboot; each value is another configuration.
func labelled(value string) []byte {
	return []byte(strings.Replace(string(oracle.Base()), "machine:\n", "machine:\n    nodeLabels:\n        test.bronzeward/value: "+value+"\n", 1))
}
