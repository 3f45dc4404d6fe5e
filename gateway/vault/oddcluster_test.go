package vault

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"bronzeward/fixtures/openbao/baotest"
)

// What is the matter with one cluster's path is that cluster's trouble: the others' credentials are read anew, and so is the
// authority for people, which may just have been dropped. The one that cannot be read keeps what it has, for its own time.
func TestOneClustersTroubleIsItsOwn(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		answer string
		kind   Kind
	}{
		{"a server error", http.StatusInternalServerError, `{"errors":["1 error occurred: canary"]}`, KindFailing},
		{"not allowed", http.StatusForbidden, `{"errors":["permission denied"]}`, KindForbidden},
		{"longer than an answer may be", http.StatusOK, `{"data":{"data":{"key":"` + strings.Repeat("canary ", mostAnswer/7+1) + `"}}}`, KindFailing},
		{"nested deeper than a decoder goes", http.StatusOK, `{"data":{"data":` + strings.Repeat(`{"a":`, 20000) + `1` + strings.Repeat(`}`, 20000) + `}}`, KindFailing},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHouse(t, baotest.Server(t))
			h.putCredential(t, "east", 1)
			h.putCredential(t, "west", 2)
			p := newProxy(t, h)
			client := p.gateway(t)
			var log bytes.Buffer
			c := h.credentials(t, &log, anyCredential)
			c.cfg.Client = client
			a := NewAuthority(client, nil)
			k := NewKeeper(0, nil, Refresher{Refresh: c.Refresh}, Refresher{Refresh: a.Refresh})
			if err := k.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			dropped := a.People()[0]
			p.answer(h.kv+"/data/talos/east", test.status, test.answer)
			h.putCredential(t, "west", 3)
			if _, err := EnsureAuthority(t.Context(), h.operator, true); err != nil {
				t.Fatal(err)
			}
			if _, err := DropPrevious(t.Context(), h.operator, nil); err != nil {
				t.Fatal(err)
			}
			err := k.Refresh(t.Context())
			if kindOf(err) != test.kind {
				t.Errorf("the keeper says %v", err)
			}
			if a.People()[0].Equal(dropped) {
				t.Error("an authority that was dropped is still trusted")
			}
			holds(t, c, "west", 3, 2)
			holds(t, c, "east", 1, 1)

			// East's credential has its own age: what is confirmed of west does not make it younger.
			c.mu.Lock()
			one := c.held["east"]
			one.confirmed = one.confirmed.Add(-2 * time.Hour)
			c.held["east"] = one
			c.mu.Unlock()
			_ = k.Refresh(t.Context())
			_, err = c.Get("east")
			wantError(t, err, ErrUnavailable, test.kind, "", "longer than openbao.credential_max_age")
			holds(t, c, "west", 3, 2)
			nothingOf(t, []string{"canary"}, err, log.String())
		})
	}
}

// Control: an OpenBao that is away is away for all, and is not asked for each thing after its time.
func TestAnOpenBaoThatIsAwayIsAskedOnce(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	h.putCredential(t, "east", 1)
	p := newProxy(t, h)
	client := p.gateway(t)
	var log bytes.Buffer
	c := h.credentials(t, &log, anyCredential)
	c.cfg.Client = client
	k := NewKeeper(0, nil, Refresher{Refresh: c.Refresh}, Refresher{Refresh: NewAuthority(client, nil).Refresh})
	p.answer(h.kv+"/data/talos/east", http.StatusServiceUnavailable, `{"errors":["Vault is sealed"]}`)
	wantError(t, k.Refresh(t.Context()), ErrUnavailable, KindSealed, "", "sealed")
	if n := p.passed(h.kv + "/data/" + PathCA); n != 0 {
		t.Errorf("it was asked on %d times", n)
	}
}

// When many clusters cannot be read it is OpenBao that is in trouble: the rest are not asked for one after the other.
func TestTroubleOfManyClustersIsOpenBaos(t *testing.T) {
	h := newHouse(t, baotest.Server(t))
	for i := range mostTroubled + 5 {
		h.putCredential(t, fmt.Sprintf("c%02d", i), int64(i+1))
	}
	p := newProxy(t, h)
	client := p.gateway(t)
	var log bytes.Buffer
	c := h.credentials(t, &log, anyCredential)
	c.cfg.Client = client
	refresh(t, c)
	before := p.passed(h.kv + "/data/talos/c14")
	p.answer(h.kv+"/data/talos/", http.StatusBadGateway, "")
	wantError(t, c.Refresh(t.Context()), ErrUnavailable, KindFailing, "", "status 502")
	if p.passed(h.kv+"/data/talos/c14") != before {
		t.Error("each was asked for")
	}
	holds(t, c, "c14", 15, 1)
}
