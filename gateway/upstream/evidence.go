package upstream

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	cosi "github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Document is one configuration of a machine as its resource holds it.
type Document struct {
	// Text is the configuration, byte for byte as it was applied.
	Text []byte
	// Version and Created identify the state of the resource. Versions start again at
	// each boot, so they are compared only within one Created.
	Version string
	Created time.Time
}

// Same tells whether the resource has not moved between two readings.
func (d Document) Same(o Document) bool { return d.Version == o.Version && d.Created.Equal(o.Created) }

// String keeps the text out of logs.
func (d Document) String() string { return "configuration version " + d.Version }

// GoString keeps the text out of %#v.
func (d Document) GoString() string { return d.String() }

// Evidence is what was read from a machine over one connection. Every field is set,
// except SMBIOS, which not every machine has.
type Evidence struct {
	// Version is the running Talos version, "v1.13.6"; Minor is "1.13".
	Version string
	Minor   string
	// Stage is Talos's word: "running", "booting", "maintenance" and so on.
	Stage string
	// Type is the live machine type: "worker", "controlplane", "init" or "unknown".
	Type string
	// NodeID and ClusterID are Talos's own identities; SMBIOS is the hardware UUID, ""
	// where the machine has no system information.
	NodeID    string
	ClusterID string
	SMBIOS    string
	// Active is the configuration that runs, Persistent the one on disk.
	Active     Document
	Persistent Document
	// Address is where all of this was read.
	Address netip.AddrPort

	// local and remote name the connection it was read over.
	local, remote string
}

// Evidence reads the machine, all pieces side by side, within Config.ReadTimeout. A
// piece that cannot be had is an *Error naming it; there is no partial Evidence.
func (c *SendingConn) Evidence(ctx context.Context) (Evidence, error) {
	return c.pool.read(ctx, c.conn)
}

// Observe reads a machine over its pooled connection. It calls nothing that changes
// anything.
func (p *Pool) Observe(ctx context.Context, t Target) (Evidence, error) {
	conn, err := p.Conn(ctx, t)
	if err != nil {
		return Evidence{}, err
	}

	return p.read(ctx, conn)
}

// reading is one piece of Evidence: who asks, and how the answer is understood.
type reading struct {
	part string
	role string
	call func(ctx context.Context, conn *grpc.ClientConn, e *Evidence, opts ...grpc.CallOption) error
}

// readings are all pieces. They write different fields, so they may run together.
func readings() []reading {
	return []reading{
		{"version", RoleReader, readVersion},
		{"stage", RoleReader, get(stageResource, takeStage)},
		{"machine type", RoleReader, get(typeResource, takeType)},
		{"node id", RoleReader, get(identityResource, takeIdentity)},
		{"cluster id", RoleReader, get(clusterResource, takeCluster)},
		{"system information", RoleReader, optional(get(systemResource, takeSystem))},
		{"active configuration", RoleAdmin, get(activeResource, takeDocument(func(e *Evidence) *Document { return &e.Active }))},
		{"persistent configuration", RoleAdmin, get(persistentResource, takeDocument(func(e *Evidence) *Document { return &e.Persistent }))},
	}
}

// read asks for everything at once: one round trip on a connection that is up.
func (p *Pool) read(ctx context.Context, conn *grpc.ClientConn) (Evidence, error) {
	return p.readAll(ctx, conn, readings())
}

