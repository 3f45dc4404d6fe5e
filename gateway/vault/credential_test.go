package vault

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bronzeward/fixtures/openbao/baotest"

	"github.com/google/go-cmp/cmp"
)

// pair is a certificate and its key as PEM, signed by ca, whose PEM comes third.
func pair(t testing.TB, serial int64) (certificate, key, ca []byte) {
	t.Helper()
	template, private := person(t, serial)
	root, rootKey := person(t, 1000+serial)
	root.IsCA, root.BasicConstraintsValid, root.KeyUsage = true, true, x509.KeyUsageCertSign
	rootDER, err := x509.CreateCertificate(nil, root, root, rootKey.Public(), rootKey)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(nil, template, root, private.Public(), rootKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER})
}

func anyCredential(Credential) error { return nil }

// parsing reads PEM as the product's parser does, as far as these tests need it, and then checks.
func parsing(check func(Credential) error) ParseCredential {
	return func(certificate, key, ca []byte) (Credential, error) {
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return Credential{}, errors.New("certificate and key are not a pair")
		}
		cas, err := ParseCertificates(ca)
		if err != nil {
			return Credential{}, err
		}
		one := Credential{Certificate: pair, CAs: cas}
		return one, check(one)
	}
}

func (h *house) credentials(t testing.TB, log *bytes.Buffer, check func(Credential) error) *Credentials {
	t.Helper()
	return NewCredentials(CredentialsConfig{
		Client: h.gateway(t), Parse: parsing(check), MaxAge: time.Hour,
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
}

func refresh(t testing.TB, c *Credentials) {
	t.Helper()
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// holds checks which certificate is used for a cluster.
func holds(t testing.TB, c *Credentials, cluster string, serial, version int64) {
	t.Helper()
	one, err := c.Get(cluster)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(one.Certificate.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if leaf.SerialNumber.Int64() != serial || one.Version != version || len(one.CAs) != 1 {
		t.Fatalf("%s has serial %s, version %d, %d CAs; want serial %d, version %d", cluster, leaf.SerialNumber, one.Version, len(one.CAs), serial, version)
	}
}

func (h *house) putCredential(t testing.TB, cluster string, serial int64) int64 {
	t.Helper()
	certificate, key, ca := pair(t, serial)
	version, err := PutCredential(t.Context(), h.operator, cluster, certificate, key, ca, parsing(anyCredential))
	if err != nil {
		t.Fatal(err)
	}
	return version
}

func TestANewCredentialIsTakenUp(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	var log bytes.Buffer
	c := h.credentials(t, &log, anyCredential)
	_, err := c.Get("east")
	wantError(t, err, ErrUnavailable, KindUnreachable, "", "no Talos credential was read")
	refresh(t, c)
	_, err = c.Get("east")
	wantError(t, err, ErrRefused, KindMissing, "", "put-credential --cluster east")

	h.putCredential(t, "east", 1)
	h.putCredential(t, "west.example-1_a", 2)
	refresh(t, c)
	holds(t, c, "east", 1, 1)
	holds(t, c, "west.example-1_a", 2, 1)
	if diff := cmp.Diff([]string{"east", "west.example-1_a"}, c.Clusters()); diff != "" {
		t.Error(diff)
	}
	if v := h.putCredential(t, "east", 3); v != 2 {
		t.Errorf("written as version %d", v)
	}
	holds(t, c, "east", 1, 1) // until it is read
	refresh(t, c)
	holds(t, c, "east", 3, 2)

	h.root(t, "DELETE", h.kv+"/data/talos/east", nil)
	refresh(t, c)
	_, err = c.Get("east")
	wantError(t, err, ErrRefused, KindMissing, "", "no usable Talos credential")
	holds(t, c, "west.example-1_a", 2, 1)
	if n := strings.Count(log.String(), "is gone from OpenBao"); n != 1 {
		t.Errorf("it was told %d times: %s", n, log.String())
	}
	h.root(t, "POST", h.kv+"/undelete/talos/east", map[string]any{"versions": []int{2}})
	refresh(t, c)
	holds(t, c, "east", 3, 2)
	h.forget(t, "talos/east")
	refresh(t, c)
	if diff := cmp.Diff([]string{"west.example-1_a"}, c.Clusters()); diff != "" {
		t.Error(diff)
	}
}

func TestAnUnusableCredentialLeavesTheOneBefore(t *testing.T) {
	certificate, key, ca := pair(t, 7)
	_, otherKey, _ := pair(t, 8)
	good := map[string]any{"certificate": string(certificate), "key": string(key), "ca": string(ca)}
	with := func(name string, value any) map[string]any {
		out := map[string]any{}
		for k, v := range good {
			out[k] = v
		}
		out[name] = value
		return out
	}
	refusesSerial7 := func(c Credential) error {
		leaf, err := x509.ParseCertificate(c.Certificate.Certificate[0])
		if err == nil && leaf.SerialNumber.Int64() == 7 {
			err = errors.New("it is an administrator's")
		}
		return err
	}
	for name, test := range map[string]struct {
		data  map[string]any
		check func(Credential) error
		words string
	}{
		"nothing":                    {map[string]any{}, anyCredential, "not a pair"},
		"no PEM":                     {with("certificate", "canary"), anyCredential, "not a pair"},
		"another's key":              {with("key", string(otherKey)), anyCredential, "not a pair"},
		"no CA":                      {with("ca", ""), anyCredential, "holds no certificate"},
		"a key for a CA":             {with("ca", string(key)), anyCredential, "only certificates belong there"},
		"another shape":              {with("key", []string{"canary"}), anyCredential, "another shape"},
		"one that is not to be used": {good, refusesSerial7, "administrator"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, baotest.Server(t))
			var log bytes.Buffer
			c := h.credentials(t, &log, test.check)
			h.putCredential(t, "east", 1)
			refresh(t, c)
			h.root(t, "POST", h.kv+"/data/talos/east", map[string]any{"data": test.data})
			h.root(t, "POST", h.kv+"/data/talos/new", map[string]any{"data": test.data})
			for range 3 {
				refresh(t, c)
				holds(t, c, "east", 1, 1)
			}
			_, err := c.Get("new")
			wantError(t, err, ErrRefused, KindMissing, "", "no usable")
			if n := strings.Count(log.String(), "cannot be used"); n != 2 || !strings.Contains(log.String(), test.words) {
				t.Errorf("it was told %d times: %s", n, log.String())
			}
			nothingOf(t, []string{"canary", string(key), string(otherKey), strings.Split(string(key), "\n")[1]}, log.String())
			h.putCredential(t, "east", 2)
			refresh(t, c)
			holds(t, c, "east", 2, 3)
			// Whoever puts it is told at once.
			if raw, ok := test.data["key"].(string); ok {
				if _, err := PutCredential(t.Context(), h.operator, "south", []byte(test.data["certificate"].(string)), []byte(raw), []byte(test.data["ca"].(string)), parsing(test.check)); err == nil || !strings.Contains(err.Error(), test.words) {
					t.Errorf("putting it: %v", err)
				}
			}
			if got := h.clusters(t); strings.Contains(got, "south") {
				t.Errorf("it was written: %s", got)
			}
		})
	}
}

func (h *house) clusters(t testing.TB) string {
	t.Helper()
	names, err := h.operator.list(t.Context(), "looking", PathTalos)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, " ")
}

func TestPuttingTheSameCredentialWritesNothing(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	certificate, key, ca := pair(t, 1)
	for range 3 {
		version, err := PutCredential(t.Context(), h.operator, "east", certificate, key, ca, parsing(anyCredential))
		if err != nil || version != 1 {
			t.Fatalf("v%d, %v", version, err)
		}
	}
}

// A cluster's name becomes a path; what is no name of a cluster is neither written nor read.
func TestOddNamesOfClustersAreRefused(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	certificate, key, ca := pair(t, 1)
	for _, name := range []string{"", ".", "..", "../ca", "a/b", "a/", "east ", "Ost", "ö", "a%2fb", "a?b", "a#b", "+", "*", "a\nb", strings.Repeat("a", 64), "-a"} {
		version, err := PutCredential(t.Context(), h.operator, name, certificate, key, ca, parsing(anyCredential))
		if version != 0 {
			t.Errorf("%q was written", name)
		}
		wantError(t, err, ErrRefused, KindMalformed, "", "no name of a cluster")
	}
	if got := h.clusters(t); got != "" {
		t.Fatalf("there is %s", got)
	}
	// Written by hand.
	data := map[string]any{"data": map[string]any{"certificate": string(certificate), "key": string(key), "ca": string(ca)}}
	for _, path := range []string{"a%20b", "folder/inside", "A", "b%25c", "good", "p%3Fq"} {
		h.root(t, "POST", h.kv+"/data/talos/"+path, data)
	}
	var log bytes.Buffer
	c := h.credentials(t, &log, anyCredential)
	for range 2 {
		refresh(t, c)
	}
	if diff := cmp.Diff([]string{"good"}, c.Clusters()); diff != "" {
		t.Error(diff)
	}
	if n := strings.Count(log.String(), "is not read"); n != 5 {
		t.Errorf("%d of 5 were told of once: %s", n, log.String())
	}
}

// Get answers from memory: with OpenBao stopped, and without a question.
func TestGetAsksNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, baotest.Own(t))
	var log bytes.Buffer
	c := h.credentials(t, &log, anyCredential)
	h.putCredential(t, "east", 1)
	refresh(t, c)
	before := h.asked(t, h.kv)
	holds(t, c, "east", 1, 1)
	if n := h.asked(t, h.kv) - before; n != 0 {
		t.Errorf("OpenBao was asked %d times", n)
	}
	if err := h.Stop(); err != nil {
		t.Fatal(err)
	}
	wantError(t, c.Refresh(t.Context()), ErrUnavailable, KindUnreachable, "", "cannot be reached")
	holds(t, c, "east", 1, 1)
	if diff := cmp.Diff([]string{"east"}, c.Clusters()); diff != "" {
		t.Error(diff)
	}
	// Past its age it is not used, and the reason is the outage.
	c.cfg.MaxAge = time.Nanosecond
	_, err := c.Get("east")
	wantError(t, err, ErrUnavailable, KindUnreachable, "", "openbao.credential_max_age; OpenBao cannot be reached")
	c.cfg.MaxAge = time.Hour
	if err := h.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	refresh(t, c)
	holds(t, c, "east", 1, 1)
	// What is refused is an outage for whoever needs the credential: it may be allowed again.
	h.root(t, "PUT", "sys/policies/acl/"+h.policy(), map[string]any{"policy": "# nothing"})
	wantError(t, c.Refresh(t.Context()), ErrRefused, KindForbidden, "", "403")
	c.cfg.MaxAge = time.Nanosecond
	_, err = c.Get("east")
	wantError(t, err, ErrUnavailable, KindForbidden, "", "403")
}

