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
	"bronzeward/gateway/facts"
)

// DigestKeys adds keys of configuration digests.
type DigestKeys interface {
	// Add makes a new key, which is used for new digests from a time on at which every replica knows it. It is a network call,
	// bounded by ctx. An error may have the method ReasonClass, as Issuer's; the key may be there all the same.
	Add(ctx context.Context) (version string, usedFrom time.Time, err error)
}

// versioned is a Digester with several keys.
type versioned interface {
	Versions() []string
	DigestUnder(version string, text []byte) (string, error)
}

// ComputeDigest gives the configuration digest of a text, under every key there is. The entry holds digest and size, and
// never the text. Whoever may do this can test guesses of a configuration, one entry each: that is why it needs a role.
func (a *Acts) ComputeDigest(ctx context.Context, by Actor, text []byte, once *control.Once) (control.ComputedDigest, error) {
	out := control.ComputedDigest{Digest: a.Digester.Digest(text)}
	if ring, ok := a.Digester.(versioned); ok {
		out.Under = map[string]string{}
		for _, version := range ring.Versions() {
			if err := ctx.Err(); err != nil {
				return control.ComputedDigest{}, err
			}
			digest, err := ring.DigestUnder(version, text)
			if err != nil {
				return control.ComputedDigest{}, err
			}
			out.Under[version] = digest
		}
	}
	subject := fmt.Sprintf("%d bytes", len(text))
	act, said, err := a.actBesides(ctx, by, ActDigestsCompute, subject, "", besides{entry: func(e *audit.Entry) {
		if e.Verdict == audit.Allowed {
			e.Digest = out.Digest
		}
	}})
	if err != nil {
		return control.ComputedDigest{}, err
	}
	act.Once = once
	_, err = a.Store.Attest(ctx, act, func(entry uuid.UUID) (any, error) {
		out.EntryID = entry
		return out, nil
	})
	if err := a.replayed(ctx, by, ActDigestsCompute, subject, a.denied(ctx, err, said)); err != nil {
		return control.ComputedDigest{}, err
	}
	return out, nil
}

// ListDigestKeys are the versions of digest keys and when they are used from, oldest first; no key is among it. It judges
// nothing and writes nothing.
func (a *Acts) ListDigestKeys() []control.DigestKey {
	out := []control.DigestKey{}
	switch ring := a.Digester.(type) {
	case interface{ Keys() []facts.KeyTime }:
		for _, k := range ring.Keys() {
			out = append(out, control.DigestKey{Version: k.Version, UsableFrom: k.UsableFrom})
		}
	case versioned:
		for _, version := range ring.Versions() {
			out = append(out, control.DigestKey{Version: version})
		}
	}
	return out
}

// The states of an outcome of an act whose effect follows its entry.
const (
	actDone   = "done"
	actFailed = "failed"
)

// AddDigestKey adds a key for configuration digests. Its entry is durable before the key is made, and an outcome says what came of
// it.
func (a *Acts) AddDigestKey(ctx context.Context, by Actor, once *control.Once) (control.AddedDigestKey, error) {
	var none control.AddedDigestKey
	if a.DigestKeys == nil {
		return none, refusal(codes.Unimplemented, audit.Receipt{}, "BW-DIGEST-001", "no keeper of digest keys that may grow is configured (openbao)")
	}
	act, said, err := a.act(ctx, by, ActDigestKeysAdd, "", "")
	if err != nil {
		return none, err
	}
	if once != nil {
		taken := *once // its answer follows
		taken.Answer = nil
		act.Once = &taken
	}
	receipt, err := a.Store.Attest(ctx, act, func(uuid.UUID) (any, error) { return nil, nil })
	if err := a.replayed(ctx, by, ActDigestKeysAdd, "", a.denied(ctx, err, said)); err != nil {
		return none, err
	}
	// A crash here, and anywhere below, leaves an entry without an outcome. Whether there is a new key, the list of keys says; a
	// key that nobody asked for again does no harm.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), addWithin)
	defer cancel()
	began := time.Now()
	version, from, err := a.DigestKeys.Add(bounded)
	outcome := audit.Outcome{EntryID: receipt.ID, Kind: audit.OutcomeState, State: actDone, Duration: time.Since(began), Instance: a.Instance}
	if err != nil {
		return none, a.keyNotAdded(ctx, by, once, receipt, outcome, err)
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer stop()
	outcome.Message = fmt.Sprintf("digest key %s is used from %s", oneLine(version), from.UTC().Format(time.RFC3339))
	out := control.AddedDigestKey{DigestKey: control.DigestKey{Version: version, UsableFrom: from}, EntryID: receipt.ID}
	err = errors.Join(a.Book.WriteOutcome(ctx, outcome), a.Store.KeepAnswer(ctx, act.By, once, out))
	if err != nil {
		message := outcome.Message + ", and that could not be written down"
		return none, fmt.Errorf("%w: %w", refusal(codes.Unavailable, receipt, "BW-DIGEST-003", message, "bronzeward digest-keys list"), err)
	}
	return out, nil
}

// addWithin bounds adding a key: reading, wrapping and writing, each perhaps tried again.
const addWithin = 30 * time.Second

// keyNotAdded writes down that adding a key failed, and why.
func (a *Acts) keyNotAdded(ctx context.Context, by Actor, once *control.Once, entry audit.Receipt, outcome audit.Outcome, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	away := keysAwayOf(cause)
	message := "adding a digest key failed: " + away.why
	outcome.State, outcome.Code, outcome.Message = actFailed, away.class, message
	if err := errors.Join(a.Book.WriteOutcome(ctx, outcome), a.Store.LeaveFree(ctx, personOf(by.Caller), once)); err != nil {
		cause = errors.Join(cause, err)
	}
	hint := away.next()
	if away.passing {
		hint = "look before trying again: bronzeward digest-keys list"
	}
	return fmt.Errorf("%w: %w", refusal(codes.Unavailable, entry, "BW-DIGEST-002", message, hint), cause)
}
