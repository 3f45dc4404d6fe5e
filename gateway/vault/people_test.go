package vault

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"strings"
	"testing"
	"time"

	"bronzeward/fixtures/openbao/baotest"
)

func authority(t testing.TB, c *Client) *Authority {
	t.Helper()
	a := NewAuthority(c, nil)
	if err := a.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

// person is what the gateway would have signed, and a key for it.
func person(t testing.TB, serial int64) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "alice"}, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(8 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, key
}

func issue(t testing.TB, a *Authority, serial int64) *x509.Certificate {
	t.Helper()
	template, key := person(t, serial)
	chain, err := a.Issue(t.Context(), template, key.Public())
	if err != nil {
		t.Fatal(err)
	}
	if len(chain) != 1 {
		t.Fatalf("got %d certificates", len(chain))
	}
	leaf, err := x509.ParseCertificate(chain[0])
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

// issueLater is issue once every replica has read the authority anew.
func issueLater(t testing.TB, a *Authority, serial int64) *x509.Certificate {
	t.Helper()
	template, key := person(t, serial)
	template.NotBefore = a.People()[0].NotBefore.Add(spreadWithin)
	chain, err := a.Issue(t.Context(), template, key.Public())
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(chain[0])
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

// trusted is whether people's authorities verify a client's certificate.
func trusted(a *Authority, leaf *x509.Certificate) bool {
	roots := x509.NewCertPool()
	for _, ca := range a.People() {
		roots.AddCert(ca)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, CurrentTime: leaf.NotBefore.Add(2 * time.Minute)})
	return err == nil
}

func TestIssuedCertificatesAreTrusted(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	a := authority(t, h.gateway(t))
	for _, err := range together(8, func(i int) error {
		leaf := issue(t, a, int64(i+1))
		if !trusted(a, leaf) || leaf.SerialNumber.Int64() != int64(i+1) || leaf.Subject.CommonName != "alice" || leaf.IsCA {
			return errors.New("it is not what was asked for, or nobody trusts it")
		}
		return nil
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	ca := a.People()[0]
	if !ca.IsCA || !ca.MaxPathLenZero || ca.KeyUsage != x509.KeyUsageCertSign || time.Until(ca.NotAfter) > caLife {
		t.Errorf("the authority is %+v", ca)
	}
	template, key := person(t, 9)
	template.NotAfter = ca.NotAfter.Add(time.Hour)
	chain, err := a.Issue(t.Context(), template, key.Public())
	if err != nil {
		t.Fatal(err)
	}
	if leaf, err := x509.ParseCertificate(chain[0]); err != nil || !leaf.NotAfter.Equal(ca.NotAfter) {
		t.Errorf("it outlives its authority: %v", err)
	}
	if !template.NotAfter.After(ca.NotAfter) {
		t.Error("the caller's template was written to")
	}
}

func TestWhatCannotBeIssuedIsNamed(t *testing.T) {
	for name, test := range map[string]struct {
		after func(*testing.T, *house)
		spoil func(*x509.Certificate, *Authority)
		kind  Kind
		key   string
		words string
	}{
		"the key was recreated": {after: func(t *testing.T, h *house) { h.recreate(t, CAKey, "ecdsa-p256") }, kind: KindKeyRecreated, key: CAKey + " v1", words: "rotate-ca"},
		"the key was deleted":   {after: func(t *testing.T, h *house) { h.drop(t, CAKey) }, kind: KindKeyMissing, key: CAKey, words: "no such key"},
		"the authority has ended": {spoil: func(c *x509.Certificate, a *Authority) {
			c.NotBefore = a.People()[0].NotAfter
			c.NotAfter = c.NotBefore.Add(time.Hour)
		}, kind: KindMalformed, words: "has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, baotest.Server(t))
			a := authority(t, h.gateway(t))
			template, key := person(t, 1)
			if test.after != nil {
				test.after(t, h)
			}
			if test.spoil != nil {
				test.spoil(template, a)
			}
			chain, err := a.Issue(t.Context(), template, key.Public())
			if chain != nil {
				t.Fatal("it was issued")
			}
			wantError(t, err, ErrRefused, test.kind, test.key, test.words)
		})
	}
	h := newHouse(t, baotest.Server(t))
	template, key := person(t, 1)
	_, err := NewAuthority(h.gateway(t), nil).Issue(t.Context(), template, key.Public())
	wantError(t, err, ErrUnavailable, KindUnreachable, "", "not read from OpenBao yet")
	// What is wrong with the template is not blamed on the key.
	a := authority(t, h.gateway(t))
	template.SerialNumber = big.NewInt(-1)
	if _, err := a.Issue(t.Context(), template, key.Public()); err == nil || kindOf(err) != "" {
		t.Errorf("got %v", err)
	}
}

func TestTheAuthorityIsRotated(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	var log bytes.Buffer
	a := NewAuthority(h.gateway(t), slog.New(slog.NewTextHandler(&log, nil)))
	refresh := func() {
		t.Helper()
		if err := a.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	refresh()
	first := issue(t, a, 1)
	if made, err := EnsureAuthority(t.Context(), h.operator, false); made || err != nil {
		t.Fatalf("it was made again: %v", err)
	}
	if made, err := EnsureAuthority(t.Context(), h.operator, true); !made || err != nil {
		t.Fatalf("rotating: %v", err)
	}
	// A replica that has not noticed still signs, by the version its certificate names.
	between := issue(t, a, 2)
	late := authority(t, h.gateway(t))
	// One that has signs by it as well until all have had the time to notice: whoever logs in now is known everywhere.
	if leaf := issue(t, late, 7); !trusted(a, leaf) {
		t.Error("what one replica issues another does not know yet")
	}
	refresh()
	second := issueLater(t, a, 3)
	if trusted(&Authority{people: a.People()[1:]}, second) {
		t.Fatal("the one before signs for ever")
	}
	for name, leaf := range map[string]*x509.Certificate{"before": first, "between": between, "after": second} {
		if !trusted(a, leaf) {
			t.Errorf("the one issued %s is not trusted", name)
		}
	}
	if len(a.People()) != 2 || second.CheckSignatureFrom(a.People()[0]) != nil || second.CheckSignatureFrom(a.People()[1]) == nil {
		t.Fatal("the new authority does not sign")
	}
	if dropped, err := DropPrevious(t.Context(), h.operator, nil); !dropped || err != nil {
		t.Fatal(err)
	}
	refresh()
	if trusted(a, first) || trusted(a, between) || !trusted(a, second) {
		t.Error("the wrong authority was dropped")
	}
	if dropped, err := DropPrevious(t.Context(), h.operator, nil); dropped || err != nil {
		t.Errorf("something was dropped again: %v", err)
	}
	refresh()
	if n := strings.Count(log.String(), "has changed"); n != 2 {
		t.Errorf("it was told %d times: %s", n, log.String())
	}
	// A second rotation waits for the one before to be dropped; it would end what people hold.
	if _, err := EnsureAuthority(t.Context(), h.operator, true); err != nil {
		t.Fatal(err)
	}
	latest := h.key(t, CAKey).latest
	made, err := EnsureAuthority(t.Context(), h.operator, true)
	if made || !errors.Is(err, ErrTwoTrusted) || h.key(t, CAKey).latest != latest {
		t.Errorf("it was rotated over the one before: %v", err)
	}
	wantError(t, err, ErrRefused, KindMalformed, "", "first bronzeward openbao drop-ca")
	refresh()
	if !trusted(a, second) || len(a.People()) != 2 {
		t.Error("what people hold is not trusted any more")
	}
	// Who is not sure drops nothing, and is told when the last certificate has ended.
	unsure := errors.New("not sure")
	dropped, err := DropPrevious(t.Context(), h.operator, func(until time.Time) error {
		if left := time.Until(until) - MostCertificateLife; left <= 0 || left > spreadWithin {
			t.Errorf("its certificates are good for %s past the longest life", left)
		}
		return unsure
	})
	refresh()
	if dropped || !errors.Is(err, unsure) || len(a.People()) != 2 {
		t.Errorf("it was dropped: %v", err)
	}
}

func TestAnAuthorityIsMadeOnce(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	h.forget(t, PathCA)
	made := make([]bool, 6)
	for _, err := range together(len(made), func(i int) (err error) {
		made[i], err = EnsureAuthority(t.Context(), h.operator, false)
		return err
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	if n := strings.Count(strings.Join(boolWords(made), " "), "true"); n != 1 {
		t.Errorf("it was made %d times", n)
	}
	h.root(t, "DELETE", h.kv+"/data/"+PathCA, nil)
	_, err := EnsureAuthority(t.Context(), h.operator, false)
	wantError(t, err, ErrRefused, KindMissing, "", "undelete")
	err = NewAuthority(h.gateway(t), nil).Refresh(t.Context())
	wantError(t, err, ErrRefused, KindMissing, "", "nothing there")
}

func boolWords(all []bool) (out []string) {
	for _, b := range all {
		out = append(out, map[bool]string{true: "true", false: "false"}[b])
	}
	return out
}

// What is in KV and is no authority leaves the trusted ones as they were.
func TestWhatIsNoAuthorityIsRefused(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	a := authority(t, h.gateway(t))
	before := a.People()
	leaf := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issue(t, a, 1).Raw}))
	good := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: before[0].Raw}))
	for name, data := range map[string]map[string]any{
		"nothing":                 {},
		"no PEM":                  {"current": "canary", "key_version": 1},
		"a key beside it":         {"current": good + "-----BEGIN PRIVATE KEY-----\nY2FuYXJ5\n-----END PRIVATE KEY-----\n", "key_version": 1},
		"a person's certificate":  {"current": leaf, "key_version": 1},
		"two":                     {"current": good + good, "key_version": 1},
		"no version":              {"current": good},
		"a previous that is none": {"current": good, "key_version": 1, "previous": leaf},
		"another shape":           {"current": 7, "key_version": "canary"},
	} {
		t.Run(name, func(t *testing.T) {
			h.root(t, "POST", h.kv+"/data/"+PathCA, map[string]any{"data": data})
			err := a.Refresh(t.Context())
			wantClass(t, err, ErrRefused)
			if kindOf(err) != KindMalformed {
				t.Errorf("got %v", err)
			}
			nothingOf(t, []string{"canary"}, err)
			if len(a.People()) != 1 || !a.People()[0].Equal(before[0]) {
				t.Error("it trusts others now")
			}
			for _, rotate := range []bool{false, true} {
				if _, err := EnsureAuthority(t.Context(), h.operator, rotate); err == nil {
					t.Error("it was written over, or taken for one")
				}
			}
		})
	}
}

