package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"bronzeward/audit"
	"bronzeward/policy"
)

// Once makes an act happen once for one Idempotency-Key of one caller. The key, the keyed
// digest of the request's body and the answer are kept in the transaction of the effect.
// Source: draft-ietf-httpapi-idempotency-key-header-07.
type Once struct {
	// Key is the header's value, 1 to 255 printable bytes.
	Key string
	// Route is what was asked of, method and path.
	Route string
	// Body is the keyed digest of the request's body; SameBody compares a kept one with it.
	Body     string
	SameBody func(kept string) bool
	// Result is what was done, in the type the act returns: set before Answer is called.
	Result any
	// Answer gives status and body of what was done, after it was done and before it is
	// committed. Null when the answer is the present state of an attempt or change.
	Answer func() (status int, body []byte, err error)
}

// ErrKeyReused means that the key came before with another body or for another route.
var ErrKeyReused = errors.New("the Idempotency-Key was used for another request")

// ReplayedError says that the request was carried out before, and what it was answered.
type ReplayedError struct {
	Receipt audit.Receipt // of this repetition
	Status  int
	Body    []byte
	// Ref is the attempt or change whose present state is the answer; zero when Body is it.
	Ref uuid.UUID
}

// Error names what was done.
func (e *ReplayedError) Error() string {
	return fmt.Sprintf("the request was carried out before and answered %d", e.Status)
}

// takeOnce is the first statement of a transaction whose request carries a key: it locks the
// key. before is what a request with that key came to already: *ReplayedError, or
// ErrKeyReused when it was another one. It is for the caller to answer once revocation is
// checked.
func takeOnce(ctx context.Context, tx pgx.Tx, by policy.Person, o *Once) (before, err error) {
	if o == nil {
		return nil, nil
	}
	tag, err := tx.Exec(ctx, sqlOnceTake, by.Issuer, by.Subject, o.Key, o.Route, o.Body)
	if err != nil {
		return nil, sqlError("taking the Idempotency-Key", err)
	}
	if tag.RowsAffected() == 1 {
		return nil, nil
	}
	var route, body string
	r := &ReplayedError{}
	err = tx.QueryRow(ctx, sqlOnce, by.Issuer, by.Subject, o.Key).Scan(&route, &body, &r.Status, &r.Body, &r.Ref)
	if err != nil {
		// No row is there when it was forgotten between the two statements: not a "not found".
		return nil, unavailable("reading the Idempotency-Key", err)
	}
	if route != o.Route || !o.SameBody(body) {
		return ErrKeyReused, nil
	}
	return r, nil
}

// keepOnce keeps the answer of what was done with its key.
func keepOnce(ctx context.Context, tx pgx.Tx, by policy.Person, o *Once, ref uuid.UUID) error {
	if o == nil {
		return nil
	}
	var status int
	var body []byte
	if o.Answer != nil {
		var err error
		if status, body, err = o.Answer(); err != nil {
			return fmt.Errorf("keeping the answer of an Idempotency-Key: %w", err)
		}
	}
	if body == nil {
		body = []byte{}
	}
	if _, err := tx.Exec(ctx, sqlOnceKeep, by.Issuer, by.Subject, o.Key, status, body, orNull(ref)); err != nil {
		return sqlError("keeping the answer of an Idempotency-Key", err)
	}
	return nil
}

// forgetOnce leaves the key free: what was refused may be asked again.
func forgetOnce(ctx context.Context, tx pgx.Tx, by policy.Person, o *Once) error {
	if o == nil {
		return nil
	}
	if _, err := tx.Exec(ctx, sqlOnceForget, by.Issuer, by.Subject, o.Key); err != nil {
		return sqlError("leaving an Idempotency-Key free", err)
	}
	return nil
}

// came keeps what was done, for Answer. A null Once keeps nothing.
func (o *Once) came(result any) {
	if o != nil {
		o.Result = result
	}
}

// Replayed looks up what a key came to, outside of an act: *ReplayedError, ErrKeyReused, or
// nil when the key is new.
func (s *Store) Replayed(ctx context.Context, o *Once, issuer, subject string) error {
	var route, body string
	r := &ReplayedError{}
	err := s.pool.QueryRow(ctx, sqlOnce, issuer, subject, o.Key).Scan(&route, &body, &r.Status, &r.Body, &r.Ref)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return unavailable("reading an Idempotency-Key", err)
	case route != o.Route || !o.SameBody(body):
		return ErrKeyReused
	}
	return r
}
