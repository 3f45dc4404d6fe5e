package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"bronzeward/fixtures/talosd"
	"bronzeward/fixtures/talospki"
	"bronzeward/fixtures/world"
)

// benchHouse is the world of the load program: the product's binary, PostgreSQL, two fake
// workers and the bare proxy, each a process of its own.
type benchHouse struct {
	*world.World
	db        *pgx.Conn
	small     *benchNode // holds the 15 KiB configuration
	big       *benchNode // holds the 10.7 MiB configuration
	processes []*benchProcess
	ways      []benchWay // to the small node: direct, bare proxy, Bronzeward
	wide      []benchWay // to the big node, the same
	fleet     []*benchMember
	other     *benchMember // the small node, beside the fleet
	conns     []*grpc.ClientConn
	web       []*http.Transport
	temporary string
}

// benchNode is one fake worker.
type benchNode struct {
	name    string
	address string // ip:port
	text    []byte // what it was started with
}

// benchWay is one way to a node. dial makes a client's own connection.
type benchWay struct {
	name string
	dial func() (*grpc.ClientConn, error)
	md   metadata.MD
}

const (
	wayDirect = "direct"
	wayProxy  = "bare proxy"
	wayGate   = "Bronzeward"
)

// benchLimits lift what bounds one caller: the load comes from one.
const benchLimits = `limits:
  calls_per_second: 1000000
  calls_per_second_per_address: 1000000
  streams_per_caller: 1000
changes:
  waiting_per_caller: 10000
  waiting_bytes_per_caller: 1000000000
`

// openBenchHouse starts everything.
func openBenchHouse(ctx context.Context, product, dir string) (_ *benchHouse, err error) {
	h := &benchHouse{}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	if dir == "" {
		if dir, err = os.MkdirTemp("", "bronzeward-bench-"); err != nil {
			return nil, err
		}
		h.temporary = dir
		// The database's account must be able to enter.
		if err := os.Chmod(dir, 0o755); err != nil {
			return nil, err
		}
	}
	h.World, err = world.Start(ctx, world.Config{
		Dir: dir, Binary: product, Progress: os.Stderr, Recording: talosd.RecordNothing, Workers: 1, Extra: benchLimits,
	})
	if err != nil {
		return nil, err
	}
	if h.db, err = pgx.Connect(ctx, h.Postgres.DSN(world.Database, "postgres")); err != nil {
		return nil, err
	}
	for i := range fleetSize {
		if err := h.PutCredential(ctx, fleetCluster(i)); err != nil {
			return nil, err
		}
	}
	if _, err = h.StartGateway(ctx, "gateway-1"); err != nil {
		return nil, err
	}
	base, _ := h.Nodes["worker-1"].Active()
	if h.small, err = h.node(ctx, "bench-small", "127.0.0.201", workerText(base)); err != nil {
		return nil, err
	}
	if h.big, err = h.node(ctx, "bench-large", "127.0.0.202", largeText(base)); err != nil {
		return nil, err
	}
	if err := h.adminCertificate(); err != nil {
		return nil, err
	}
	if h.ways, err = h.waysTo(h.small); err != nil {
		return nil, err
	}
	h.wide, err = h.waysTo(h.big)
	return h, err
}

func (h *benchHouse) close() error {
	var problems []error
	for _, c := range h.conns {
		problems = append(problems, c.Close())
	}
	for _, t := range h.web {
		t.CloseIdleConnections()
	}
	for _, p := range h.processes {
		problems = append(problems, p.stop())
	}
	if h.db != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		problems = append(problems, h.db.Close(ctx))
	}
	if h.World != nil {
		problems = append(problems, h.World.Close())
	}
	if h.temporary != "" {
		problems = append(problems, os.RemoveAll(h.temporary))
	}
	return errors.Join(problems...)
}

// node starts a fake worker and makes it known and pinned.
func (h *benchHouse) node(ctx context.Context, name, ip string, text []byte) (*benchNode, error) {
	n, err := h.startNode(name, ip, text)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(n.address)
	if err != nil {
		return nil, err
	}
	if _, err := h.Bronzeward(ctx, "olga", "machines", "add", name, "--cluster", world.Cluster, "--address", ip, "--port", port, "--role", "worker"); err != nil {
		return nil, err
	}
	_, err = h.Bronzeward(ctx, "olga", "machines", "pin", name)
	return n, err
}

// startNode starts a fake worker that keeps no log; more are further flags.
func (h *benchHouse) startNode(name, ip string, text []byte, more ...string) (*benchNode, error) {
	file := h.Path("nodes", name+".yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	args := append([]string{
		"node", "-name", name, "-listen", ip + ":0", "-ca", h.Path("pki", "talos-ca.crt"), "-ca-key", h.Path("pki", "talos-ca.key"),
		"-config", file, "-recording", string(talosd.RecordNothing), "-platform", "metal", "-uuid", "4c4c4544-0000-4000-8000-0000000" + strconv.Itoa(len(h.processes)+10000),
	}, more...)
	line, err := h.start(args...)
	if err != nil {
		return nil, fmt.Errorf("starting node %s: %w", name, err)
	}
	var status talosd.Status
	if err := json.Unmarshal([]byte(line), &status); err != nil {
		return nil, fmt.Errorf("starting node %s: it said %q", name, line)
	}
	return &benchNode{name: name, address: status.Addr, text: text}, nil
}

// adminCertificate is what direct callers and the bare proxy show to a node.
func (h *benchHouse) adminCertificate() error {
	admin, err := talospki.Client(h.Talos, time.Now(), "os:admin")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(h.Path("pki", "bench.crt"), admin.Cert, 0o600), os.WriteFile(h.Path("pki", "bench.key"), admin.Key, 0o600))
}

// waysTo are the three ways to a node, a bare proxy of its own among them.
func (h *benchHouse) waysTo(n *benchNode) ([]benchWay, error) {
	cert, key, ca := h.Path("pki", "bench.crt"), h.Path("pki", "bench.key"), h.Path("pki", "talos-ca.crt")
	proxy, err := h.start("bench-proxy", "-upstream", n.address, "-cert", cert, "-key", key, "-ca", ca,
		"-server-cert", h.Path("pki", "server.crt"), "-server-key", h.Path("pki", "server.key"))
	if err != nil {
		return nil, fmt.Errorf("starting the bare proxy: %w", err)
	}
	direct, err := benchTLS(cert, key, ca)
	if err != nil {
		return nil, err
	}
	person, err := h.ClientTLS("olga")
	if err != nil {
		return nil, err
	}
	toProxy := direct.Clone()
	toProxy.RootCAs = person.RootCAs
	dialer := func(address string, cfg *tls.Config) func() (*grpc.ClientConn, error) {
		return func() (*grpc.ClientConn, error) {
			conn, err := grpc.NewClient("passthrough:///"+address, benchDialOptions(cfg, grpc.ForceCodecV2(rawBytes{}))...)
			if err == nil {
				h.conns = append(h.conns, conn)
			}
			return conn, err
		}
	}
	return []benchWay{
		{name: wayDirect, dial: dialer(n.address, direct)},
		{name: wayProxy, dial: dialer(proxy, toProxy)},
		{name: wayGate, dial: dialer(h.Endpoint, person), md: metadata.Pairs("node", n.name)},
	}, nil
}
