package identity_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bronzeward/gateway/identity"
)

// bubbleConfig is tokenConfig on the bubble's own clock.
func bubbleConfig(p *fakeIDP) identity.Config {
	cfg := tokenConfig(p)
	cfg.Now = time.Now
	return cfg
}

// open makes an Authenticator inside a bubble; the caller closes it before the bubble ends.
func open(t *testing.T, cfg identity.Config) *identity.Authenticator {
	t.Helper()
	a, err := identity.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestFloodOfUnknownKidsIsOneFetchPerCooldown(t *testing.T) {
	key := newKey(t)
	synctest.Test(t, func(t *testing.T) {
		p := &fakeIDP{}
		p.serve(t, publish(t, key.Public(), map[string]any{"kid": "k1"}))
		a := open(t, bubbleConfig(p))
		defer a.Close()
		flood := func(round int) {
			var callers sync.WaitGroup
			for i := range 200 {
				callers.Go(func() {
					token := signES256(t, key, fmt.Sprintf("unknown-%d-%d", round, i), claimsAt(time.Now(), nil))
					if _, err := a.Identify(t.Context(), bearer(token)); classOf(t, err) != identity.ClassUnknownKey {
						t.Errorf("got %v", err)
					}
				})
			}
			callers.Wait()
		}
		if got := p.count(); got != 1 {
			t.Fatalf("%d fetches after New, want 1", got)
		}
		flood(1)
		flood(2)
		if got := p.count(); got != 2 {
			t.Errorf("%d fetches after a flood, want 2", got)
		}
		time.Sleep(identity.DefaultUnknownKidCooldown - time.Second)
		flood(3)
		if got := p.count(); got != 2 {
			t.Errorf("%d fetches a second before the cool-down's end, want 2", got)
		}
		time.Sleep(time.Second)
		flood(4)
		if got := p.count(); got != 3 {
			t.Errorf("%d fetches after the cool-down, want 3", got)
		}
		good := signES256(t, key, "k1", claimsAt(time.Now(), nil))
		if _, err := a.Identify(t.Context(), bearer(good)); err != nil {
			t.Errorf("a good token beside the flood: %v", err)
		}
	})
}

func TestRotationIsSeenAtTheFirstTokenOfTheNewKey(t *testing.T) {
	old, next := newKey(t), newKey(t)
	synctest.Test(t, func(t *testing.T) {
		p := &fakeIDP{}
		p.serve(t, publish(t, old.Public(), map[string]any{"kid": "old"}))
		a := open(t, bubbleConfig(p))
		defer a.Close()
		oldToken := signES256(t, old, "old", claimsAt(time.Now(), nil))
		nextToken := signES256(t, next, "next", claimsAt(time.Now(), nil))
		mustIdentify(t, a, oldToken)

		p.serve(t, publish(t, old.Public(), map[string]any{"kid": "old"}), publish(t, next.Public(), map[string]any{"kid": "next"}))
		mustIdentify(t, a, nextToken)
		mustIdentify(t, a, oldToken)

		// The old key goes: a remembered token must go with it as soon as the set is fetched.
		p.serve(t, publish(t, next.Public(), map[string]any{"kid": "next"}))
		time.Sleep(identity.DefaultUnknownKidCooldown)
		_, err := a.Identify(t.Context(), bearer(signES256(t, next, "nobody", claimsAt(time.Now(), nil))))
		wantClass(t, err, identity.ClassUnknownKey)
		_, err = a.Identify(t.Context(), bearer(oldToken))
		wantClass(t, err, identity.ClassUnknownKey)
		mustIdentify(t, a, nextToken)
	})
}

func TestKeyOfTheSameKidReplacedIsSeenByTheTimedRefresh(t *testing.T) {
	old, next := newKey(t), newKey(t)
	synctest.Test(t, func(t *testing.T) {
		p := &fakeIDP{}
		p.serve(t, publish(t, old.Public(), map[string]any{"kid": "k"}))
		cfg := bubbleConfig(p)
		cfg.JWKSRefresh = time.Minute
		a := open(t, cfg)
		defer a.Close()
		oldToken := signES256(t, old, "k", claimsAt(time.Now(), nil))
		mustIdentify(t, a, oldToken)
		p.serve(t, publish(t, next.Public(), map[string]any{"kid": "k"}))
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		_, err := a.Identify(t.Context(), bearer(oldToken))
		wantClass(t, err, identity.ClassBadSignature)
		mustIdentify(t, a, signES256(t, next, "k", claimsAt(time.Now(), nil)))
	})
}

func TestOutageKeepsTheLastGoodKeysUntilTheirMaximumAge(t *testing.T) {
	key := newKey(t)
	broken := map[string]func(*fakeIDP){
		"refused":     func(p *fakeIDP) { p.away = true },
		"not found":   func(p *fakeIDP) { p.answers = nil },
		"emptied set": func(p *fakeIDP) { p.answers = map[string]string{testKeys: `{"keys":[]}`} },
		"no JSON":     func(p *fakeIDP) { p.answers = map[string]string{testKeys: `<html>`} },
		"other JSON":  func(p *fakeIDP) { p.answers = map[string]string{testKeys: `{"error":"x"}`} },
		"null keys":   func(p *fakeIDP) { p.answers = map[string]string{testKeys: `{"keys":null}`} },
		"symmetric key": func(p *fakeIDP) {
			p.answers = map[string]string{testKeys: `{"keys":[{"kty":"oct","k":"AAAA","kid":"k1"}]}`}
		},
		"too long": func(p *fakeIDP) { p.answers = map[string]string{testKeys: strings.Repeat(" ", 1<<20) + `{"keys":[]}`} },
		"too many keys": func(p *fakeIDP) {
			p.answers = map[string]string{testKeys: `{"keys":[` + strings.Repeat(`{},`, 100) + `{}]}`}
		},
		"hangs": func(p *fakeIDP) { p.slow = time.Hour },
	}
	for name, breakIt := range broken {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &fakeIDP{}
				p.serve(t, publish(t, key.Public(), map[string]any{"kid": "k1"}))
				cfg := bubbleConfig(p)
				cfg.JWKSMaxAge = time.Hour
				var log bytes.Buffer
				cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
				a := open(t, cfg)
				fresh := func() string { return signES256(t, key, "k1", claimsAt(time.Now(), nil)) }
				p.set(breakIt)

				time.Sleep(59 * time.Minute)
				mustIdentify(t, a, fresh())
				remembered := fresh()
				mustIdentify(t, a, remembered)
				if health := a.Health()[0]; !health.Usable || health.Error == "" || health.Keys != 1 {
					t.Errorf("health in the outage: %+v", health)
				}
				_, err := a.Identify(t.Context(), bearer(signES256(t, key, "k2", claimsAt(time.Now(), nil))))
				wantClass(t, err, identity.ClassKeysUnavailable)

				time.Sleep(time.Minute + time.Second)
				for name, token := range map[string]string{"new": fresh(), "remembered": remembered} {
					_, err := a.Identify(t.Context(), bearer(token))
					wantClass(t, err, identity.ClassKeysUnavailable)
					if !classOf(t, err).Unavailable() {
						t.Errorf("%s token: an outage that is not called unavailable", name)
					}
				}
				if a.Health()[0].Usable {
					t.Error("health says usable beyond the maximum age")
				}

				p.set(func(p *fakeIDP) { p.away, p.slow, p.answers = false, 0, nil })
				p.serve(t, publish(t, key.Public(), map[string]any{"kid": "k1"}))
				time.Sleep(identity.DefaultUnknownKidCooldown + time.Second)
				mustIdentify(t, a, fresh())
				if health := a.Health()[0]; !health.Usable || health.Error != "" {
					t.Errorf("health after the outage: %+v", health)
				}
				if err := a.Close(); err != nil {
					t.Error(err)
				}
				if got := strings.Count(log.String(), "level=WARN"); got != 1 {
					t.Errorf("%d warnings for one outage, want 1:\n%s", got, log.String())
				}
			})
		})
	}
}

