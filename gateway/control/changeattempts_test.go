package control

import (
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// observe reads the machine, or something that must end nothing.
func (r *changeRun) observe() {
	m := get(r.t, r.s, r.name)
	digest := rapid.SampledFrom([]string{digestB, digestC}).Draw(r.T, "runs")
	o := Observation{Began: time.Now(), NotedSerial: m.Serial, Identity: m.Identity, Active: digest, Persistent: digest}
	counts := !r.m.held()
	switch rapid.SampledFrom([]string{"good", "good", "good", "older serial", "no serial", "somebody else", "other key"}).Draw(r.T, "reading") {
	case "older serial":
		o.NotedSerial, counts = m.Serial-1, false
	case "no serial":
		o.NotedSerial, counts = 0, false
	case "somebody else":
		o.NodeID, counts = "stranger", false
	case "other key":
		o.Active, o.Persistent, counts = "hmac-sha256:k2:eeee", "hmac-sha256:k2:eeee", false
	}
	ok(r.t)(r.s.RecordObservation(r.t.Context(), r.name, o, by(admin, "machines.observe")))
	if counts {
		r.m.runs(digest)
	}
}

func (r *changeRun) sweep() {
	if _, err := r.s.ExpireChanges(r.t.Context()); err != nil {
		r.Fatal(err)
	}
	r.m.sweep()
}

func (r *changeRun) repin() {
	if rapid.IntRange(0, 3).Draw(r.T, "really") > 0 {
		return
	}
	r.m.pin++
	_, err := r.s.PinMachine(r.t.Context(), r.name, r.identity(), true, by(admin, "machines.pin"))
	if r.m.held() {
		r.m.pin--
		r.came(err, "busy")
		return
	}
	r.came(err, "")
	if r.m.live() {
		r.m.state = ChangeSuperseded
	}
}

// age moves one of the two clocks, or the attempt, into the past.
func (r *changeRun) age() {
	switch what := rapid.IntRange(0, 5).Draw(r.T, "clock"); {
	case what == 0 && r.m.state != "":
		r.w.exec(r.t, "update control.changes set created_at = created_at - interval '2 days', approve_by = approve_by - interval '2 days' where id = $1", uuid.UUID(r.c.ID))
		r.m.lateToOK = true
	case what == 1 && (r.m.state == ChangeApproved || r.m.state == ChangeSpent):
		r.w.exec(r.t, "update control.change_states set use_by = use_by - interval '2 days' where change_id = $1", uuid.UUID(r.c.ID))
		r.m.lateToGo = true
	case what > 1 && r.m.held() && !r.aged:
		r.w.age(r.t, r.a.ID, time.Hour)
		r.aged = true
	}
}

// close is the owner's end of the attempt.
func (r *changeRun) close() {
	if r.a == nil {
		return
	}
	to := rapid.SampledFrom([]State{StateCompleted, StateRejected, StateNotSent, StateUnresolved}).Draw(r.T, "to")
	c := Closing{AttemptID: r.a.ID, Owner: r.a.Owner, To: to, Reason: "because"}
	if to == StateCompleted {
		c.ReadActive, c.ReadPersistent = digestA, digestA
	}
	err := r.s.CloseAttempt(r.t.Context(), c)
	if (err == nil) != (r.m.attempt == StateOpen) {
		r.Fatalf("closing an attempt that is %s: %v", r.m.attempt, err)
	}
	if err == nil {
		r.closed(to, digestA)
	}
}

// account is a person's judgement of an unresolved attempt.
func (r *changeRun) account() {
	if r.m.attempt != StateUnresolved {
		return
	}
	if !r.aged {
		r.w.age(r.t, r.a.ID, time.Hour)
		r.aged = true
	}
	seen := rapid.SampledFrom([]string{digestA, digestB, digestC}).Draw(r.T, "runs")
	landed := rapid.Bool().Draw(r.T, "landed")
	o := Observation{Began: time.Now(), Identity: r.identity(), Active: seen, Persistent: seen}
	ok(r.t)(r.s.RecordObservation(r.t.Context(), r.name, o, by(admin, "machines.observe")))
	_, err := r.s.Account(r.t.Context(), Accounting{AttemptID: r.a.ID, Landed: landed, Reason: "seen"}, by(admin, "attempts.account"))
	switch {
	case seen == digestA && landed:
		r.closed(StateCompleted, seen)
	case seen == digestA && r.c.Base != digestA:
		wantErr(r.t, err, ErrContradicted)
		return
	case landed && seen == r.c.Base:
		r.closed(StateFailed, seen)
	default:
		r.closed(StateAccounted, seen)
	}
	if err != nil {
		r.Fatalf("accounting: %v", err)
	}
}

// closed is what becomes of the change when its attempt has: only what changed nothing gives it
// back.
func (r *changeRun) closed(to State, runs string) {
	r.m.attempt = to
	switch to {
	case StateRejected, StateNotSent:
		r.m.giveBack()
	case StateUnresolved:
	default:
		if to == StateCompleted {
			r.m.applied = runs
		}
		r.m.runs(runs)
	}
}

// check holds the rows against the model.
func (r *changeRun) check() {
	for id, state := range r.ended {
		wantState(r.t, r.s, id, state)
	}
	if r.m.state == "" {
		return
	}
	got := change(r.t, r.s, r.c.ID)
	if got.State != r.m.state {
		r.Fatalf("the change is %s (%s), the model says %s", got.State, got.Reason, r.m.state)
	}
	if len(got.Approvals) != len(r.m.given) {
		r.Fatalf("%d approvals, the model has %d", len(got.Approvals), len(r.m.given))
	}
	for i, a := range got.Approvals {
		if g := r.m.given[i]; a.Approver != g.by || a.Revoked != (g.withdrawn || r.m.revoked[g.by]) {
			r.Fatalf("approval %d of %s is revoked: %t", i, a.Approver.Subject, a.Revoked)
		}
	}
	if got.OvertakenBy != r.m.overtaken {
		r.Fatalf("it was overtaken by %q, the model says %q", got.OvertakenBy, r.m.overtaken)
	}
	if (r.m.state == ChangeSpent) != (got.AttemptID != [16]byte{}) {
		r.Fatalf("a change that is %s names attempt %s", got.State, got.AttemptID)
	}
	steps, err := r.s.ChangeSteps(r.t.Context(), r.c.ID)
	if err != nil || steps[0].State != ChangeWaiting || steps[len(steps)-1].State != got.State {
		r.Fatalf("the steps are %+v, %v", steps, err)
	}
	for i := range steps[1:] {
		if from, to := steps[i].State, steps[i+1].State; !from.MayBecome(to) {
			r.Fatalf("it went from %s to %s", from, to)
		}
	}
	sealed, err := r.s.Sealed(r.t.Context(), r.c.ID)
	if err != nil || string(sealed) != "sealed" {
		r.Fatalf("the sealed bytes are gone: %v", err)
	}
}
