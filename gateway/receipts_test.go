package gateway

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"bronzeward/audit"
	"bronzeward/gateway/control"
	"bronzeward/policy"
)

// receipts is what callers were told of the entries they left. Every house holds its book to all
// of it when its test ends, whatever the test is about.
type receipts struct {
	mu     sync.Mutex // guards what follows
	leaves map[string]string
	faults []string
}

// told keeps the trailers of one call: as many leaves as decisions, in one order.
func (r *receipts) told(method string, trailer metadata.MD) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids, leaves := trailer.Get(DecisionTrailer), trailer.Get(LeafTrailer)
	if len(ids) != len(leaves) {
		r.faults = append(r.faults, fmt.Sprintf("%s: %d decisions and %d leaves", method, len(ids), len(leaves)))
		return
	}
	for i, id := range ids {
		r.keep(id, leaves[i])
	}
}

// wrote keeps what an act was told.
func (r *receipts) wrote(_ context.Context, entry audit.Receipt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(entry.ID.String(), hex.EncodeToString(entry.Leaf[:]))
}

func (r *receipts) keep(id, leaf string) {
	if r.leaves == nil {
		r.leaves = map[string]string{}
	}
	if before, known := r.leaves[id]; known && before != leaf {
		r.faults = append(r.faults, fmt.Sprintf("entry %s was told with the leaves %s and %s", id, before, leaf))
	}
	r.leaves[id] = leaf
}

// holdsThem fails the test unless each told leaf is the book's.
func (h *house) holdsThem(t testing.TB) {
	t.Helper()
	h.receipts.mu.Lock()
	defer h.receipts.mu.Unlock()
	for _, f := range h.receipts.faults {
		t.Error(f)
	}
	var pairs []string
	for id, leaf := range h.receipts.leaves {
		pairs = append(pairs, id+" "+leaf)
	}
	if len(pairs) == 0 {
		return
	}
	for _, other := range h.texts(t, `select pair from unnest(string_to_array($1, ',')) pair
		where pair not in (select id || ' ' || encode(leaf, 'hex') from audit.entries)`, strings.Join(pairs, ",")) {
		t.Errorf("a caller was told the entry and leaf %s, which the book does not hold", other)
	}
}

// listening hands the trailers of every call to the house.
func (h *house) listening() grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := open(ctx, desc, conn, method, options...)
		return &listened{ClientStream: s, h: h, method: method}, err
	})
}

type listened struct {
	grpc.ClientStream
	h      *house
	method string
}

func (l *listened) RecvMsg(m any) error {
	err := l.ClientStream.RecvMsg(m)
	if err != nil {
		l.h.receipts.told(l.method, l.Trailer())
	}
	return err
}

// receiptsOf fails the test unless a call was answered with so many receipts.
func receiptsOf(t testing.TB, a answer, want int) {
	t.Helper()
	ids, leaves := a.trailer.Get(DecisionTrailer), a.trailer.Get(LeafTrailer)
	if len(ids) != want || len(leaves) != want || slices.Contains(leaves, strings.Repeat("0", 64)) {
		t.Errorf("%d decisions and the leaves %q, want %d of each", len(ids), leaves, want)
	}
}

