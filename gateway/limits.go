package gateway

import (
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"bronzeward/gateway/identity"
)

// Limits bound what one caller or one address can cost. Zero fields take the default.
type Limits struct {
	// CallsPerSecond is per caller; default 200, burst twice that.
	CallsPerSecond float64
	// StreamsPerCaller is how many calls of one caller may be open at once; default
	// 128 (a dashboard opens about twenty).
	StreamsPerCaller int
	// CallsPerSecondPerAddress is per client address and checked before the caller is
	// known, so before anything is recorded; default 500, burst twice that.
	CallsPerSecondPerAddress float64
	// ConnectionsPerAddress is how many connections one client address, or one IPv6 /64,
	// may hold; default 256.
	ConnectionsPerAddress int
}

func (l Limits) withDefaults() Limits {
	if l.CallsPerSecond == 0 {
		l.CallsPerSecond = 200
	}
	if l.StreamsPerCaller == 0 {
		l.StreamsPerCaller = 128
	}
	if l.CallsPerSecondPerAddress == 0 {
		l.CallsPerSecondPerAddress = 500
	}
	if l.ConnectionsPerAddress == 0 {
		l.ConnectionsPerAddress = 256
	}
	return l
}

// forgetAfter is how long an idle key keeps its bucket; a full bucket forgets nothing.
const forgetAfter = time.Minute

// buckets are token buckets by key. Safe for concurrent use.
type buckets struct {
	perSecond float64
	now       func() time.Time

	mu    sync.Mutex // guards all and swept
	all   map[string]*bucket
	swept time.Time
}

type bucket struct {
	limiter *rate.Limiter
	used    time.Time
}

func newBuckets(perSecond float64, now func() time.Time) *buckets {
	return &buckets{perSecond: perSecond, now: now, all: map[string]*bucket{}, swept: now()}
}

// allow takes one token of the key's bucket.
func (b *buckets) allow(key string) bool {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.swept) > forgetAfter {
		for k, old := range b.all {
			if now.Sub(old.used) > forgetAfter {
				delete(b.all, k)
			}
		}
		b.swept = now
	}
	one, ok := b.all[key]
	if !ok {
		one = &bucket{limiter: rate.NewLimiter(rate.Limit(b.perSecond), max(1, int(2*b.perSecond)))}
		b.all[key] = one
	}
	one.used = now
	return one.limiter.AllowN(now, 1)
}

// Allow is the HTTP door's limit, and the same buckets as the other door's: asked with the
// zero Caller for the address, before it is known who calls, and then for the caller.
func (g *Gateway) Allow(address string, who identity.Caller) bool {
	if who.Subject == "" {
		if g.perAddress.allow(addressKey(address)) {
			return true
		}
		g.metrics.limited.WithLabelValues("address").Inc()
		return false
	}
	if g.perCaller.allow(who.Issuer + "\x00" + who.Subject) {
		return true
	}
	g.metrics.limited.WithLabelValues("calls").Inc()
	return false
}

// Limit bounds the connections one address may hold, for the HTTP door's listener. Behind a
// listed load balancer the address is the one its header names, here and in all that follows.
func (g *Gateway) Limit(l net.Listener) net.Listener {
	return limitConnections(g.behind(l), g.connsLimit, func() { g.metrics.limited.WithLabelValues("connections").Inc() })
}
