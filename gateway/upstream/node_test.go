package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	cosi "github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/api/resource/config"
	"github.com/siderolabs/talos/pkg/machinery/api/resource/definitions/cluster"
	"github.com/siderolabs/talos/pkg/machinery/api/resource/definitions/enums"
	"github.com/siderolabs/talos/pkg/machinery/api/resource/definitions/hardware"
	runtimepb "github.com/siderolabs/talos/pkg/machinery/api/resource/definitions/runtime"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	gproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"bronzeward/fixtures/talospki"
)

func TestMain(m *testing.M) {
	if os.Getenv(senderEnv) != "" {
		senderMain()
		os.Exit(0)
	}

	goleak.VerifyTestMain(m)
}

// pki is one Talos CA with the gateway's credential.
type pki struct {
	ca     talospki.Pair
	client tls.Certificate
}

func newPKI(t testing.TB) *pki {
	t.Helper()

	ca, err := talospki.NewCA(time.Now())
	must(t, err)

	return &pki{ca: ca, client: clientOf(t, ca, RoleImpersonator)}
}

func clientOf(t testing.TB, ca talospki.Pair, roles ...string) tls.Certificate {
	t.Helper()

	pair, err := talospki.Client(ca, time.Now(), roles...)
	must(t, err)
	cert, err := pair.TLS()
	must(t, err)

	return cert
}

func (p *pki) server(t testing.TB, names []string, addrs ...string) tls.Certificate {
	t.Helper()

	var ips []netip.Addr
	for _, a := range addrs {
		ips = append(ips, netip.MustParseAddr(a))
	}

	pair, err := talospki.Server(p.ca, time.Now(), names, ips)
	must(t, err)
	cert, err := pair.TLS()
	must(t, err)

	return cert
}

// Credential makes pki a CredentialSource for any cluster.
func (p *pki) Credential(context.Context, string) (Credential, error) {
	ca, err := p.ca.Leaf()

	return Credential{Certificate: p.client, CAs: []*x509.Certificate{ca}}, err
}

func (*pki) Clusters() []string { return []string{""} }

func (p *pki) pool(t testing.TB, edit ...func(*Config)) *Pool {
	t.Helper()

	cfg := Config{Credential: p}
	for _, e := range edit {
		e(&cfg)
	}

	pool, err := NewPool(cfg)
	must(t, err)
	t.Cleanup(func() { must(t, pool.Close()) })

	return pool
}

// node is a machine that serves what Evidence asks for and records every apply. Its
// fields may be changed between calls under mu.
type node struct {
	cosi.UnimplementedStateServer

	addr netip.AddrPort
	pki  *pki
	grpc *grpc.Server

	mu        sync.Mutex
	version   *machine.VersionResponse
	resources map[string]*cosi.Resource // by type/id
	errs      map[string]error          // by type/id, or method
	apply     func(ctx context.Context, n *node, request []byte) ([]byte, error)
	requests  [][]byte
	calls     []seenCall
	serial    int
	witness   func(ctx context.Context) // is told of every call; may be null

	accepted atomic.Int64 // TCP connections
}

type seenCall struct {
	method string
	md     metadata.MD
}

// startNode serves on loopback with the CA's certificate for 127.0.0.1.
func startNode(t testing.TB, p *pki, edit ...func(*node)) *node {
	t.Helper()

	return startNodeAt(t, p, "127.0.0.1:0", p.server(t, nil, "127.0.0.1"), edit...)
}

func startNodeAt(t testing.TB, p *pki, address string, cert tls.Certificate, edit ...func(*node)) *node {
	t.Helper()

	n := &node{pki: p, errs: map[string]error{}}
	n.furnish("node-a", "cluster-a", "4c4c4544-0000-1000-8000-000000000001", "version: v1alpha1\n")

	for _, e := range edit {
		e(n)
	}

	l, err := net.Listen("tcp", address)
	must(t, err)
	n.addr = netip.MustParseAddrPort(l.Addr().String())

	n.grpc = grpc.NewServer(
		grpc.Creds(credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13,
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: p.ca.Pool(), NextProtos: []string{"h2"},
		})),
		grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(64<<20),
		grpc.ForceServerCodecV2(eitherCodec{encoding.GetCodecV2(gproto.Name)}),
		grpc.UnaryInterceptor(n.note),
		grpc.UnknownServiceHandler(n.machineService),
	)
	cosi.RegisterStateServer(n.grpc, n)

	done := make(chan struct{})
	go func() { defer close(done); _ = n.grpc.Serve(&countingListener{Listener: l, n: &n.accepted}) }()
	t.Cleanup(func() { n.grpc.Stop(); <-done })

	return n
}

func (n *node) target() Target { return Target{Addresses: []netip.AddrPort{n.addr}} }

