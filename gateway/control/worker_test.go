package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/policy"
)

// Environment of a worker process: the database it opens, and its instance.
const (
	workerDatabase = "BRONZEWARD_TEST_DATABASE"
	workerInstance = "BRONZEWARD_TEST_INSTANCE"
)

// What an act came to, as a client hears it. Lost is no answer at all.
const (
	cameOK          = "ok"
	cameRevoked     = "the caller is revoked"
	cameNotLive     = "the change is not live"
	cameLate        = "it is being sent already"
	cameTooFew      = "too few approvals count"
	cameAlready     = "it was so already"
	cameBusy        = "busy"
	cameUnavailable = "unavailable"
	cameLost        = "no answer"
)

// order is one act for a worker process; reply is what it came to.
type (
	order struct {
		ID       int
		Act      string
		Person   policy.Person
		Change   uuid.UUID
		Machine  string
		Asks     int
		Approval uuid.UUID
		Attempt  uuid.UUID
		Owner    Owner
	}
	reply struct {
		ID       int
		Came     string
		Approval uuid.UUID
		Attempt  uuid.UUID
		Owner    Owner
	}
)

// TestWorkerProcess is a gateway process of another test: it serves orders until they end.
// In an ordinary run it does nothing.
func TestWorkerProcess(t *testing.T) {
	if os.Getenv(workerDatabase) == "" {
		return
	}
	orders, replies := os.NewFile(3, "orders"), os.NewFile(4, "replies")
	s, err := Open(t.Context(), Config{URL: os.Getenv(workerDatabase), Instance: os.Getenv(workerInstance), Logger: discard(), PollEvery: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var (
		mu  sync.Mutex
		wg  sync.WaitGroup
		in  = json.NewDecoder(orders)
		out = json.NewEncoder(replies)
	)
	for {
		var o order
		if err := in.Decode(&o); err != nil {
			break // the other test has ended, or wants no more
		}
		wg.Go(func() {
			r := carryOut(t, s, o)
			mu.Lock()
			defer mu.Unlock()
			if err := out.Encode(r); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// carryOut does one order, as the gateway would.
func carryOut(t *testing.T, s *Store, o order) reply {
	r, ctx, id := reply{ID: o.ID}, t.Context(), ChangeID(o.Change)
	var err error
	switch o.Act {
	case "approve":
		var given []Approval
		given, err = s.Approve(ctx, approver(o.Person), []ApproveOne{{ID: id, Digest: digestA}}, by(o.Person, "changes.approve"))
		if err == nil {
			r.Approval = uuid.UUID(given[0].ID)
		}
	case "withdraw":
		err = takeBack(ctx, s, ApprovalID(o.Approval))
	case "revoke":
		_, err = s.RevokeIdentity(ctx, o.Person, "left", by(admin, "identities.revoke"))
	case "apply":
		return carryOutApply(t, s, o)
	case "give back":
		err = s.CloseAttempt(ctx, Closing{AttemptID: o.Attempt, Owner: o.Owner, To: StateNotSent})
	}
	r.Came = came(t, err)
	return r
}

// carryOutApply judges carefully on what is locked: every refusal is a decision of its own.
func carryOutApply(t *testing.T, s *Store, o order) reply {
	r, id := reply{ID: o.ID}, ChangeID(o.Change)
	adm, err := rounds(context.WithoutCancel(t.Context()), s, o.Machine, o.Person, func(l Locked) Judgement {
		j, c := spending(id, asksFor(o.Asks))(l), l.change(id)
		switch {
		case l.CallerRevoked:
			r.Came = cameRevoked
		case len(l.Holds) > 0:
			r.Came = cameBusy
		case c == nil:
			r.Came = cameNotLive
		case len(c.Counting(asksFor(o.Asks), o.Person, l.Epoch)) < o.Asks:
			r.Came = cameTooFew
		default:
			r.Came = cameOK
			return j
		}
		j = allowOnly(l)
		j.Entry.Verdict = audit.Denied
		return j
	})
	switch {
	case err != nil:
		r.Came = came(t, err)
	case adm.Attempt != nil:
		r.Attempt, r.Owner = adm.Attempt.ID, adm.Attempt.Owner
	}
	return r
}

// came says what an error means to a client.
func came(t *testing.T, err error) string {
	var (
		guard   *GuardError
		change  *ChangeError
		unknown *CommitUnknownError
	)
	switch {
	case err == nil:
		return cameOK
	case errors.Is(err, errLate):
		return cameLate
	case errors.As(err, &unknown):
		return cameLost
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrMoved):
		return cameUnavailable
	case errors.Is(err, ErrBusy), errors.Is(err, ErrInFlight):
		return cameBusy
	case errors.As(err, &guard) && guard.Guard == "caller_not_revoked":
		return cameRevoked
	case errors.As(err, &change) && change.Code == "BW-CHANGE-002":
		return cameNotLive
	case errors.As(err, &change) && change.Code == "BW-CHANGE-007", errors.Is(err, ErrConflict):
		return cameAlready
	}
	t.Errorf("an answer nobody expects: %v", err)
	return cameLost
}

// process is a worker process, seen from the test that started it.
type process struct {
	cmd  *exec.Cmd
	in   *os.File
	said *bytes.Buffer
	gone chan struct{} // closed when no reply comes any more

	mu      sync.Mutex
	last    int                // guarded by mu
	pending map[int]chan reply // guarded by mu; null when no reply comes any more
}

// worker starts this test binary once more, as a gateway process on the test's database.
func (w *world) worker(t *testing.T, instance string) *process {
	t.Helper()
	childIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{in: in, said: &bytes.Buffer{}, gone: make(chan struct{}), pending: map[int]chan reply{}}
	p.cmd = exec.Command(os.Args[0], "-test.run=^TestWorkerProcess$")
	p.cmd.Env = append(os.Environ(), workerDatabase+"="+w.url(t, asGateway), workerInstance+"="+instance)
	p.cmd.ExtraFiles = []*os.File{childIn, childOut}
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	childIn.Close()
	childOut.Close()
	go p.listen(out)
	return p
}

// listen hands out replies until the process closes its end.
func (p *process) listen(out *os.File) {
	defer close(p.gone)
	defer out.Close()
	for replies := json.NewDecoder(out); ; {
		var r reply
		err := replies.Decode(&r)
		p.mu.Lock()
		if err != nil {
			for _, ch := range p.pending {
				close(ch)
			}
			p.pending = nil
			p.mu.Unlock()
			return
		}
		p.pending[r.ID] <- r
		delete(p.pending, r.ID)
		p.mu.Unlock()
	}
}

// do has one order carried out. Its answer is lost when the process ends before it came.
func (p *process) do(o order) reply {
	ch := make(chan reply, 1)
	p.mu.Lock()
	if p.pending == nil {
		p.mu.Unlock()
		return reply{Came: cameUnavailable} // it was never asked
	}
	p.last++
	o.ID = p.last
	p.pending[o.ID] = ch
	err := json.NewEncoder(p.in).Encode(o)
	p.mu.Unlock()
	if r, answered := <-ch; answered && err == nil {
		return r
	}
	return reply{Came: cameLost}
}

// leave lets the process end and fails the test when it did not end well.
func (p *process) leave(t *testing.T, killed bool) {
	t.Helper()
	if killed {
		_ = p.cmd.Process.Kill()
	}
	p.in.Close()
	<-p.gone
	if err := p.cmd.Wait(); (err != nil) != killed {
		t.Errorf("the worker process: %v\n%s", err, p.said)
	}
}
