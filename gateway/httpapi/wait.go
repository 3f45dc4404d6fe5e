package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// stillEvery is how often it is asked whether a waiting caller still may, which costs no
	// query: a revocation ends every wait within a second.
	stillEvery = 250 * time.Millisecond
	// looksAt is at which of these a waiting request looks at the store: once a second.
	looksAt = 4
	// mostWait is the longest a request waits.
	mostWait = 60 * time.Second
)

// unlessKnown answers with what look gives, and its ETag, unless If-None-Match names that.
// Then it waits as long as Prefer says, looking once a second, and answers 304 when nothing
// came. A wait ends early with the client, the server, the caller's proof and the caller's
// authority. look is one read of the store, and leaves no entry: the request has its own.
func (c *call) unlessKnown(look func() (answer, error)) (answer, error) {
	known := c.r.Header.Values("If-None-Match")
	wait := c.preferredWait(known)
	if wait > 0 && !c.waiting.TryAcquire(1) {
		wait = 0
	}
	if wait > 0 {
		defer c.waiting.Release(1)
		c.header.Set("Preference-Applied", "wait="+strconv.Itoa(int(wait/time.Second)))
	}
	until := time.NewTimer(wait)
	defer until.Stop()
	tick := time.NewTicker(stillEvery)
	defer tick.Stop()
	for over := wait == 0; ; {
		a, err := look()
		if err != nil {
			return nil, err
		}
		kept := &keptAnswer{header: http.Header{}}
		if err := a(kept); err != nil {
			return nil, err
		}
		tag := tagOf(kept.body.Bytes())
		c.header.Set("ETag", tag)
		switch {
		case !named(known, tag):
			return kept.again, nil
		case over:
			return notModified, nil
		}
		for ticks := 0; ticks < looksAt && !over; ticks++ {
			select {
			case <-c.ctx.Done():
				return nil, c.ctx.Err()
			case <-c.Stopping:
				over = true
			case <-until.C:
				over = true
			case <-tick.C:
			}
			if err := c.still(); err != nil {
				return nil, err
			}
		}
	}
}

// still refuses to go on for somebody whose authority or proof ended while they waited.
func (c *call) still() error {
	if c.Authority.Revoked(c.by.Caller.Issuer, c.by.Caller.Subject) {
		return &problem{status: http.StatusForbidden, code: "BW-IDENTITY-001", detail: "this identity was revoked while it waited"}
	}
	if ends := c.by.Caller.ProofEnds; !ends.IsZero() && !c.Authority.Now().Before(ends) {
		return &problem{status: http.StatusUnauthorized, code: "BW-CREDENTIAL-004", detail: "the credential ended while the request waited"}
	}
	return nil
}

// preferredWait is what `Prefer: wait=…` asks for, at most a minute (RFC 7240, section 4.3);
// zero without an If-None-Match, because then every answer is news. A preference that is
// not understood is none.
func (c *call) preferredWait(known []string) time.Duration {
	if len(known) == 0 {
		return 0
	}
	for _, one := range strings.FieldsFunc(strings.Join(c.r.Header.Values("Prefer"), ","), func(r rune) bool { return r == ',' || r == ';' }) {
		name, value, _ := strings.Cut(one, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
		if err != nil {
			return 0
		}
		return min(time.Duration(seconds)*time.Second, mostWait)
	}
	return 0
}

// tagOf names a body; two bodies with one tag are the same for all practical purposes.
func tagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// named is whether an If-None-Match names the tag, compared weakly as RFC 9110 asks for.
func named(known []string, tag string) bool {
	for _, one := range strings.Split(strings.Join(known, ","), ",") {
		one = strings.TrimPrefix(strings.TrimSpace(one), "W/")
		if one == tag || one == "*" {
			return true
		}
	}
	return false
}

func notModified(w http.ResponseWriter) error {
	w.WriteHeader(http.StatusNotModified)
	return nil
}

// again writes a kept answer once more.
func (k *keptAnswer) again(w http.ResponseWriter) error {
	for name, values := range k.header {
		w.Header()[name] = values
	}
	w.WriteHeader(k.status)
	_, err := w.Write(k.body.Bytes())
	return err
}
