package vault

import (
	"bytes"
	"crypto/x509"
	"errors"
	"strings"
	"testing"

	"bronzeward/fixtures/openbao/baotest"
)

// A credential whose CA is one of people's authorities would shut everybody out: the version
// before it stays. The control does not look, and takes it.
func TestACredentialOfPeoplesAuthorityIsNotUsed(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	_, _, ca := pair(t, 7)
	people, err := ParseCertificates(ca)
	if err != nil {
		t.Fatal(err)
	}
	var log, none bytes.Buffer
	c, control := h.credentials(t, &log, anyCredential), h.credentials(t, &none, anyCredential)
	c.cfg.People = func() []*x509.Certificate { return people }
	h.putCredential(t, "east", 1)
	refresh(t, c)
	certificate, key, _ := pair(t, 2)
	if _, err := PutCredential(t.Context(), h.operator, "east", certificate, key, ca, parsing(anyCredential)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		refresh(t, c)
		holds(t, c, "east", 1, 1)
	}
	if n := strings.Count(log.String(), "cannot be used"); n != 1 || !strings.Contains(log.String(), ErrPeoplesCA.Error()) {
		t.Errorf("it was told %d times: %s", n, log.String())
	}
	if got := c.Unusable(); len(got) != 1 || got[0] != "east" {
		t.Errorf("unusable are %v", got)
	}
	for _, one := range c.CAs() {
		if one.Equal(people[0]) {
			t.Error("people's authority is forbidden")
		}
	}
	refresh(t, control)
	holds(t, control, "east", 2, 2)
	h.putCredential(t, "east", 3)
	refresh(t, c)
	if got := c.Unusable(); got != nil {
		t.Errorf("unusable are %v", got)
	}
}

// What setup made is read; where it made none there is none, and what is none is an error.
func TestPeoplesAuthoritiesAreReadForOperators(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	people, err := PeoplesAuthorities(t.Context(), h.operator)
	if err != nil || len(people) != 1 || !errors.Is(CheckPeoplesCA(people, people), ErrPeoplesCA) || CheckPeoplesCA(people, nil) != nil {
		t.Errorf("%d, %v", len(people), err)
	}
	h.root(t, "POST", h.kv+"/data/"+PathCA, map[string]any{"data": map[string]any{"current": "x"}})
	if _, err := PeoplesAuthorities(t.Context(), h.operator); kindOf(err) != KindMalformed {
		t.Errorf("what is no authority: %v", err)
	}
	h.forget(t, PathCA)
	if people, err := PeoplesAuthorities(t.Context(), h.operator); err != nil || people != nil {
		t.Errorf("%d, %v", len(people), err)
	}
}