func TestIssuerAwayAtStart(t *testing.T) {
	key := newKey(t)
	synctest.Test(t, func(t *testing.T) {
		p := &fakeIDP{away: true}
		a := open(t, bubbleConfig(p))
		defer a.Close()
		token := signES256(t, key, "", claimsAt(time.Now(), nil))
		_, err := a.Identify(t.Context(), bearer(token))
		wantClass(t, err, identity.ClassKeysUnavailable)
		if health := a.Health()[0]; health.Usable || health.Keys != 0 || !health.LastGood.IsZero() || health.LastAttempt.IsZero() {
			t.Errorf("health: %+v", health)
		}
		p.set(func(p *fakeIDP) { p.away = false })
		p.serve(t, publish(t, key.Public(), nil))
		time.Sleep(identity.DefaultUnknownKidCooldown + time.Second)
		mustIdentify(t, a, token)
	})
}

func TestCallerThatHangsUpDoesNotFailTheFetchForOthers(t *testing.T) {
	old, next := newKey(t), newKey(t)
	synctest.Test(t, func(t *testing.T) {
		p := &fakeIDP{}
		p.serve(t, publish(t, old.Public(), map[string]any{"kid": "old"}))
		a := open(t, bubbleConfig(p))
		defer a.Close()
		p.serve(t, publish(t, next.Public(), map[string]any{"kid": "next"}))
		p.set(func(p *fakeIDP) { p.slow = 2 * time.Second })
		token := signES256(t, next, "next", claimsAt(time.Now(), nil))

		impatient, hangUp := context.WithTimeout(t.Context(), time.Second)
		defer hangUp()
		var callers sync.WaitGroup
		callers.Go(func() {
			_, err := a.Identify(impatient, bearer(token))
			wantClass(t, err, identity.ClassKeysUnavailable)
		})
		callers.Go(func() { mustIdentify(t, a, token) })
		callers.Wait()
		if got := p.count(); got != 2 {
			t.Errorf("%d fetches, want 2", got)
		}
	})
}

