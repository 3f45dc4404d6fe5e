package httpapi

import (
	"fmt"
	"net/http"
	"sync"

	"bronzeward/policy"
)

// holding is what one person may have in flight only so many times, whatever their
// credentials and addresses.
type holding int

const (
	holdsRequest holding = iota
	// holdsAct is a request that changes something: it may hold a body, locks and machines.
	holdsAct
	// holdsWait is a request that waits for something to change.
	holdsWait
	// holdsLarge is a body above mediumBody.
	holdsLarge
	kindsOfHolding
)

// holdingLimits are how many of each, and what they are called.
var holdingLimits = [kindsOfHolding]struct {
	word string
	most int
}{
	holdsRequest: {"requests", 64},
	holdsAct:     {"acts", 4},
	holdsWait:    {"waits", 8},
	holdsLarge:   {"large bodies", 2},
}

// limits count what each person has in flight. Who has nothing is not remembered. Safe for
// concurrent use.
type limits struct {
	mu     sync.Mutex // guards people
	people map[policy.Person]*[kindsOfHolding]int
}

func newLimits() *limits { return &limits{people: map[policy.Person]*[kindsOfHolding]int{}} }

// take counts one more, and is false without counting when that is too many.
func (l *limits) take(who policy.Person, k holding) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	has := l.people[who]
	if has == nil {
		has = &[kindsOfHolding]int{}
	}
	if has[k] >= holdingLimits[k].most {
		return false
	}
	has[k]++
	l.people[who] = has
	return true
}

// give counts one less of what was taken.
func (l *limits) give(who policy.Person, k holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	has := l.people[who]
	has[k]--
	if *has == ([kindsOfHolding]int{}) {
		delete(l.people, who)
	}
}

// hold counts the request among those of its caller until it ends, or refuses it.
func (c *call) hold(k holding) error {
	who := policy.Person{Issuer: c.by.Caller.Issuer, Subject: c.by.Caller.Subject}
	if !c.limits.take(who, k) {
		of := holdingLimits[k]
		return c.tooMany(fmt.Sprintf("this caller has %d %s in flight, which is the most", of.most, of.word), of.word)
	}
	c.atEnd(func() { c.limits.give(who, k) })
	return nil
}

// holdAll takes what every request of its route holds from its beginning. It comes before
// anything that leaves an entry: a refusal has its own.
func (c *call) holdAll() error {
	if err := c.hold(holdsRequest); err != nil || !c.route.changes() {
		return err
	}
	return c.hold(holdsAct)
}

// tooMany refuses a known caller who asks too often or for too much at once, counted as
// strangers are.
func (c *call) tooMany(detail, class string) error {
	return c.stranger(&problem{
		status: http.StatusTooManyRequests, code: "BW-LIMIT-002", detail: detail, hint: "wait a second and try again", header: retryAfter(1),
	}, class)
}

// tooManyOfAddress refuses before it is known who asks. It stays out of the book, which a
// flood would fill.
func tooManyOfAddress() *problem {
	return &problem{
		status: http.StatusTooManyRequests, code: "BW-LIMIT-001", detail: "too many requests from this address",
		hint: "wait a second and try again", unwritten: true, header: retryAfter(1),
	}
}

// atEnd has something done when the request ends.
func (c *call) atEnd(do func()) {
	before := c.release
	c.release = func() {
		do()
		before()
	}
}
