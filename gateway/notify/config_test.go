package notify

import (
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func goodConfig() Config {
	return Config{
		URL: "https://hooks.example/bronzeward", SecretFile: "/does/not/exist", Outbox: newOutbox(0), Counter: newOutbox(0),
		Describe: describe(itsID), Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	}
}

func TestConfigsThatAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no secret file":         {func(c *Config) { c.SecretFile = "" }, "SecretFile is required"},
		"no outbox":              {func(c *Config) { c.Outbox = nil }, "Outbox is required"},
		"no counter":             {func(c *Config) { c.Counter = nil }, "Counter is required"},
		"nobody who describes":   {func(c *Config) { c.Describe = nil }, "Describe is required"},
		"no registry":            {func(c *Config) { c.Registry = nil }, "Registry is required"},
		"no logger":              {func(c *Config) { c.Logger = nil }, "Logger is required"},
		"a long timeout":         {func(c *Config) { c.Timeout = time.Minute }, "Timeout is 1m0s"},
		"a negative timeout":     {func(c *Config) { c.Timeout = -1 }, "Timeout is -1ns"},
		"a lease too short":      {func(c *Config) { c.Lease = 15 * time.Second }, "Lease is 15s"},
		"a poll that never ends": {func(c *Config) { c.PollEvery = -1 }, "PollEvery is"},
		"retries the wrong way":  {func(c *Config) { c.FirstRetry = 3 * time.Hour }, "FirstRetry is 3h"},
		"nothing at once":        {func(c *Config) { c.Concurrency = -1 }, "Concurrency is -1"},
		"everything at once":     {func(c *Config) { c.Concurrency = 65 }, "Concurrency is 65"},
		"no tries":               {func(c *Config) { c.MaxTries = -1 }, "MaxTries is -1"},
		"a proxy of no kind":     {func(c *Config) { c.Proxy = &url.URL{Scheme: "ftp", Host: "x"} }, "Proxy must be"},
	} {
		t.Run(name, func(t *testing.T) {
			c := goodConfig()
			test.change(&c)
			s, err := New(c)
			if s != nil || err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	err := Config{}.Validate()
	if err == nil || strings.Count(err.Error(), "required") != 7 {
		t.Errorf("not every problem is said at once: %v", err)
	}
}

func TestAddressesOfReceivers(t *testing.T) {
	for address, good := range map[string]bool{
		"https://hooks.example/canary?token=canary": true,
		"https://10.0.0.1:8443":                     true,
		"http://127.0.0.1:8080/hook":                true,
		"http://127.8.9.1/hook":                     true,
		"http://[::1]/hook":                         true,
		"http://hooks.example/canary":               false,
		"http://localhost/canary":                   false,
		"http://127.0.0.1.evil.example/canary":      false,
		"http://10.0.0.1/canary":                    false,
		"https://user:canary@hooks.example":         false,
		"https://hooks.example/#canary":             false,
		"https:///canary":                           false,
		"https:canary":                              false,
		"file:///etc/canary":                        false,
		"unix:///run/canary":                        false,
		"://canary":                                 false,
		"https://hooks.example/%zzcanary":           false,
		"canary":                                    false,
		"":                                          false,
	} {
		c := goodConfig()
		c.URL = address
		err := c.Validate()
		if (err == nil) != good {
			t.Errorf("%s: %v", address, err)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("the error quotes the address: %v", err)
		}
	}
	c := goodConfig()
	c.URL, c.AllowHTTP = "http://hooks.example", true
	if err := c.Validate(); err != nil {
		t.Errorf("http that is allowed: %v", err)
	}
}

// New reads no file (there is none) and registers once.
func TestNewDoesNoIO(t *testing.T) {
	c := goodConfig()
	if _, err := New(c); err != nil {
		t.Fatal(err)
	}
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "registering") {
		t.Errorf("a second sender on one registry: %v", err)
	}
}
