package gateway

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// submit proposes through the HTTP door as a person.
func (h *house) submit(t testing.TB, who string, text []byte) (control.Change, bool, error) {
	t.Helper()
	return h.acts().Submit(context.Background(), h.actor(t, who), control.Submission{Machine: "w1", Text: text, Mode: "no-reboot"}, nil)
}

// applyChange applies by id as a person, without a key.
func (h *house) applyChange(t testing.TB, who string, id control.ChangeID) (control.Applied, error) {
	t.Helper()
	return h.acts().ApplyChange(bounded(t), h.actor(t, who), id, nil)
}

// goApplyChange applies by id in the background.
func (h *house) goApplyChange(t testing.TB, who string, id control.ChangeID, once *control.Once) <-chan applied {
	t.Helper()
	ctx, by, acts := bounded(t), h.actor(t, who), h.acts()
	out := make(chan applied, 1)
	go func() {
		a, err := acts.ApplyChange(ctx, by, id, once)
		out <- applied{a, err}
	}()
	return out
}

type applied struct {
	control.Applied
	err error
}

// keyed is an Idempotency-Key of a request.
func keyed(key, body string) *control.Once {
	return &control.Once{
		Key: key, Route: "POST /changes/x/applications", Body: body, SameBody: func(kept string) bool { return kept == body },
	}
}

// told is what an act's error tells: its code, and the id of its entry, zero when the door is
// to write one.
type told struct {
	code  string
	text  string
	grpc  codes.Code
	entry uuid.UUID
}

// tell takes an act's error apart, whatever kind it is of.
func tell(err error) told {
	var denied interface {
		Denial() (policy.Decision, audit.Receipt)
	}
	var refused interface {
		Refusal() (codes.Code, audit.Receipt, string, string, []string)
	}
	var change *control.ChangeError
	switch {
	case err == nil:
		return told{}
	case errors.As(err, &denied):
		d, entry := denied.Denial()
		return told{code: d.Denials()[0].Code, text: err.Error(), grpc: codes.PermissionDenied, entry: entry.ID}
	case errors.As(err, &refused):
		c, entry, code, _, _ := refused.Refusal()
		return told{code: code, text: err.Error(), grpc: c, entry: entry.ID}
	case errors.As(err, &change):
		return told{code: change.Code, text: change.Message, grpc: codes.FailedPrecondition}
	}
	return told{text: err.Error()}
}

// actRefused fails the test unless the act was refused with this code.
func actRefused(t testing.TB, err error, code string) told {
	t.Helper()
	got := tell(err)
	if err == nil || got.code != code {
		t.Errorf("the act came to %q %v, want %s", got.code, err, code)
	}
	return got
}

// hasEntry fails the test unless the book has the refusal as an act of that person.
func (h *house) hasEntry(t testing.TB, id uuid.UUID, who string) {
	t.Helper()
	if n := h.count(t, "select count(*) from audit.entries where id = $1 and kind = 'http' and verdict <> 'allow' and caller_subject = $2", id, who); n != 1 {
		t.Errorf("%d entries tell of the refusal %s", n, id)
	}
}
