package identity

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type refusing struct{ count int }

func (r *refusing) RoundTrip(*http.Request) (*http.Response, error) {
	r.count++
	return nil, errors.New("connection refused")
}

// Control for the cool-down: when the time of the last demand is forgotten, every demand is a fetch.
func TestControlWithoutCooldownEveryDemandFetches(t *testing.T) {
	for _, row := range []struct {
		name    string
		guarded bool
		want    int
	}{{"guarded", true, 2}, {"guard removed", false, 51}} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport := &refusing{}
				s := &issuer{
					cfg:    IssuerConfig{Issuer: "https://idp.example", JWKSURL: "https://idp.example/keys"},
					client: &http.Client{Transport: transport}, maxAge: time.Hour, refresh: time.Hour,
					cooldown: time.Minute, log: Config{}.withDefaults().Logger,
					wake: make(chan struct{}, 1), pending: make(chan struct{}),
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); s.run(ctx) }()
				synctest.Wait()
				for range 50 {
					if !row.guarded {
						s.mu.Lock()
						s.demandedAt = time.Time{}
						s.mu.Unlock()
					}
					if err := s.demand(ctx); err == nil {
						t.Error("a demand succeeded")
					}
				}
				cancel()
				<-done
				if transport.count != row.want {
					t.Errorf("%d fetches, want %d", transport.count, row.want)
				}
			})
		})
	}
}

// constant answers every request with one document.
type constant string

func (c constant) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(strings.NewReader(string(c)))}, nil
}

// Remembered tokens are tied to the set by its address: a refresh that brings the same keys must not forget them all.
func TestSameKeysAgainKeepTheSet(t *testing.T) {
	document := constant(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`)
	s := &issuer{
		cfg: IssuerConfig{JWKSURL: "https://idp.example/keys"}, client: &http.Client{Transport: document},
		maxAge: time.Hour, log: Config{}.withDefaults().Logger,
	}
	var sets []*keySet
	for range 2 {
		if err := s.fetchAndKeep(t.Context()); err != nil {
			t.Fatal(err)
		}
		sets = append(sets, s.current())
	}
	if sets[0] == nil || sets[0] != sets[1] {
		t.Error("the second fetch of the same keys made another set")
	}
	s.client.Transport = constant(strings.Replace(string(document), `"k"`, `"k2"`, 1))
	if err := s.fetchAndKeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.current() == sets[0] {
		t.Error("another key id made no other set")
	}
}

func TestPauseGrowsToTheRefreshIntervalAndNoFurther(t *testing.T) {
	s := &issuer{refresh: 15 * time.Minute, cooldown: 30 * time.Second}
	for failures, want := range map[int]time.Duration{
		1: 30 * time.Second, 2: time.Minute, 5: 8 * time.Minute, 6: 15 * time.Minute, 1000: 15 * time.Minute,
	} {
		if got := s.pause(failures); got != want {
			t.Errorf("after %d failures %v, want %v", failures, got, want)
		}
	}
	if got := s.pause(0); got > s.refresh || got < s.refresh*9/10 {
		t.Errorf("after success %v, want the interval less at most a tenth", got)
	}
	long := &issuer{refresh: 30 * 24 * time.Hour, cooldown: 30 * 24 * time.Hour}
	if got := long.pause(1000); got != long.refresh {
		t.Errorf("the longest settings give %v", got)
	}
}