// A fetch that began before the rotation may bring the old set: who asks for the new key meanwhile waits for the next one.
func TestDemandDuringATimedFetchIsAnsweredByALaterFetch(t *testing.T) {
	old, next := newKey(t), newKey(t)
	synctest.Test(t, func(t *testing.T) {
		p := &fakeIDP{}
		p.serve(t, publish(t, old.Public(), map[string]any{"kid": "old"}))
		cfg := bubbleConfig(p)
		cfg.JWKSRefresh = time.Minute
		a := open(t, cfg)
		defer a.Close()
		p.set(func(p *fakeIDP) { p.slow = 3 * time.Second })
		for p.count() == 1 {
			time.Sleep(time.Second)
		}
		p.serve(t, publish(t, next.Public(), map[string]any{"kid": "next"}))
		mustIdentify(t, a, signES256(t, next, "next", claimsAt(time.Now(), nil)))
		if got := p.count(); got != 3 {
			t.Errorf("%d fetches, want 3", got)
		}
	})
}

func TestCloseLetsWaitersGoAndKeepsTheKeys(t *testing.T) {
	key := newKey(t)
	synctest.Test(t, func(t *testing.T) {
		p := &fakeIDP{}
		p.serve(t, publish(t, key.Public(), map[string]any{"kid": "k1"}))
		a := open(t, bubbleConfig(p))
		p.set(func(p *fakeIDP) { p.slow = 4 * time.Second })
		unknown := signES256(t, key, "k2", claimsAt(time.Now(), nil))
		var callers sync.WaitGroup
		callers.Go(func() {
			_, err := a.Identify(t.Context(), bearer(unknown))
			wantClass(t, err, identity.ClassKeysUnavailable)
		})
		synctest.Wait()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		callers.Wait()
		_, err := a.Identify(t.Context(), bearer(unknown))
		wantClass(t, err, identity.ClassKeysUnavailable)
		mustIdentify(t, a, signES256(t, key, "k1", claimsAt(time.Now(), nil)))
		if err := a.Close(); err != nil {
			t.Errorf("closing twice: %v", err)
		}
	})
}

func TestNewEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeIDP{slow: time.Hour}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if a, err := identity.New(ctx, bubbleConfig(p)); err == nil {
			a.Close()
			t.Error("New went on after its context ended")
		}
	})
}