func TestTheKeeperRefreshesAndSaysWhatIsTheMatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var problem atomic.Pointer[Error]
		rounds := 0
		k := NewKeeper(0, slog.New(slog.NewTextHandler(&log, nil)),
			Refresher{Refresh: func(context.Context) error {
				if e := problem.Load(); e != nil {
					return e
				}
				return nil
			}},
			Refresher{Refresh: func(context.Context) error { rounds++; return nil }},
		)
		if problem, confirmed := k.Health(); problem != "" || !confirmed.IsZero() {
			t.Errorf("before the first round: %q, %s", problem, confirmed)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); k.Run(ctx) }()
		began := time.Now()
		next := func() {
			time.Sleep(DefaultRefresh) // the bubble's clock
			synctest.Wait()
		}
		next()
		if said, confirmed := k.Health(); said != "" || !confirmed.Equal(began.Add(DefaultRefresh)) {
			t.Errorf("got %q, %s", said, confirmed)
		}
		problem.Store(refused("reading", KindForbidden, nil, "OpenBao says no"))
		next()
		next()
		if said, confirmed := k.Health(); said != "OpenBao says no" || !confirmed.Equal(began.Add(DefaultRefresh)) {
			t.Errorf("got %q, %s", said, confirmed)
		}
		problem.Store(nil)
		next()
		if said, _ := k.Health(); said != "" || rounds != 4 {
			t.Errorf("got %q after %d rounds", said, rounds)
		}
		if strings.Count(log.String(), "could not be read anew") != 1 || strings.Count(log.String(), "can be read again") != 1 {
			t.Errorf("not told once each: %s", log.String())
		}
		stop()
		<-done
	})
}