func (p *Pool) readAll(ctx context.Context, conn *grpc.ClientConn, all []reading) (Evidence, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.ReadTimeout)
	defer cancel()

	var (
		e     Evidence
		wg    sync.WaitGroup
		errs  = make([]error, len(all))
		peers = make([]peer.Peer, len(all))
	)

	for i, r := range all {
		wg.Go(func() {
			ctx := metadata.NewOutgoingContext(ctx, OutgoingMetadata([]string{r.role}, ""))
			if errs[i] = r.call(ctx, conn, &e, grpc.Peer(&peers[i])); errs[i] != nil {
				cancel() // the others cannot make it whole
			}
		})
	}

	wg.Wait()

	if err := firstCause(all, errs, peers); err != nil {
		return Evidence{}, err
	}

	// A pooled connection may have been replaced half-way, by one to another address.
	for _, q := range peers {
		if q.Addr == nil || q.LocalAddr == nil || q.Addr.String() != peers[0].Addr.String() || q.LocalAddr.String() != peers[0].LocalAddr.String() {
			return Evidence{}, &Error{Class: ClassUnreachable, Err: errors.New("the connection changed while it was read")}
		}
	}

	e.Address = addressOf(peers[0])
	e.local, e.remote = peers[0].LocalAddr.String(), peers[0].Addr.String()

	return e, nil
}

// firstCause picks the error that made the others give up, not one of theirs.
func firstCause(all []reading, errs []error, peers []peer.Peer) error {
	var found error

	for i, err := range errs {
		if err == nil {
			continue
		}

		if found == nil || isCanceled(found) {
			found = &Error{Class: classOfRead(err), Address: addressOf(peers[i]), Part: all[i].part, Err: unworded(err, peers[i])}
		}
	}

	return found
}

// unworded takes a machine's words from its answer and leaves the code: they may quote its
// configuration. While there was no connection the words are gRPC's own.
func unworded(err error, from peer.Peer) error {
	st, answered := status.FromError(err)
	if !answered || from.Addr == nil {
		return err
	}

	switch st.Message() {
	case context.DeadlineExceeded.Error(), context.Canceled.Error():
		return err
	}

	return status.Error(st.Code(), "the machine or the connection to it said no more that could be shown")
}

func isCanceled(err error) bool {
	var e *Error

	return errors.As(err, &e) && status.Code(e.Err) == codes.Canceled
}

// classOfRead: gRPC's Unavailable, DeadlineExceeded and Canceled are a connection that
// is not there; a malformed answer says so itself; the rest is the machine's word.
func classOfRead(err error) Class {
	var m *malformed
	if errors.As(err, &m) {
		return ClassIncomplete
	}

	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return ClassUnreachable
	case codes.NotFound, codes.ResourceExhausted:
		return ClassIncomplete
	default:
		return ClassRefused
	}
}

func addressOf(p peer.Peer) netip.AddrPort {
	if p.Addr == nil {
		return netip.AddrPort{}
	}

	a, err := netip.ParseAddrPort(p.Addr.String())
	if err != nil {
		return netip.AddrPort{}
	}

	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

func readVersion(ctx context.Context, conn *grpc.ClientConn, e *Evidence, opts ...grpc.CallOption) error {
	resp, err := machine.NewMachineServiceClient(conn).Version(ctx, &emptypb.Empty{}, opts...)
	if err != nil {
		return err
	}

	return takeVersion(resp, e)
}

// get reads one resource and checks that it is the one asked for.
func get(want resourceName, take func(*cosi.Resource, *Evidence) error) func(context.Context, *grpc.ClientConn, *Evidence, ...grpc.CallOption) error {
	return func(ctx context.Context, conn *grpc.ClientConn, e *Evidence, opts ...grpc.CallOption) error {
		resp, err := cosi.NewStateClient(conn).Get(ctx, &cosi.GetRequest{
			Namespace: want.namespace, Type: want.kind, Id: want.id, Options: &cosi.GetOptions{},
		}, opts...)
		if err != nil {
			return err
		}

		if err := want.check(resp.GetResource()); err != nil {
			return err
		}

		return take(resp.GetResource(), e)
	}
}

// optional makes "there is none" an answer.
func optional(call func(context.Context, *grpc.ClientConn, *Evidence, ...grpc.CallOption) error) func(context.Context, *grpc.ClientConn, *Evidence, ...grpc.CallOption) error {
	return func(ctx context.Context, conn *grpc.ClientConn, e *Evidence, opts ...grpc.CallOption) error {
		err := call(ctx, conn, e, opts...)
		if status.Code(err) == codes.NotFound {
			return nil
		}

		return err
	}
}
