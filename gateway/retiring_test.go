package gateway

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/oracle"
	"bronzeward/fixtures/talosd"
	"bronzeward/gateway/control"
)

// caKey stands in for the key of an authority.
const caKey = "LS0tLS1CRUdJTiBFRDI1NTE5IFBSSVZBVEUgS0VZLS0tLS0KTUM0Q0FRQXdCUVlESzJWd0JDSUVJTHQ0Z1V4ZGJ0dE1nT1hwVTR6dlBmQ1R2WVpJV1lGdnNHcFBzQ2p0Y3pZdgotLS0tLUVORCBFRDI1NTE5IFBSSVZBVEUgS0VZLS0tLS0K"

// controlPlane is the text of a control plane, with a change.
func controlPlane(text []byte) []byte {
	return bytes.ReplaceAll(bytes.Replace(text, []byte("type: worker"), []byte("type: controlplane"), 1), []byte(`key: ""`), []byte("key: "+caKey))
}

// No copy of a control plane's configuration is kept, sealed or not: it holds the keys of the cluster. Neither what its
// row says of it nor an adoption makes one.
func TestNoCopyOfAControlPlaneIsKept(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"controlplane", "worker"} {
		t.Run("its row says "+role, func(t *testing.T) {
			t.Parallel()
			h := approving(t, oneApproval, func(s *setup) {
				s.node = func(_ string, c *talosd.Config) { c.MachineConfig = controlPlane(oracle.Base()) }
			})
			ok(t, h.db.Exec(t.Context(), "update control.machines set role = '"+role+"'"))
			d := h.patched(t, controlPlane(labelled("patched")))
			if n := h.count(t, "select count(*) from control.applied_copies"); n != 0 {
				t.Errorf("%d copies are kept by the watch", n)
			}
			if role == "worker" {
				return
			}
			id := h.settle(t, d, control.KindAdopt)
			h.approve(t, id, "ada", "boris")
			if n := h.count(t, "select count(*) from control.sealed_bytes where octet_length(sealed) > 1024"); n != 0 {
				t.Errorf("%d changes keep its sealed text", n)
			}
			_, err := h.acts().AdoptChange(t.Context(), h.actor(t, "olga"), id, nil)
			ok(t, err)
			h.driftIs(t, d.ID, control.DriftAdopted)
			if n := h.count(t, "select count(*) from control.applied_copies"); n != 0 {
				t.Errorf("%d copies are kept by the adoption", n)
			}
		})
	}
}

// What the law would not let through is not adopted: neither where it runs, nor where it is on the disk and the next
// boot brings it.
func TestWhatTheLawForbidsIsNotAdopted(t *testing.T) {
	t.Parallel()
	forbidden := []byte(strings.Replace(string(oracle.Base()), "debug: false", "debug: true", 1))
	for name, put := range map[string]func(*talosd.Node) error{
		"it runs":           func(n *talosd.Node) error { return n.SetConfig(forbidden) },
		"it is on the disk": func(n *talosd.Node) error { return n.Stage(forbidden) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := approving(t, oneApproval, nil)
			h.look(t, control.SightBaseline)
			ok(t, put(h.nodes["w1"]))
			h.look(t, control.SightOpened)
			d := h.openDrift(t)
			c, _, err := h.acts().SettleDrift(t.Context(), h.actor(t, "olga"), d.ID, control.KindAdopt, "why", nil)
			if got := tell(err); !strings.HasPrefix(got.code, "BW-CONFIG-") {
				t.Errorf("proposing it came to %q %v, and change %s", got.code, err, c.ID)
			}
		})
	}
}

// No call reaches a retired machine any more, reads included, and one that is open ends: also where another machine has its
// address by then.
func TestRetiringEndsWhatIsOpen(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(s *setup) { s.following = true })
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	s := must(h.as(t, "vera").openEvents(ctx, "w1"))(t)
	h.streams(t, "w1", 1)
	_ = must(h.acts().RetireMachine(t.Context(), h.actor(t, "rhea"), "w1", "its board burnt", nil))(t)
	refusedWith(t, finishCall(s), codes.PermissionDenied, "BW-HOLDS-009")
}

// anchorOf counts what it is told of a recovery.
type anchorOf struct{ begun int }

func (a *anchorOf) Begin(_ context.Context, _, next uuid.UUID) (uuid.UUID, int64, string, error) {
	a.begun++
	return next, 0, "", nil
}
func (*anchorOf) Finish(context.Context, uuid.UUID) error             { return nil }
func (*anchorOf) Unfinished(context.Context, uuid.UUID) (bool, error) { return false, nil }
func (*anchorOf) End(context.Context, uuid.UUID) error                { return nil }

// Entering recovery again with the same Idempotency-Key is answered with what the first came to, while it is under way and
// after it, and begins nothing.
func TestEnteringRecoveryAgainWithItsKey(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	acts, anchor := h.acts(), &anchorOf{}
	var adopted []uuid.UUID
	acts.Recovery, acts.Adopt = anchor, func(e uuid.UUID) { adopted = append(adopted, e) }
	key := func() *control.Once {
		return &control.Once{Key: "k-1", Route: "POST /recovery", Body: "b", SameBody: func(kept string) bool { return kept == "b" }}
	}
	_, err := acts.EnterRecovery(t.Context(), h.actor(t, "rhea"), "restored", key())
	ok(t, err)
	var before *control.ReplayedError
	again := func(when string) {
		t.Helper()
		if _, err := acts.EnterRecovery(t.Context(), h.actor(t, "rhea"), "restored", key()); !errors.As(err, &before) {
			t.Errorf("%s it came to %v", when, err)
		}
		if anchor.begun != 1 || len(adopted) != 1 {
			t.Errorf("%s OpenBao was told %d times that an epoch begins, and %d were adopted", when, anchor.begun, len(adopted))
		}
	}
	again("while it is under way")
	ok(t, h.db.Exec(t.Context(), "insert into control.recovery_releases select epoch, m.id, gen_random_uuid(), 'i', 's', gen_random_uuid(), clock_timestamp() from control.recoveries, control.machines m"))
	_, err = acts.ExitRecovery(t.Context(), h.actor(t, "rhea"), false, "", nil)
	ok(t, err)
	again("after it")
}

// A read that was aimed before its machine was retired, and is written down after it, is refused: its addresses are not the machine's
// any more.
func TestAReadThatMeetsARetirementIsRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	let := must(h.db.HoldAuthority(t.Context()))(t)
	done, read := make(chan error, 1), make(chan answer, 1)
	go func() {
		_, err := h.acts().RetireMachine(t.Context(), h.actor(t, "rhea"), "w1", "its board burnt", nil)
		done <- err
	}()
	h.waiting(t, 1) // the retirement is first in the queue, and nobody knows of it yet
	go func() { read <- h.as(t, "vera").version(t, "w1") }()
	h.waiting(t, 2)
	ok(t, let())
	ok(t, <-done)
	refusedWith(t, <-read, codes.PermissionDenied, "BW-HOLDS-009")
	if n := len(h.nodes["w1"].Log().Of(methodVersion)); n != 0 {
		t.Errorf("%d reads came to the machine", n)
	}
}