func TestCheckpointsAreSigned(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	s := NewCheckpointSigner(h.gateway(t))
	type signed struct {
		message, signature []byte
		version            int
	}
	var all []signed
	for i := range 2 {
		message := bytes.Repeat([]byte{byte(i)}, 300)
		signature, version, err := s.Sign(t.Context(), message)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, signed{message, signature, version})
		h.rotate(t, CheckpointKey)
	}
	keys, err := s.PublicKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, one := range all {
		if one.version != i+1 || !ed25519.Verify(keys[one.version], one.message, one.signature) {
			t.Errorf("v%d does not verify", one.version)
		}
		if ed25519.Verify(keys[3-one.version], one.message, one.signature) {
			t.Error("it verifies with another version's key")
		}
	}
	if len(keys) != 3 {
		t.Errorf("got %d public keys", len(keys))
	}
	h.drop(t, CheckpointKey)
	_, _, err = s.Sign(t.Context(), nil)
	wantError(t, err, ErrRefused, KindKeyMissing, CheckpointKey, "no such key")
	_, err = s.PublicKeys(t.Context())
	wantError(t, err, ErrRefused, KindKeyMissing, CheckpointKey, "no such key")
}

func TestTheAnchorIsWrittenOverWhatWasRead(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	a := NewAnchors(h.gateway(t))
	if got, version, err := a.Read(t.Context()); err != nil || version != 0 || got != (Anchor{}) {
		t.Fatalf("got %v, v%d, %v", got, version, err)
	}
	first := Anchor{Epoch: "e1", Size: 7, Root: "abc", Written: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	version, err := a.Write(t.Context(), first, 0)
	if err != nil || version != 1 {
		t.Fatalf("v%d, %v", version, err)
	}
	if got, version, err := a.Read(t.Context()); err != nil || version != 1 || got != first {
		t.Fatalf("got %v, v%d, %v", got, version, err)
	}
	// Of two replicas that read the same, one writes.
	won := 0
	for _, err := range together(2, func(i int) error {
		_, err := NewAnchors(h.gateway(t)).Write(t.Context(), Anchor{Epoch: "e1", Size: int64(8 + i)}, 1)
		return err
	}) {
		if err == nil {
			won++
		} else {
			wantError(t, err, ErrRefused, KindMoved, "", "somebody else")
		}
	}
	if won != 1 {
		t.Errorf("%d of 2 wrote", won)
	}
	for name, over := range map[string]int{"the past": 1, "the future": 3, "a beginning": 0} {
		if _, err := a.Write(t.Context(), first, over); kindOf(err) != KindMoved {
			t.Errorf("over %s: %v", name, err)
		}
	}
	h.root(t, "DELETE", h.kv+"/data/"+PathAnchor, nil)
	if _, version, err := a.Read(t.Context()); err != nil || version != 0 {
		t.Fatalf("v%d, %v", version, err)
	}
	_, err = a.Write(t.Context(), first, 0)
	wantError(t, err, ErrRefused, KindMoved, "", "somebody else")
	h.root(t, "POST", h.kv+"/data/"+PathAnchor, map[string]any{"data": map[string]any{"epoch": 7}})
	_, _, err = a.Read(t.Context())
	wantError(t, err, ErrRefused, KindMalformed, "", "another shape")
}
