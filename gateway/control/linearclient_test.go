package control

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"
)

// recorder keeps what clients saw, and when.
type recorder struct {
	begin   time.Time
	mu      sync.Mutex // guards what follows
	history []porcupine.Operation
	seen    map[string]int
	numbers int
	known   []takenBack
}

// takenBack is how an approval that a client knows of is taken back.
type takenBack struct {
	deed
	id uuid.UUID
}

// number is a new approval's.
func (r *recorder) number() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.numbers++
	return r.numbers
}

func (r *recorder) gave(d deed, id uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = append(r.known, takenBack{d, id})
}

// given is one of the change's newer approvals.
func (r *recorder) given(change int, dice *rand.Rand) (takenBack, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var of []takenBack
	for _, one := range r.known {
		if one.change == change {
			of = append(of, one)
		}
	}
	if len(of) == 0 {
		return takenBack{}, false
	}
	return of[len(of)-1-dice.IntN(min(3, len(of)))], true
}

func newRecorder() *recorder { return &recorder{begin: time.Now(), seen: map[string]int{}} }

// record has an operation carried out. One whose answer was lost is open to the end.
func (r *recorder) record(client int, d deed, work func() string) {
	call := time.Since(r.begin).Nanoseconds()
	out := work()
	back := time.Since(r.begin).Nanoseconds()
	r.mu.Lock()
	defer r.mu.Unlock()
	if out == cameLost {
		back, client = math.MaxInt64, client+1000*(1+len(r.history))
	}
	r.history = append(r.history, porcupine.Operation{ClientId: client, Input: d, Call: call, Output: out, Return: back})
	r.seen[d.act+": "+out]++
}

// linearClient asks one process for one thing after another.
type linearClient struct {
	n       int
	dice    *rand.Rand
	process *process
	changes []uuid.UUID
	rec     *recorder
	// open is this client's attempt, and of what it was.
	open *reply
	of   deed
}

// act does what the dice say.
func (c *linearClient) act() {
	d := deed{act: "approve", change: c.dice.IntN(linearChanges), person: linearChanges + c.dice.IntN(linearPeople-linearChanges)}
	o := order{Asks: linearAsks}
	switch k := c.dice.IntN(100); {
	case c.open != nil && k < 60:
		d = deed{act: "give back", change: c.of.change, person: c.of.person}
		o.Attempt, o.Owner, c.open = c.open.Attempt, c.open.Owner, nil
	case k < 4:
		d.act, d.person = "revoke", c.dice.IntN(linearPeople)
	case k < 22:
		if given, some := c.rec.given(d.change, c.dice); some {
			d, o.Approval = given.deed, given.id
		}
	case k < 60:
		d.act = "apply"
	}
	if d.act == "approve" {
		d.approval = c.rec.number()
	}
	o.Act, o.Person, o.Change, o.Machine = d.act, linearPerson(d.person), c.changes[d.change], fmt.Sprintf("w%d", d.change+1)
	c.rec.record(c.n, d, func() string {
		r := c.process.do(o)
		switch {
		case r.Came != cameOK:
		case d.act == "apply":
			c.open, c.of = &r, d
		case d.act == "approve":
			c.rec.gave(deed{"withdraw", d.change, d.person, d.approval}, r.Approval)
		}
		return r.Came
	})
}
