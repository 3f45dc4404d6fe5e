package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"bronzeward/audit"
	"bronzeward/gateway/control"
)

// Anchor remembers outside of PostgreSQL how far authority has moved, so that a database that was
// restored from an older state is noticed: it would not know of a revocation, and allow again.
type Anchor interface {
	// ForwardAuthority has it remember at least this much of an epoch: the authority version, and
	// how many identities are revoked. It lowers nothing, and is a network call, bounded by ctx. An
	// error may have the method ReasonClass, as Issuer's.
	ForwardAuthority(ctx context.Context, epoch uuid.UUID, version, revocations int64) error
}

// anchorWithin bounds telling the anchor: whoever revokes waits for it.
const anchorWithin = 15 * time.Second

// NotAnchoredError says that an act is in force and in the book, and that the anchor could not be
// told. It is no refusal of the act: nothing needs to be done again, but it is told once more when
// the request is repeated, and by the next checkpoint.
type NotAnchoredError struct {
	// Receipt is of the act's entry, or of its repetition's; zero when it was done before and this
	// request has no entry yet.
	Receipt audit.Receipt
	why     string
	cause   error
}

// Error is for whoever did it: what stands, what does not, and what to do.
func (e *NotAnchoredError) Error() string {
	_, entry, code, message, hints := e.Refusal()
	if entry.ID != uuid.Nil {
		message += fmt.Sprintf(" (decision %s)", entry.ID)
	}
	return code + ": " + message + "\n" + hints[0]
}

// Unwrap gives the cause, for the log.
func (e *NotAnchoredError) Unwrap() error { return e.cause }

// Refusal gives its parts, for the HTTP door.
func (e *NotAnchoredError) Refusal() (c codes.Code, entry audit.Receipt, code, message string, hints []string) {
	return codes.Unavailable, e.Receipt, "BW-ANCHOR-001",
		"it is in force and recorded, but OpenBao could not be told of it: " + e.why +
			". Until it is, a database restored from an older state would not be noticed to lack it",
		[]string{"do the very same again, which tells OpenBao and does nothing else; the next checkpoint tells it too"}
}

// anchored tells the anchor of an act that took authority away or changed the law, before the act
// is answered; a repetition that is answered with what the first came to, or that it was done before, tells it again. err is
// what the act gave: when the act was not done, that is the answer.
//
// A crash before this leaves an act that is in force, and an anchor that does not know of it until
// the next act or checkpoint.
func (a *Acts) anchored(ctx context.Context, answers *said, err error) error {
	var before *control.ReplayedError
	switch {
	case errors.As(err, &before):
		if untold := a.forwardAnchor(ctx, before.Receipt); untold != nil {
			return untold
		}
		return err
	case errors.Is(err, control.ErrConflict):
		// It was done before, by whoever asks again without a key: the door writes down what this one is told.
		if untold := a.forwardAnchor(ctx, audit.Receipt{}); untold != nil {
			return untold
		}
		return err
	case err != nil:
		return err
	}
	return a.forwardAnchor(ctx, answers.wrote[len(answers.wrote)-1])
}

// forwardAnchor tells the anchor what the database knows by now. Its error is *NotAnchoredError.
func (a *Acts) forwardAnchor(ctx context.Context, entry audit.Receipt) error {
	if a.Anchor == nil {
		return nil // in development: said once at the start
	}
	// Whoever asked may be gone: it is in force all the same, and OpenBao is to know.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), anchorWithin)
	defer cancel()
	snap, err := a.Store.Refresh(ctx, 0)
	if err != nil {
		return &NotAnchoredError{Receipt: entry, why: "the database could not be asked how far authority has moved", cause: err}
	}
	if err := a.Anchor.ForwardAuthority(ctx, snap.Epoch, snap.AuthorityVersion, snap.Revocations()); err != nil {
		return &NotAnchoredError{Receipt: entry, why: keysAwayOf(err).why, cause: err}
	}
	return nil
}