// A receipt reaches the caller of every class of call, allowed and refused. That the leaves are
// the book's is held when the house closes.
func TestEveryCallGetsTheReceiptsOfItsDecisions(t *testing.T) {
	h := newHouse(t, func(s *setup) { s.workers = 2 })
	olga, otto := h.as(t, "olga"), h.as(t, "otto")
	for _, row := range []struct {
		name string
		call func(t *testing.T) answer
		code codes.Code
		want int
	}{
		{"a read", func(t *testing.T) answer { return olga.version(t, "w1") }, codes.OK, 1},
		{"a read of two machines", func(t *testing.T) answer {
			return olga.call(bounded(t), methodVersion, toAll("w1", "w2"), nil)
		}, codes.OK, 2},
		{"a stream", func(t *testing.T) answer {
			return olga.call(bounded(t), "/machine.MachineService/Dmesg", to("w1"), nil)
		}, codes.OK, 1},
		{"a mutation that is refused", func(t *testing.T) answer {
			return olga.call(bounded(t), "/machine.MachineService/Reboot", to("w1"), nil)
		}, codes.PermissionDenied, 1},
		{"an apply", func(t *testing.T) answer { return olga.apply(t, "w1", noReboot(t, labelled("one"))) }, codes.OK, 1},
		{"an apply that is refused", func(t *testing.T) answer {
			return olga.apply(t, "w1", applyRequest(t, labelled("two"), machine.ApplyConfigurationRequest_REBOOT, false))
		}, codes.PermissionDenied, 1},
		{"a method nobody knows", func(t *testing.T) answer {
			return otto.call(bounded(t), "/nobody.Knows/This", to("w1"), nil)
		}, codes.PermissionDenied, 1},
		{"a machine nobody knows", func(t *testing.T) answer { return otto.version(t, "w9") }, codes.PermissionDenied, 1},
		{"two messages", func(t *testing.T) answer {
			return otto.call(bounded(t), methodVersion, to("w1"), nil, nil)
		}, codes.InvalidArgument, 1},
		{"a stranger", func(t *testing.T) answer {
			return h.with(t, &tls.Config{}).version(t, "w1")
		}, codes.Unauthenticated, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := row.call(t)
			if a.code() != row.code {
				t.Fatalf("got %v %q, want %v", a.code(), a.text(), row.code)
			}
			receiptsOf(t, a, row.want)
		})
	}
}

// An act's receipt comes with what it is answered, done or refused.
func TestEveryActGetsTheReceiptOfItsDecision(t *testing.T) {
	h := approving(t, oneApproval, nil)
	acts := h.acts()
	ctx := context.Background()
	id := waits(t, h.as(t, "olga").apply(t, "w1", noReboot(t, labelled("one"))))
	other := policy.Person{Issuer: issuer, Subject: "somebody"}
	var last audit.Receipt
	acts.Told = func(ctx context.Context, entry audit.Receipt) {
		last = entry
		h.receipts.wrote(ctx, entry)
	}
	by := func(err error) audit.Receipt {
		denied, isDenied := err.(interface {
			Denial() (policy.Decision, audit.Receipt)
		})
		if isDenied {
			_, entry := denied.Denial()
			return entry
		}
		return audit.Receipt{}
	}
	for _, row := range []struct {
		name string
		act  func() audit.Receipt
	}{
		{"done", func() audit.Receipt {
			_, err := acts.RevokeIdentity(ctx, h.actor(t, "rhea"), other, "left", nil)
			ok(t, err)
			return last
		}},
		{"denied before anything", func() audit.Receipt {
			_, err := acts.RevokeIdentity(ctx, h.actor(t, "olga"), other, "left", nil)
			return by(err)
		}},
		{"denied under the lock", func() audit.Receipt {
			_, err := acts.Approve(ctx, h.actor(t, "olga"), []control.ApproveOne{{ID: id, Digest: h.change(t, id).Digest}}, nil)
			return by(err)
		}},
		{"a reading", func() audit.Receipt {
			return must(acts.Read(ctx, h.actor(t, "olga"), "machines.read", ""))(t)
		}},
		{"a refusal that left no entry", func() audit.Receipt {
			return must(acts.Record(ctx, h.actor(t, "olga"), "machines.read", "", "BW-HTTP-400", "no"))(t)
		}},
		{"a stranger's", func() audit.Receipt {
			return must(acts.Stranger(ctx, "192.0.2.9", "BW-CREDENTIAL-001", "no-credential", "no"))(t)
		}},
		{"a change applied by its id", func() audit.Receipt {
			h.approve(t, id, "ada")
			must(acts.ApplyChange(ctx, h.actor(t, "otto"), id, nil))(t)
			return last
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			last = audit.Receipt{}
			entry := row.act()
			if entry.Leaf == ([32]byte{}) {
				t.Fatalf("no leaf came with entry %s", entry.ID)
			}
			h.receipts.wrote(ctx, entry)
		})
	}
}