// furnish fills in all that Evidence reads.
func (n *node) furnish(nodeID, clusterID, uuid, text string) {
	n.version = &machine.VersionResponse{Messages: []*machine.Version{{Version: &machine.VersionInfo{Tag: "v1.13.6"}}}}
	n.resources = map[string]*cosi.Resource{}
	n.put(stageResource, &runtimepb.MachineStatusSpec{Stage: enums.RuntimeMachineStage_MACHINE_STAGE_RUNNING})
	n.put(typeResource, &config.MachineTypeSpec{MachineType: config.MachineType_WORKER})
	n.put(identityResource, &cluster.IdentitySpec{NodeId: nodeID})
	n.put(clusterResource, &cluster.InfoSpec{ClusterId: clusterID})
	n.put(systemResource, &hardware.SystemInformationSpec{Uuid: uuid})
	n.setText(text)
}

var bootTime = time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)

func (n *node) put(name resourceName, spec proto.Message) {
	b, err := proto.Marshal(spec)
	if err != nil {
		panic(err)
	}

	n.serial++
	n.resources[name.kind+"/"+name.id] = &cosi.Resource{
		Metadata: &cosi.Metadata{
			Namespace: name.namespace, Type: name.kind, Id: name.id,
			Version: time.Duration(n.serial).String(), Phase: "running",
			Created: timestamppb.New(bootTime), Updated: timestamppb.New(bootTime),
		},
		Spec: &cosi.Spec{ProtoSpec: b},
	}
}

func (n *node) setText(text string) {
	n.put(activeResource, &config.MachineConfigSpec{YamlMarshalled: []byte(text)})
	n.put(persistentResource, &config.MachineConfigSpec{YamlMarshalled: []byte(text)})
}

func (n *node) lock(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

func (n *node) sent() [][]byte {
	n.mu.Lock()
	defer n.mu.Unlock()

	return append([][]byte(nil), n.requests...)
}

func (n *node) seen() []seenCall {
	n.mu.Lock()
	defer n.mu.Unlock()

	return append([]seenCall(nil), n.calls...)
}

// Get serves a resource.
func (n *node) Get(_ context.Context, r *cosi.GetRequest) (*cosi.GetResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()

	key := r.GetType() + "/" + r.GetId()
	if err := n.errs[key]; err != nil {
		return nil, err
	}

	res := n.resources[key]
	if res == nil {
		return nil, status.Error(codes.NotFound, "resource doesn't exist")
	}

	return &cosi.GetResponse{Resource: proto.CloneOf(res)}, nil
}

func (n *node) note(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
	n.noteCall(ctx, info.FullMethod)

	return h(ctx, req)
}

func (n *node) noteCall(ctx context.Context, method string) {
	md, _ := metadata.FromIncomingContext(ctx)
	n.lock(func() {
		n.calls = append(n.calls, seenCall{method, md})
		if n.witness != nil {
			n.witness(ctx)
		}
	})
}

// machineService serves Version and ApplyConfiguration on raw bytes.
func (n *node) machineService(_ any, s grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(s)
	n.noteCall(s.Context(), method)

	var request []byte
	if err := s.RecvMsg(&request); err != nil {
		return err
	}

	if err := s.RecvMsg(new([]byte)); err != io.EOF { //nolint:errorlint // gRPC gives it bare
		return status.Error(codes.InvalidArgument, "more than one message")
	}

	n.mu.Lock()
	version, apply, err := n.version, n.apply, n.errs[method]
	if method == ApplyMethod {
		n.requests = append(n.requests, request)
	}
	n.mu.Unlock()

	switch {
	case err != nil:
		return err
	case method == machine.MachineService_Version_FullMethodName:
		return s.SendMsg(version)
	case method != ApplyMethod:
		return status.Error(codes.Unimplemented, method)
	case apply == nil:
		return s.SendMsg(&[]byte{})
	}

	response, err := apply(s.Context(), n, request)
	if err != nil {
		return err
	}

	return s.SendMsg(&response)
}

// eitherCodec carries *[]byte raw and everything else as protobuf.
type eitherCodec struct{ encoding.CodecV2 }

func (c eitherCodec) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.(*[]byte); ok {
		return rawCodec{}.Marshal(b)
	}

	return c.CodecV2.Marshal(v)
}

func (c eitherCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if b, ok := v.(*[]byte); ok {
		return rawCodec{}.Unmarshal(data, b)
	}

	return c.CodecV2.Unmarshal(data, v)
}

type countingListener struct {
	net.Listener
	n *atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.n.Add(1)
	}

	return c, err
}

func must(t testing.TB, err error) {
	t.Helper()

	if err != nil {
		t.Fatal(err)
	}
}

// soon is a deadline far enough away never to matter.
func soon() time.Time { return time.Now().Add(30 * time.Second) }

func ctxFor(t testing.TB) context.Context {
	t.Helper()

	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)

	return ctx
}

func openFor(t testing.TB, p *Pool, target Target) *SendingConn {
	t.Helper()

	c, err := p.Open(ctxFor(t), target)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })

	return c
}
