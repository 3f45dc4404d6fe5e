package gateway

import (
	"crypto/tls"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"bronzeward/audit"
)

// The limit of an address holds before anybody is proven and before anything is recorded.
func TestTheAddressLimitComesBeforeTheBook(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) {
		s.gateway = func(c *Config) { c.Limits = Limits{CallsPerSecondPerAddress: 0.001} }
	})
	c := h.as(t, "vera")
	succeeded(t, c.version(t, "w1")) // the bucket has one token
	before := h.count(t, "select count(*) from audit.entries")
	for range 5 {
		refusedWith(t, c.version(t, "w1"), codes.ResourceExhausted, "BW-LIMIT-001")
	}
	if n := h.count(t, "select count(*) from audit.entries"); n != before {
		t.Errorf("%d entries were made by calls over the address limit", n-before)
	}
	if n := len(h.nodes["w1"].Log().Of(methodVersion)); n != 1 {
		t.Errorf("the node was sent %d calls", n)
	}
}

// The limit of a caller is theirs alone, and is recorded.
func TestTheCallersLimitIsTheirsAlone(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) {
		s.gateway = func(c *Config) { c.Limits = Limits{CallsPerSecond: 0.001} }
	})
	c := h.as(t, "vera")
	succeeded(t, c.version(t, "w1"))
	a := c.version(t, "w1")
	refusedWith(t, a, codes.ResourceExhausted, "BW-LIMIT-002")
	if n := h.count(t, "select count(*) from audit.entries where id::text = any ($1) and verdict = 'refuse'", a.decisions()); n != 1 {
		t.Errorf("%d entries", n)
	}
	succeeded(t, h.as(t, "olga").version(t, "w1"))
	// Another connection and another certificate of the same person are the same person.
	refusedWith(t, h.with(t, h.shortLived(t, "vera", time.Hour)).version(t, "w1"), codes.ResourceExhausted, "BW-LIMIT-002")
}

// A caller may have so many calls open and no more; one that ends makes room.
func TestOpenStreamsOfACallerAreLimited(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) {
		s.gateway = func(c *Config) { c.Limits = Limits{StreamsPerCaller: 2} }
	})
	c := h.as(t, "vera")
	for range 2 {
		must(c.openEvents(bounded(t), "w1"))(t)
	}
	h.streams(t, "w1", 2)
	refusedWith(t, c.version(t, "w1"), codes.ResourceExhausted, "streams_per_caller")
	succeeded(t, h.as(t, "olga").version(t, "w1"))
	ok(t, c.conn.Close())
	h.streams(t, "w1", 0)
	again := h.as(t, "vera")
	eventually(t, "room", func() bool { return again.version(t, "w1").err == nil })
}

// A flood of strangers is one entry per address, class and window, with its count.
func TestAFloodOfStrangersIsOneEntryPerWindow(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) {
		s.book = func(c *audit.BookConfig) { c.RefusalWindow = time.Second }
	})
	const flood = 60
	c := h.with(t, &tls.Config{})
	answers := make(chan answer, flood)
	began := time.Now()
	for range flood {
		go func() { answers <- c.call(bounded(t), methodVersion, to("w1"), nil) }()
	}
	ids := map[string]bool{}
	for range flood {
		a := <-answers
		refusedWith(t, a, codes.Unauthenticated, "BW-CREDENTIAL-001: no-credential")
		for _, id := range a.decisions() {
			ids[id] = true
		}
	}
	windows := int(time.Since(began)/time.Second) + 2
	if n := h.count(t, "select count(*) from audit.entries where verdict = 'refuse'"); n != len(ids) || n > windows {
		t.Errorf("%d entries in %d windows, %d ids were told", n, windows, len(ids))
	}
	if n := h.count(t, "select sum(count)::int from audit.entries where verdict = 'refuse' and client_address = '127.0.0.1' and class = 'no-credential'"); n != flood {
		t.Errorf("%d refusals are counted, want %d", n, flood)
	}
	h.untouched(t, "w1")
}

// Buckets of keys nobody uses are forgotten.
func TestBucketsAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.Unix(1, 0)
	b := newBuckets(1, func() time.Time { return now })
	for i := range 1000 {
		b.allow("key " + itoa(i))
	}
	now = now.Add(2 * forgetAfter)
	b.allow("another")
	if n := len(b.all); n != 1 {
		t.Errorf("%d buckets are kept", n)
	}
	if !b.allow("another") || b.allow("another") {
		t.Error("a bucket of one a second does not hold two tokens")
	}
}
