package config

import (
	"net/url"
	"time"

	"bronzeward/gateway"
)

// ChangesConfig are the clocks and caps of captured changes; zero takes the default.
type ChangesConfig struct {
	// ApproveWithin is how long after its capture the last needed approval may come; default 24h.
	ApproveWithin time.Duration `yaml:"approve_within"`
	// UseWithin is how long after that approval it may be applied; default 1h.
	UseWithin time.Duration `yaml:"use_within"`
	// WaitingPerCaller and WaitingBytesPerCaller cap what one person may have waiting;
	// default 50 changes and 67108864 bytes.
	WaitingPerCaller      int   `yaml:"waiting_per_caller"`
	WaitingBytesPerCaller int64 `yaml:"waiting_bytes_per_caller"`
	// KeepSealed is how long the sealed bytes of a change that has ended are kept; default 24h.
	KeepSealed time.Duration `yaml:"keep_sealed"`
}

// DriftConfig is how machines are watched; zero takes the default.
type DriftConfig struct {
	// PollEvery is how often each machine is looked at although it told of no change; default
	// 3m, between 10s and 1h.
	PollEvery time.Duration `yaml:"poll_every"`
	// KeepApplied is how long sealed copies of applied configurations are kept, at least 1h;
	// default 2160h. That of what was applied last stays.
	KeepApplied time.Duration `yaml:"keep_applied"`
}

// GatewayDrift are the settings as the gateway takes them.
func (c *Config) GatewayDrift() gateway.Drift {
	return gateway.Drift{PollEvery: c.Drift.PollEvery, KeepApplied: c.Drift.KeepApplied}
}

// SealConfig is what seals the exact bytes of changes.
type SealConfig struct {
	// KeysFile holds the sealing keys; its name must say that it is for development. OpenBao seals
	// else.
	KeysFile string `yaml:"keys_file"`
}

// NotifyConfig tells approvers of waiting changes, by webhook.
type NotifyConfig struct {
	// WebhookURL is the receiver; https, or http on a loopback address. Nobody is told without it.
	WebhookURL string `yaml:"webhook_url"`
	// WebhookSecretFile holds one to four whsec_ secrets, one per line; each signs.
	WebhookSecretFile string `yaml:"webhook_secret_file"`
	// WebhookCA is a PEM file that verifies the receiver; default the system's.
	WebhookCA string `yaml:"webhook_ca"`
}

// GatewayChanges are the settings as the gateway takes them.
func (c *Config) GatewayChanges() gateway.Changes {
	return gateway.Changes{
		ApproveWithin: c.Changes.ApproveWithin, UseWithin: c.Changes.UseWithin, KeepSealed: c.Changes.KeepSealed,
		WaitingPerCaller: c.Changes.WaitingPerCaller, WaitingBytesPerCaller: c.Changes.WaitingBytesPerCaller,
		Notify: c.Notify.WebhookURL != "",
	}
}

// changeProblems are what is wrong with these keys.
func (c *Config) changeProblems(bad func(key, format string, args ...any), file func(key, path string, required bool)) {
	const most = 30 * 24 * time.Hour
	for _, d := range []struct {
		key   string
		value time.Duration
	}{
		{"changes.approve_within", c.Changes.ApproveWithin},
		{"changes.use_within", c.Changes.UseWithin},
	} {
		if d.value != 0 && (d.value < time.Minute || d.value > most) {
			bad(d.key, "%s is not between 1m and %s", d.value, most)
		}
	}
	if c.Changes.KeepSealed < 0 {
		bad("changes.keep_sealed", "%s is negative", c.Changes.KeepSealed)
	}
	if c.Changes.WaitingPerCaller < 0 || c.Changes.WaitingPerCaller > 10_000 {
		bad("changes.waiting_per_caller", "%d is not between 0 and 10000; 0 takes the default", c.Changes.WaitingPerCaller)
	}
	if c.Changes.WaitingBytesPerCaller < 0 {
		bad("changes.waiting_bytes_per_caller", "%d is negative", c.Changes.WaitingBytesPerCaller)
	}
	if d := c.Drift.PollEvery; d != 0 && (d < 10*time.Second || d > time.Hour) {
		bad("drift.poll_every", "%s is not between 10s and 1h", d)
	}
	if d := c.Drift.KeepApplied; d != 0 && d < time.Hour {
		bad("drift.keep_applied", "%s is less than 1h", d)
	}
	file("seal.keys_file", c.Seal.KeysFile, false)
	if c.Notify.WebhookURL == "" {
		return
	}
	if u, err := url.Parse(c.Notify.WebhookURL); err != nil || u.Host == "" {
		bad("notify.webhook_url", "is not a URL") // not quoted: it may hold a token
	}
	file("notify.webhook_secret_file", c.Notify.WebhookSecretFile, true)
	file("notify.webhook_ca", c.Notify.WebhookCA, false)
}
