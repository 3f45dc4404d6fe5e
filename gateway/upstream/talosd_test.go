package upstream

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"bronzeward/fixtures/oracle"
	"bronzeward/fixtures/talosd"
)

// worker starts the fake worker, which has Talos's own roles, parser and semantics.
func worker(t *testing.T, p *pki) (*talosd.Node, Target) {
	t.Helper()

	n, err := talosd.Start(talosd.Config{
		Name: "worker-1", CA: p.ca, MachineConfig: oracle.Base(),
		Identity: talosd.Identity{NodeID: "node-a", ClusterID: "cluster-a"},
	})
	must(t, err)
	t.Cleanup(func() { must(t, n.Close()) })

	return n, Target{Addresses: []netip.AddrPort{netip.MustParseAddrPort(n.Addr())}}
}

// change is the base with a comment more, as a no-reboot request.
func change(t *testing.T) (text, request []byte) {
	t.Helper()

	text = append(oracle.Base(), "# changed\n"...)
	request, err := proto.Marshal(&machine.ApplyConfigurationRequest{Data: text, Mode: machine.ApplyConfigurationRequest_NO_REBOOT})
	must(t, err)

	return text, request
}

func TestTheWayOfOneApplyAgainstAWorker(t *testing.T) {
	p := newPKI(t)
	n, target := worker(t, p)
	c, before, err := p.pool(t).Reach(ctxFor(t), target)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })

	want := Evidence{Version: "v1.13.6", Minor: "1.13", Stage: "running", Type: "worker", NodeID: "node-a", ClusterID: "cluster-a", Address: target.Addresses[0]}
	got := before
	got.Active, got.Persistent = Document{}, Document{}

	if got.Version != want.Version || got.Minor != want.Minor || got.Stage != want.Stage || got.Type != want.Type ||
		got.NodeID != want.NodeID || got.ClusterID != want.ClusterID || got.SMBIOS != "" || got.Address != want.Address {
		t.Errorf("evidence is %+v", got)
	}

	if !bytes.Equal(before.Active.Text, oracle.Base()) || !bytes.Equal(before.Persistent.Text, oracle.Base()) {
		t.Error("the configuration read is not the one the worker has")
	}

	text, request := change(t)

	a := c.Apply(ctxFor(t), request, []string{RoleAdmin}, "decision-1", soon())
	if !a.Got || a.Code != codes.OK || proto.Unmarshal(a.Response, &machine.ApplyConfigurationResponse{}) != nil {
		t.Fatalf("answer is %+v", a)
	}

	r := c.ReadBack(ctxFor(t), ReadBackConfig{Before: before, Want: wants(string(text))})
	if !r.Matched || !r.Moved || r.Reads != 1 {
		t.Errorf("read back %+v", r)
	}

	applies := n.Log().Applies()
	if len(applies) != 1 || len(applies[0].Requests) != 1 || !bytes.Equal(applies[0].Requests[0].Bytes, request) {
		t.Errorf("worker logged %d applies", len(applies))
	}
}

