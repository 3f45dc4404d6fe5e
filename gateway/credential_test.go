package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/upstream"
)

// credentialStore is what holds credentials, as OpenBao's consumer sees it: a version per cluster, or why there is none.
type credentialStore struct {
	mu  sync.Mutex
	by  map[string]upstream.Credential // guarded by mu
	err error                          // guarded by mu; of every cluster
}

func (c *credentialStore) Credential(_ context.Context, cluster string) (upstream.Credential, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return upstream.Credential{}, c.err
	}
	one, held := c.by[cluster]
	if !held {
		return upstream.Credential{}, &upstream.CredentialError{Reason: upstream.ReasonNone}
	}
	return one, nil
}

func (c *credentialStore) Clusters() (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.by {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// put puts a fresh certificate in as that version.
func (c *credentialStore) put(t testing.TB, name string, version int64) {
	t.Helper()
	one := sharedPKI(t).upstream(t).one
	one.Version = version
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[name] = one
}

func (c *credentialStore) fails(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// withCredentials is a house whose credential comes from a store, as version 1.
func withCredentials(t testing.TB, change func(*setup)) (*house, *credentialStore) {
	t.Helper()
	c := &credentialStore{by: map[string]upstream.Credential{}}
	c.put(t, cluster, 1)
	return newHouse(t, func(s *setup) {
		s.upstream = func(u *upstream.Config) { u.Credential = c }
		if change != nil {
			change(s)
		}
	}), c
}

// sealedAway is what a store says that has not been confirmed for too long.
type sealedAway struct{}

const sealedSentence = "the Talos credential of cluster lab was last confirmed 2h ago, longer than openbao.credential_max_age; OpenBao is sealed"

func (sealedAway) Error() string       { return "GET https://bao.test: 503 secret-cause" }
func (sealedAway) ReasonClass() string { return "sealed" }
func (sealedAway) ForCaller() string   { return sealedSentence }

// Without a credential that may be used nothing is sent, in whichever way it was asked; it is no
// policy's verdict; the caller is told the store's sentence, the log the cause, and it is in the
// book. Control: with the credential back, the same calls pass.
func TestWithoutACredentialNothingIsSentAndEveryWaySaysWhy(t *testing.T) {
	t.Parallel()
	const reboot = "/machine.MachineService/Reboot"
	for _, row := range []struct {
		name        string
		err         error
		code, class string
		says        string
	}{
		{"not confirmed for too long", sealedAway{}, "BW-UPSTREAM-003", "credential", sealedSentence},
		{"an error without words", errors.New("secret-cause"), "BW-UPSTREAM-003", "credential", "the Talos credential of cluster lab cannot be had now; the gateway's log says why"},
		{
			"none for the cluster", &upstream.CredentialError{Reason: upstream.ReasonNone, Err: errors.New("secret-cause")}, "BW-UPSTREAM-004", "no-talos-credential",
			"there is no Talos credential of cluster lab; put a good one in: bronzeward openbao put-credential --cluster lab",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h, source := withCredentials(t, func(s *setup) { s.workers, s.law = 2, openLaw })
			olga := h.as(t, "olga")
			ways := []struct {
				name    string
				verdict string
				ask     func() answer
			}{
				{"an apply", "refuse", func() answer { return olga.apply(t, "w1", noReboot(t, labelled("one"))) }},
				{"a dry run", "refuse", func() answer {
					return olga.apply(t, "w1", applyRequest(t, labelled("dry"), machine.ApplyConfigurationRequest_NO_REBOOT, true))
				}},
				{"a read", "allow", func() answer { return olga.version(t, "w1") }},
				{"a stream", "allow", func() answer {
					return olga.call(bounded(t), "/machine.MachineService/Dmesg", to("w1"), nil)
				}},
				{"a read of several", "allow", func() answer { return olga.call(bounded(t), methodVersion, toAll("w1", "w2"), nil) }},
				{"a read of the configuration", "refuse", func() answer { return configRead(t, olga, "w1") }},
				{"a mutation", "refuse", func() answer { return olga.call(bounded(t), reboot, to("w1"), nil) }},
			}
			source.fails(row.err)
			h.nodes["w1"].ResetConnections()
			for _, way := range ways {
				before := len(h.nodes["w1"].Log().Calls())
				a := way.ask()
				if a.code() != codes.Unavailable || !contains(a.text(), "REFUSED "+row.code) || !contains(a.text(), row.says) || contains(a.text(), "secret-cause") {
					t.Errorf("%s got %v %q", way.name, a.code(), a.text())
				}
				if after := len(h.nodes["w1"].Log().Calls()); after != before {
					t.Errorf("%s: the node was sent %d calls", way.name, after-before)
				}
				if n := h.count(t, "select count(*) from audit.entries where id::text = any ($1) and verdict = $2", a.decisions(), way.verdict); n < 1 || n != len(a.decisions()) {
					t.Errorf("%s: %d entries of %d are %s", way.name, n, len(a.decisions()), way.verdict)
				}
				if way.verdict == "refuse" && h.count(t, `select count(*) from audit.entries where id::text = any ($1) and convert_from(record, 'UTF8') like $2`,
					a.decisions(), `%"detail":"`+row.class+`"%`) != 1 {
					t.Errorf("%s: no entry is of class %s", way.name, row.class)
				}
			}
			if n := len(h.attempts(t)); n != 0 {
				t.Errorf("%d attempts", n)
			}
			eventually(t, "the causes in the log", func() bool { return strings.Count(h.logs.String(), "secret-cause") >= len(ways) })
			source.fails(nil)
			for _, way := range ways[:5] {
				if a := way.ask(); a.err != nil {
					t.Errorf("control: %s with the credential back: %v", way.name, a.err)
				}
			}
		})
	}
}

// Acts that look at a machine say the same.
func TestAnActSaysWhyThereIsNoCredential(t *testing.T) {
	t.Parallel()
	h, source := withCredentials(t, nil)
	acts := h.acts()
	by := h.actor(t, "olga")
	source.fails(sealedAway{})
	_, err := acts.Observe(t.Context(), by, "w1", nil)
	var own *refusedError
	if !errors.As(err, &own) || own.status != codes.Unavailable || own.code != "BW-UPSTREAM-003" || !contains(own.message, sealedSentence) || contains(own.message, "secret-cause") {
		t.Errorf("got %v", err)
	}
	if !contains(err.Error(), "secret-cause") {
		t.Errorf("the door's log is not told the cause: %v", err)
	}
	source.fails(nil)
	if _, err := acts.Observe(t.Context(), by, "w1", nil); err != nil {
		t.Errorf("control: %v", err)
	}
}

// Each attempt says which version it was sent with; a new one is taken without a restart, by
// the very next call, and a credential of files is none.
func TestAnAttemptSaysWhichCredentialItUsed(t *testing.T) {
	t.Parallel()
	h, source := withCredentials(t, nil)
	olga := h.as(t, "olga")
	succeeded(t, olga.apply(t, "w1", noReboot(t, labelled("one"))))
	source.put(t, cluster, 2)
	succeeded(t, olga.version(t, "w1"))
	succeeded(t, olga.apply(t, "w1", noReboot(t, labelled("two"))))
	const versions = "select coalesce(credential_version::text, 'null') from control.attempts order by opened_at, id"
	if got := h.texts(t, versions); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("the attempts used %v", got)
	}

	files := newHouse(t, nil)
	succeeded(t, files.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))))
	if got := files.texts(t, versions); !slices.Equal(got, []string{"null"}) {
		t.Errorf("the attempt used %v", got)
	}
}

// An apply that is under way while a new version comes goes on with the one it began with.
func TestANewVersionDoesNotEndAnApplyUnderWay(t *testing.T) {
	t.Parallel()
	h, source := withCredentials(t, nil)
	h.paused(t, "w1", 1)
	answers := h.as(t, "olga").goApply(bounded(t), "w1", noReboot(t, labelled("one")))
	h.held(t, "w1")
	source.put(t, cluster, 2)
	h.nodes["w1"].Resume()
	succeeded(t, <-answers)
	if got := h.texts(t, "select state || ' ' || credential_version from control.attempts"); !slices.Equal(got, []string{"completed 1"}) {
		t.Errorf("the attempts are %v", got)
	}
	if applies := h.nodes["w1"].Log().Of(talosd.MethodApply); len(applies) != 1 {
		t.Errorf("%d applies", len(applies))
	}
}

func (c *credentialStore) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.by, name)
}