func TestKeysThatMayNotVerifyAreLeftOut(t *testing.T) {
	key := newKey(t)
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	for name, published := range map[string]map[string]any{
		"private key":               publish(t, key, map[string]any{"kid": "bad"}),
		"key for encryption":        publish(t, key.Public(), map[string]any{"kid": "bad", "use": "enc"}),
		"key only for signing":      publish(t, key.Public(), map[string]any{"kid": "bad", "key_ops": []string{"sign"}}),
		"alg of another type":       publish(t, key.Public(), map[string]any{"kid": "bad", "alg": "RS256"}),
		"alg HS256":                 publish(t, key.Public(), map[string]any{"kid": "bad", "alg": "HS256"}),
		"point that is on no curve": publish(t, key.Public(), map[string]any{"kid": "bad", "x": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE"}),
		"unknown key type":          {"kty": "LWE", "kid": "bad"},
		"RSA of 1024 bits":          publish(t, weak.Public(), map[string]any{"kid": "bad"}),
	} {
		t.Run(name, func(t *testing.T) {
			p := &fakeIDP{}
			good := newKey(t)
			p.serve(t, published, publish(t, good.Public(), map[string]any{"kid": "good"}))
			a := start(t, tokenConfig(p))
			if health := a.Health()[0]; health.Keys != 1 || health.Skipped != 1 {
				t.Errorf("health %+v, want one key and one skipped", health)
			}
			mustIdentify(t, a, signES256(t, good, "good", claimsAt(noon, nil)))
			_, err := a.Identify(t.Context(), bearer(signES256(t, key, "bad", claimsAt(noon, nil))))
			wantClass(t, err, identity.ClassUnknownKey)
		})
	}
}

func TestTwoKeysOfOneKidAreBothTried(t *testing.T) {
	one, two := newKey(t), newKey(t)
	p := &fakeIDP{}
	p.serve(t, publish(t, one.Public(), map[string]any{"kid": "k"}), publish(t, two.Public(), map[string]any{"kid": "k"}))
	a := start(t, tokenConfig(p))
	mustIdentify(t, a, signES256(t, one, "k", claimsAt(noon, nil)))
	mustIdentify(t, a, signES256(t, two, "k", claimsAt(noon, nil)))
	_, err := a.Identify(t.Context(), bearer(signES256(t, newKey(t), "k", claimsAt(noon, nil))))
	wantClass(t, err, identity.ClassBadSignature)
}

func TestAnIssuersKeyProvesNoOtherIssuersPeople(t *testing.T) {
	mine, other := newKey(t), newKey(t)
	const otherKeys = "https://other.example/keys"
	p := &fakeIDP{}
	p.serve(t, publish(t, mine.Public(), map[string]any{"kid": "k"}))
	p.set(func(p *fakeIDP) {
		p.answers[otherKeys] = keySetJSON(t, publish(t, other.Public(), map[string]any{"kid": "k"}))
	})
	cfg := tokenConfig(p)
	cfg.Issuers = append(cfg.Issuers, identity.IssuerConfig{Issuer: "https://other.example", Audience: []string{"else"}, JWKSURL: otherKeys})
	a := start(t, cfg)
	_, err := a.Identify(t.Context(), bearer(signES256(t, other, "k", claimsAt(noon, nil))))
	wantClass(t, err, identity.ClassBadSignature)
	_, err = a.Identify(t.Context(), bearer(signES256(t, other, "k", claimsAt(noon, map[string]any{"iss": "https://other.example"}))))
	wantClass(t, err, identity.ClassWrongAudience)
	mustIdentify(t, a, signES256(t, other, "k", claimsAt(noon, map[string]any{"iss": "https://other.example", "aud": "else"})))
	mustIdentify(t, a, signES256(t, mine, "k", claimsAt(noon, nil)))
}

func mustIdentify(t *testing.T, a *identity.Authenticator, token string) {
	t.Helper()
	if _, err := a.Identify(t.Context(), bearer(token)); err != nil {
		t.Errorf("a good token is refused: %v", err)
	}
}

func wantClass(t *testing.T, err error, want identity.Class) {
	t.Helper()
	if got := classOf(t, err); got != want {
		t.Errorf("class %q, want %q (%v)", got, want, err)
	}
}