func TestFaultsOfAWorkerAreToldApart(t *testing.T) {
	for _, row := range []struct {
		name    string
		fault   talosd.Fault
		got     bool
		code    codes.Code
		matched bool
		applies int
	}{
		{"drops the answer", talosd.Fault{Kind: talosd.DropAnswer}, false, codes.DeadlineExceeded, true, 1},
		{"resets at the header", talosd.Fault{Kind: talosd.ResetRequest}, false, codes.Unavailable, false, 0},
		{"resets before it lands", talosd.Fault{Kind: talosd.ResetBefore}, false, codes.Unavailable, false, 1},
		{"resets after it landed", talosd.Fault{Kind: talosd.ResetAfter}, false, codes.Unavailable, true, 1},
		{"refuses", talosd.Fault{Kind: talosd.ErrorBefore, Code: uint32(codes.FailedPrecondition), Message: "busy"}, true, codes.FailedPrecondition, false, 1},
		{"says error and has landed it", talosd.Fault{Kind: talosd.ErrorAfter, Code: uint32(codes.Internal), Message: "odd"}, true, codes.Internal, true, 1},
		{"lands it and answers late", talosd.Fault{Kind: talosd.AnswerLate, Delay: time.Hour}, false, codes.DeadlineExceeded, true, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newPKI(t)
			n, target := worker(t, p)
			c, before, err := p.pool(t).Reach(ctxFor(t), target)
			must(t, err)
			t.Cleanup(func() { must(t, c.Close()) })
			must(t, n.Fault(row.fault))

			text, request := change(t)

			deadline := soon()
			if row.code == codes.DeadlineExceeded {
				deadline = time.Now().Add(time.Second) // the worker has long landed it
			}

			a := c.Apply(ctxFor(t), request, []string{RoleAdmin}, "id", deadline)
			if a.Got != row.got || a.Code != row.code || a.NotSent() {
				t.Errorf("answer is %+v", a)
			}

			r := c.ReadBack(ctxFor(t), ReadBackConfig{Before: before, Want: wants(string(text)), Once: true})
			if r.Matched != row.matched || r.Moved != row.matched || r.Err != nil {
				t.Errorf("read back %+v", r)
			}

			if got := len(n.Log().Applies()); got != row.applies {
				t.Errorf("worker logged %d applies", got)
			}
		})
	}
}

func TestAnotherMachineAtTheAddressShowsInTheEvidence(t *testing.T) {
	p := newPKI(t)
	n, target := worker(t, p)
	target.NodeID = "node-a"
	pool := p.pool(t)

	must(t, n.SwapIdentity(talosd.Identity{NodeID: "node-z"}))

	c, e, err := pool.Reach(ctxFor(t), target)
	must(t, err)
	must(t, c.Close())

	if e.NodeID != "node-z" {
		t.Errorf("evidence is %+v", e)
	}
}

// A machine may quote its configuration in an error. Its code says enough; its words are kept
// out of ours, which go into the log and the book.
func TestAMachinesWordsAreNotInTheError(t *testing.T) {
	p := newPKI(t)
	n, target := worker(t, p)
	const secret = "s3cret-canary"

	for code, class := range map[codes.Code]Class{
		codes.Internal: ClassRefused, codes.PermissionDenied: ClassRefused, codes.NotFound: ClassIncomplete,
		codes.Unavailable: ClassUnreachable, codes.DeadlineExceeded: ClassUnreachable, codes.Canceled: ClassUnreachable,
	} {
		must(t, n.Fault(talosd.Fault{
			Kind: talosd.ErrorBefore, Method: "/cosi.resource.State/Get", Times: -1, Code: uint32(code), Message: "error reading from server: " + secret,
		}))

		_, err := p.pool(t).Observe(ctxFor(t), target)
		if ClassOf(err) != class || !strings.Contains(err.Error(), code.String()) || strings.Contains(fmt.Sprintf("%v %+v", err, err), secret) {
			t.Errorf("%v: error is %v, of class %q", code, err, ClassOf(err))
		}

		n.ClearFaults()
	}
}

func TestAWorkerInMaintenanceIsNotConnectedTo(t *testing.T) {
	p := newPKI(t)
	n, target := worker(t, p)
	must(t, n.EnterMaintenance())

	if _, err := p.pool(t).Open(ctxFor(t), target); ClassOf(err) != ClassUntrusted {
		t.Errorf("error is %v", err)
	}

	if got := len(n.Log().Calls()); got != 0 {
		t.Errorf("worker logged %d calls", got)
	}
}

func TestAWorkerThatRefusesDialsIsUnreachable(t *testing.T) {
	p := newPKI(t)
	n, target := worker(t, p)
	n.RefuseDials(true)

	if _, err := p.pool(t).Open(ctxFor(t), target); ClassOf(err) != ClassUnreachable {
		t.Errorf("error is %v", err)
	}
}
