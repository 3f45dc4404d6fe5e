package upstream

import (
	"errors"
	"strings"
	"testing"
	"time"

	"bronzeward/fixtures/talospki"
)

// stale is an error as a source makes it.
type stale struct{ class, say string }

func (s stale) Error() string       { return "secret cause" }
func (s stale) ReasonClass() string { return s.class }
func (s stale) ForCaller() string   { return s.say }

func TestWhyThereIsNoCredentialIsTold(t *testing.T) {
	p := newPKI(t)
	n := startNode(t, p)
	ended, err := pairWith(t, p.ca, talospki.ClientSpec{
		Roles: []string{RoleImpersonator}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
	}).TLS()
	must(t, err)

	of := func(version int64) *held {
		c := credentialOf(t, p, version)
		c.Certificate = ended

		return &held{by: map[string]Credential{"lab": c}}
	}

	for _, row := range []struct {
		name   string
		source *held
		class  Class
		reason string
		says   string
	}{
		{
			"none for this cluster", &held{by: map[string]Credential{"other": credentialOf(t, p, 1)}}, ClassNoCredential, ReasonNone,
			"there is no Talos credential of cluster lab; put a good one in: bronzeward openbao put-credential --cluster lab",
		},
		{"none, in the source's words", &held{err: stale{ReasonNone, "cluster lab has none"}}, ClassNoCredential, ReasonNone, "cluster lab has none"},
		{
			"an ended one of OpenBao", of(4), ClassCredential, ReasonExpired,
			"the Talos credential of cluster lab cannot be used: its certificate has ended; put a good one in: bronzeward openbao put-credential --cluster lab",
		},
		{
			"an ended one of files", of(0), ClassCredential, ReasonExpired,
			"the Talos credential of cluster lab cannot be used: its certificate has ended; put a good one into the files of talos.certificate, talos.key and talos.ca",
		},
		{"too old to be trusted", &held{err: stale{"sealed", "last confirmed 2h ago; OpenBao is sealed"}}, ClassCredential, "sealed", "last confirmed 2h ago; OpenBao is sealed"},
		{
			"a class without words", &held{err: stale{"sealed", ""}}, ClassCredential, "sealed",
			"the Talos credential of cluster lab cannot be had now (sealed); the gateway's log says why",
		},
		{
			"any other error", &held{err: errors.New("secret cause")}, ClassCredential, "",
			"the Talos credential of cluster lab cannot be had now; the gateway's log says why",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			pool := poolOf(t, row.source)
			target := n.target()
			target.Cluster = "lab"
			target.Addresses = append(target.Addresses, loopback(9, n.addr.Port()))

			_, _, err := pool.Reach(ctxFor(t), target)
			_, err2 := pool.Conn(ctxFor(t), target)

			// All addresses would say the same: it is said once.
			if got := strings.Count(err.Error(), "Talos credential of cluster lab"); got != 1 {
				t.Errorf("said %d times: %v", got, err)
			}

			for _, err := range []error{err, err2} {
				var caller interface{ ForCaller() string }
				if !errors.As(err, &caller) || caller.ForCaller() != row.says || strings.Contains(caller.ForCaller(), "secret") {
					t.Errorf("callers are told %q", caller.ForCaller())
				}

				if ClassOf(err) != row.class || reasonOf(err) != row.reason || !OurCredential(err) {
					t.Errorf("class %q, reason %q: %v", ClassOf(err), reasonOf(err), err)
				}
			}

			if row.source.err != nil && !strings.Contains(err.Error(), "secret cause") {
				t.Errorf("the log is not told the cause: %v", err)
			}
		})
	}

	if n.accepted.Load() != 0 {
		t.Error("the node was dialled")
	}
}
