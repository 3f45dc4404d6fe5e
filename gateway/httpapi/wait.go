package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// stillEvery is how often it is asked whether a waiting caller still may, which costs no
	// query: a revocation ends every wait within a second.
	stillEvery = 250 * time.Millisecond
	// mostWait is the longest a request waits.
	mostWait = 60 * time.Second
)

// waits is a handler that may end in unlessKnown: a wait is counted before the request is
// judged, because that leaves its entry.
func waits(handle handler) handler {
	return func(c *call) (answer, error) {
		if c.wait = c.preferredWait(); c.wait > 0 {
			if err := c.hold(holdsWait); err != nil {
				return nil, err
			}
		}
		return handle(c)
	}
}

// unlessKnown answers with what look gives, and its ETag, unless If-None-Match names that.
// Then it waits as long as Prefer says and sees once a second, with all who wait for the same
// thing, whether something came; if not it answers 304. A wait ends early with the client,
// the server, the caller's proof and the caller's authority. of is what look depends on.
func (c *call) unlessKnown(of any, look look) (answer, error) {
	wait := c.wait
	if wait > 0 && !c.waiting.TryAcquire(1) {
		wait = 0
	}
	if wait > 0 {
		defer c.waiting.Release(1)
		c.header.Set("Preference-Applied", "wait="+strconv.Itoa(int(wait/time.Second)))
	}
	until := time.NewTimer(wait)
	defer until.Stop()
	now, err := see(c.ctx, look)
	if err != nil {
		return nil, err
	}
	known := c.r.Header.Values("If-None-Match")
	if wait > 0 && named(known, now.tag) {
		if now, err = c.await(fmt.Sprintf("%T %#v", of, of), known, now, until.C, look); err != nil {
			return nil, err
		}
	}
	c.header.Set("ETag", now.tag)
	if named(known, now.tag) {
		return notModified, nil
	}
	return now.kept.again, nil
}

// await gives the first thing that is not known, or the last that was seen when the time is up.
func (c *call) await(key string, known []string, now seen, until <-chan time.Time, look look) (seen, error) {
	defer c.looks.join(key, now)()
	still := time.NewTicker(stillEvery)
	defer still.Stop()
	for named(known, now.tag) {
		over, err := c.pause(now.began.Add(lookEvery), until, still.C)
		if err != nil {
			return seen{}, err
		}
		if over {
			if newer, ok := c.looks.newer(key, now); ok {
				now = newer
			}
			return now, nil
		}
		if now, err = c.looks.next(c.ctx, key, now, look); err != nil {
			return seen{}, err
		}
	}
	return now, nil
}

// pause lasts until it is time to look again, or the wait is over.
func (c *call) pause(again time.Time, until, still <-chan time.Time) (over bool, err error) {
	due := time.NewTimer(time.Until(again))
	defer due.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return true, c.ctx.Err()
		case <-c.Stopping:
			return true, c.still()
		case <-until:
			return true, c.still()
		case <-due.C:
			return false, c.still()
		case <-still:
			if err := c.still(); err != nil {
				return true, err
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
func (c *call) preferredWait() time.Duration {
	if len(c.r.Header.Values("If-None-Match")) == 0 {
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
