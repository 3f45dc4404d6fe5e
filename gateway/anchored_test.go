package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"bronzeward/audit"
	"bronzeward/fixtures/openbao/baotest"
	"bronzeward/gateway/control"
	"bronzeward/gateway/vault"
	"bronzeward/policy"
)

// remembering is an anchor in memory. before runs when it is told, and may fail it.
type remembering struct {
	version, revocations int64
	told                 int
	before               func() error
}

func (r *remembering) ForwardAuthority(_ context.Context, _ uuid.UUID, version, revocations int64) error {
	r.told++
	if r.before != nil {
		if err := r.before(); err != nil {
			return err
		}
	}
	r.version, r.revocations = max(r.version, version), max(r.revocations, revocations)
	return nil
}

// anchoredAct is an act that the anchor is to know of before it is answered.
type anchoredAct struct {
	name string
	// ready makes what the act is about, and gives the act.
	ready func(t *testing.T, h *house, acts *Acts) func(once *control.Once) error
	// done counts what the act has done, in the database.
	done string
	// keyless is true for an act that no HTTP request does.
	keyless bool
}

var anchoredActs = []anchoredAct{
	{
		name: "an identity is revoked",
		ready: func(t *testing.T, h *house, acts *Acts) func(*control.Once) error {
			return func(once *control.Once) error {
				_, err := acts.RevokeIdentity(context.Background(), h.actor(t, "rhea"), policy.Person{Issuer: issuer, Subject: "mallory"}, "left", once)
				return err
			}
		},
		done: "select count(*) from control.identity_revocations where subject = 'mallory'",
	},
	{
		name: "an approval is revoked",
		ready: func(t *testing.T, h *house, acts *Acts) func(*control.Once) error {
			id := waits(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))))
			approval := h.approve(t, id, "ada")[0]
			return func(once *control.Once) error {
				_, err := acts.RevokeApproval(context.Background(), h.actor(t, "ada"), approval.ID, "no", once)
				return err
			}
		},
		done: "select count(*) from control.approval_revocations",
	},
	{
		name: "a law is made live",
		ready: func(t *testing.T, h *house, acts *Acts) func(*control.Once) error {
			l := must(oneApproval())(t)
			return func(*control.Once) error {
				_, err := acts.Activate(context.Background(), h.actor(t, "sven"), tried(l.bundle), nil)
				return err
			}
		},
		done: "select count(*) from audit.entries where method = 'policy.activate' and verdict = 'allow' and caller_subject = 'sven'", keyless: true,
	},
}

// The anchor is told after the act has committed and before it is answered.
func TestTheAnchorKnowsOfAnActBeforeItIsAnswered(t *testing.T) {
	t.Parallel()
	for _, row := range anchoredActs {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := approving(t, oneApproval, nil)
			acts, anchor := h.acts(), &remembering{}
			act := row.ready(t, h, acts)
			acts.Anchor = anchor
			anchor.before = func() error {
				if n := h.count(t, row.done); n != 1 {
					t.Errorf("the anchor is told when %d such acts are committed", n)
				}
				return nil
			}
			ok(t, act(nil))
			version := int64(h.count(t, "select version from control.authority"))
			revocations := int64(h.count(t, "select count(*) from control.identity_revocations"))
			if anchor.told != 1 || anchor.version != version || anchor.revocations != revocations {
				t.Errorf("told %d times, of version %d and %d revocations; there are %d and %d", anchor.told, anchor.version, anchor.revocations, version, revocations)
			}
		})
	}
}

// When OpenBao cannot be told, the act stands and its answer says both; the same request with its
// key tells OpenBao and does nothing else. Without a key the law is made live again, which is the
// same law.
func TestAnActOpenBaoCannotBeToldOfStandsAndSaysSo(t *testing.T) {
	t.Parallel()
	for _, row := range anchoredActs {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := approving(t, oneApproval, nil)
			acts, anchor := h.acts(), &remembering{before: func() error { return awayError{"sealed", "OpenBao is sealed"} }}
			act := row.ready(t, h, acts)
			acts.Anchor = anchor
			once := keyed("one", "body")
			for round, doing := range []string{"done", "repeated"} {
				err := act(once)
				var untold *NotAnchoredError
				if !errors.As(err, &untold) {
					t.Fatalf("%s: got %v", doing, err)
				}
				if errors.As(err, new(*control.ReplayedError)) {
					t.Errorf("%s: it would be answered as if OpenBao knew", doing)
				}
				c, entry, code, message, _ := untold.Refusal()
				if c != codes.Unavailable || code != "BW-ANCHOR-001" || !strings.Contains(message, "in force and recorded") || !strings.Contains(message, "OpenBao is sealed (sealed)") {
					t.Errorf("%s: %v %s %q", doing, c, code, message)
				}
				h.receipts.wrote(context.Background(), entry)
				if n := h.count(t, "select count(*) from audit.entries where id = $1 and verdict = 'allow'", entry.ID); n != 1 {
					t.Errorf("%s: the entry it names is not in the book", doing)
				}
				if n := h.count(t, row.done); n != 1 && !row.keyless {
					t.Errorf("round %d: it was done %d times", round, n)
				}
			}
			if row.keyless {
				anchor.before = nil
				ok(t, act(nil))
				if version := int64(h.count(t, "select version from control.authority")); anchor.version != version {
					t.Errorf("the anchor is at version %d, the database at %d", anchor.version, version)
				}
				return
			}
			// Asked again without its key, it is refused as done before, and not before OpenBao knows.
			err := act(nil)
			var untold *NotAnchoredError
			if !errors.As(err, &untold) || untold.Receipt != (audit.Receipt{}) || strings.Contains(err.Error(), uuid.Nil.String()) {
				t.Errorf("without its key: %v", err)
			}
			anchor.before = nil
			if err := act(nil); !errors.Is(err, control.ErrConflict) {
				t.Errorf("without its key, once OpenBao is back: %v", err)
			}
			if version := int64(h.count(t, "select version from control.authority")); anchor.version != version {
				t.Errorf("the anchor is at version %d, the database at %d", anchor.version, version)
			}
			anchor.version = 0
			if err := act(once); !errors.As(err, new(*control.ReplayedError)) {
				t.Errorf("once OpenBao is back: %v", err)
			}
			if version := int64(h.count(t, "select version from control.authority")); anchor.version != version {
				t.Errorf("the anchor is at version %d, the database at %d", anchor.version, version)
			}
		})
	}
}

// What was not done tells nothing.
func TestAnActThatWasNotDoneTellsTheAnchorNothing(t *testing.T) {
	t.Parallel()
	h := approving(t, oneApproval, nil)
	acts, anchor := h.acts(), &remembering{before: func() error { return errors.New("not to be asked") }}
	acts.Anchor = anchor
	_, err := acts.RevokeIdentity(context.Background(), h.actor(t, "olga"), policy.Person{Issuer: issuer, Subject: "mallory"}, "left", nil)
	wantDenied(t, err, "BW-ACT-003")
	_, err = acts.RevokeIdentity(context.Background(), h.actor(t, "rhea"), policy.Person{}, "left", nil)
	if !errors.Is(err, control.ErrInvalid) || anchor.told != 0 {
		t.Errorf("got %v; told %d times", err, anchor.told)
	}
}

// baoAnchor is the anchor in a real OpenBao, told as a gateway's process tells it.
type baoAnchor struct {
	anchors *vault.Anchors
	before  func() error
}

func (b baoAnchor) ForwardAuthority(ctx context.Context, epoch uuid.UUID, version, revocations int64) error {
	if b.before != nil {
		if err := b.before(); err != nil {
			return err
		}
	}
	_, err := b.anchors.Forward(ctx, func(a *vault.Anchor) {
		a.Epoch, a.AuthorityVersion, a.Revocations = epoch.String(), version, revocations
	})
	return err
}

// OpenBao is sealed, or away, between the commit of a revocation and its answer.
func TestOpenBaoGoesAwayBetweenTheCommitAndTheAnswer(t *testing.T) {
	t.Parallel()
	bao := baotest.Own(t)
	h := approving(t, oneApproval, nil)
	client := must(vault.OpenWithToken(vault.Config{Address: bao.Address(), CA: must(vault.ParseCertificates(must(os.ReadFile(bao.CAFile()))(t)))(t), KVMount: "kv"}, bao.RootToken(), ""))(t)
	t.Cleanup(client.Close)
	if status, answer, err := bao.API(t.Context(), http.MethodPost, "sys/mounts/kv", map[string]any{"type": "kv", "options": map[string]string{"version": "2"}}); err != nil || status >= 300 {
		t.Fatal(status, answer, err)
	}
	anchors := vault.NewAnchors(client)
	acts := h.acts()
	for i, row := range []struct {
		name       string
		away, back func() error
		class      string
	}{
		{"sealed", func() error { return bao.Seal(context.Background()) }, func() error { return bao.Unseal(context.Background()) }, "(sealed)"},
		{"stopped", bao.Stop, func() error { return bao.Restart(context.Background()) }, "(unreachable)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			who := policy.Person{Issuer: issuer, Subject: fmt.Sprintf("somebody-%d", i)}
			revoke := func() (audit.Receipt, error) {
				revoked, err := acts.RevokeIdentity(context.Background(), h.actor(t, "rhea"), who, "left", keyed(row.name, "body"))
				return audit.Receipt{ID: revoked.EntryID}, err
			}
			acts.Anchor = baoAnchor{anchors, row.away}
			_, err := revoke()
			var untold *NotAnchoredError
			if !errors.As(err, &untold) || !strings.Contains(err.Error(), row.class) {
				t.Fatalf("got %v", err)
			}
			if !must(h.store.Refresh(context.Background(), 0))(t).Revoked(who.Issuer, who.Subject) {
				t.Error("the revocation is not in force")
			}
			ok(t, row.back())
			acts.Anchor = baoAnchor{anchors, nil}
			if _, err := revoke(); !errors.As(err, new(*control.ReplayedError)) {
				t.Fatalf("repeated: %v", err)
			}
			there, _, err := anchors.Read(context.Background())
			ok(t, err)
			if snap := h.store.Snapshot(); there.AuthorityVersion != snap.AuthorityVersion || there.Revocations != int64(i+1) || there.Epoch != snap.Epoch.String() {
				t.Errorf("the anchor is %+v", there)
			}
		})
	}
}
