package gateway

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	"bronzeward/fixtures/faults"
	"bronzeward/fixtures/talosd"
	"bronzeward/fixtures/world"
)

// street is the world outside of one gateway process: a PostgreSQL behind a proxy, fake
// workers, and the product's binary.
type street struct {
	*world.World
	db    *faults.Database
	proxy *faults.Proxy
}

// newStreet builds the binary and starts the world around it. Its law asks for so many approvals.
func newStreet(t *testing.T, workers, quorum int) *street {
	t.Helper()
	ctx, dir := context.Background(), t.TempDir()
	bin := must(product())(t)
	w := must(world.Start(ctx, world.Config{Dir: filepath.Join(dir, "w"), Binary: bin, Workers: workers, Quorum: quorum}))(t)
	t.Cleanup(func() { ok(t, w.Close()) })
	// The machines are made known through a gateway, which is not needed after that.
	ok(t, must(w.StartGateway(ctx, "gateway-1"))(t).Stop())
	s := &street{World: w}
	s.db = must(faults.OpenDatabase(ctx, w.Postgres.DSN(world.Database, "postgres")))(t)
	t.Cleanup(s.db.Close)
	s.proxy = must(faults.NewProxy(w.Postgres.Socket(), w.Postgres.Port()))(t)
	t.Cleanup(func() { ok(t, s.proxy.Close()) })
	return s
}

// process is one gateway as a process of its own.
type process struct {
	*world.Gateway
	t *testing.T
}

// serve starts a gateway whose database is behind the proxy, and waits until it is ready.
func (s *street) serve(t *testing.T, instance string) *process {
	t.Helper()
	return s.serveAt(t, instance, s.Endpoint)
}

// serveAt is serve for one that listens elsewhere, beside another.
func (s *street) serveAt(t *testing.T, instance, endpoint string) *process {
	t.Helper()
	s.DatabaseHost = s.proxy.Dir()
	p := &process{must(s.StartGatewayAt(context.Background(), instance, endpoint))(t), t}
	t.Cleanup(p.kill)
	return p
}

// kill ends the process with SIGKILL and waits until it is gone.
func (p *process) kill() { ok(p.t, p.Kill()) }

func freeAddress(t *testing.T) string {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

// as connects as a person to whatever process listens.
func (s *street) as(t *testing.T, person string) *client {
	t.Helper()
	conf := must(s.ClientTLS(person))(t)
	conn := must(grpc.NewClient("passthrough:///"+s.Endpoint, grpc.WithTransportCredentials(credentials.NewTLS(conf)), grpc.WithNoProxy()))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return &client{conn: conn}
}

func (s *street) states(t *testing.T, machine string) []string {
	t.Helper()
	return must(s.db.Texts(context.Background(), `select a.state from control.attempts a
		join control.machines m on m.id = a.machine_id where m.name = $1 order by a.opened_at`, machine))(t)
}

// I17: a gateway that is killed between any two steps of an apply leaves nothing applied
// that is unrecorded, and nothing is ever sent twice; the machine is held until a fresh
// process has settled it by what the machine holds. Each pause point is made from outside
// the product. Afterwards only the node's log, the database and the fresh process are asked.
func TestAGatewayKilledBetweenAnyTwoSteps(t *testing.T) {
	points := []killPoint{
		{
			name: "before the commit", machine: "worker-1",
			pause: func(t *testing.T, s *street) (func(), func()) {
				let := must(s.db.HoldAuthority(context.Background()))(t)
				return func() {
					eventually(t, "the decision to wait", func() bool { return must(s.db.Waiting(context.Background()))(t) > 0 })
				}, func() { ok(t, let()) }
			},
			left: nil, settled: nil, sent: 0,
		},
		{
			name: "after the commit, before the send", machine: "worker-2",
			pause: func(_ *testing.T, s *street) (func(), func()) {
				f := s.proxy.Order(faults.HoldReply, attemptRow)
				return func() { <-f.Met() }, f.Release
			},
			left: []string{"open"}, settled: []string{"unresolved"}, sent: 0,
		},
		{
			name: "after the send, before it lands", machine: "worker-3",
			pause: func(t *testing.T, s *street) (func(), func()) {
				n := s.Nodes["worker-3"]
				ok(t, n.Fault(talosd.Fault{Kind: talosd.Pause}))
				return func() { ok(t, n.Log().Wait(bounded(t), heldNow)) }, n.Resume
			},
			left: []string{"open"}, settled: []string{"completed"}, sent: 1,
		},
		{
			name: "after the answer, before the outcome", machine: "worker-4",
			pause: func(t *testing.T, s *street) (func(), func()) {
				n := s.Nodes["worker-4"]
				ok(t, n.Fault(talosd.Fault{Kind: talosd.Pause}))
				var let func() error
				return func() {
					ok(t, n.Log().Wait(bounded(t), heldNow))
					let = must(s.db.Hold(context.Background(), "select from control.attempts where state = 'open' for update"))(t)
					n.Resume()
					eventually(t, "the outcome to wait", func() bool { return must(s.db.Waiting(context.Background()))(t) > 0 })
				}, func() { ok(t, let()) }
			},
			left: []string{"open"}, settled: []string{"completed"}, sent: 1,
		},
	}
	s := newStreet(t, len(points), 0)
	// Each point has a machine of its own, and none waits for another's.
	ok(t, s.db.Exec(context.Background(), "update control.clusters set rollout_limit = 100"))
	for i, p := range points {
		t.Run(p.name, func(t *testing.T) { p.run(t, s, "victim-"+itoa(i), "heir-"+itoa(i)) })
	}
	s.everythingSentIsRecordedOnce(t)
}

// heldNow is true while a fault holds a call.
func heldNow(calls []talosd.Call) bool {
	return slices.ContainsFunc(calls, func(c talosd.Call) bool { return c.Held })
}

// killPoint is where the process dies, and what must be left.
type killPoint struct {
	name, machine string
	pause         func(*testing.T, *street) (reached, release func())
	left, settled []string
	sent          int
}

func (p killPoint) run(t *testing.T, s *street, victim, heir string) {
	node := s.Nodes[p.machine]
	active, _ := node.Active()
	text := []byte(strings.Replace(string(active), "machine:\n", "machine:\n    nodeLabels:\n        test.bronzeward/value: killed\n", 1))
	first := s.serve(t, victim)
	reached, release := p.pause(t, s)
	answers := s.as(t, "olga").goApply(bounded(t), p.machine, noReboot(t, text))
	reached()
	first.kill()
	release()
	if a := <-answers; a.err == nil {
		t.Error("the caller was told of a success")
	}
	eventually(t, "what is left", func() bool {
		n := must(s.db.Count(context.Background(), "select count(*) from pg_stat_activity where application_name = $1", "bronzeward "+victim))(t)
		return n == 0
	})
	if got := s.states(t, p.machine); strings.Join(got, " ") != strings.Join(p.left, " ") {
		t.Errorf("attempts left are %v, want %v", got, p.left)
	}

	second := s.serve(t, heir)
	if len(p.left) > 0 {
		a := s.as(t, "otto").apply(t, p.machine, noReboot(t, append(bytes.Clone(text), "# other\n"...)))
		refusedWith(t, a, codes.PermissionDenied, "BW-HOLDS")
		// As if the lease's time had gone by.
		ok(t, s.db.Exec(context.Background(), `update control.attempts set opened_at = opened_at - interval '10 minutes',
			send_by = send_by - interval '10 minutes', lease_until = lease_until - interval '10 minutes',
			transport_deadline = transport_deadline - interval '10 minutes' where state = 'open'`))
	}
	eventually(t, "the attempt to be settled as "+strings.Join(p.settled, " "), func() bool {
		return strings.Join(s.states(t, p.machine), " ") == strings.Join(p.settled, " ")
	})
	if n := len(node.Log().Applies()); n != p.sent {
		t.Errorf("the node was sent %d applies, want %d", n, p.sent)
	}
	if held := len(p.settled) > 0 && p.settled[0] == "unresolved"; !held {
		succeeded(t, s.as(t, "otto").apply(t, p.machine, noReboot(t, append(bytes.Clone(text), "# other\n"...))))
	}
	second.kill()
	if strings.Contains(second.Log(), "panic") {
		t.Errorf("the fresh process panicked:\n%s", second.Log())
	}
}

// everythingSentIsRecordedOnce holds every apply any node was ever sent against the book.
func (s *street) everythingSentIsRecordedOnce(t *testing.T) {
	t.Helper()
	seen, total := map[string]bool{}, 0
	for name, n := range s.Nodes {
		for _, c := range n.Log().Applies() {
			total++
			id := strings.Join(c.Metadata[DecisionTrailer], " ")
			if seen[id] {
				t.Errorf("%s was sent twice under the decision %s", name, id)
			}
			seen[id] = true
			if rows := must(s.db.Count(context.Background(), `select count(*) from audit.entries e join control.attempts a on a.entry_id = e.id
				where e.id::text = $1 and e.verdict = 'allow' and e.recorded_at < $2`, id, c.At.Add(time.Millisecond)))(t); rows != 1 {
				t.Errorf("%s was sent an apply that is not in the book before it: %s", name, id)
			}
		}
	}
	if total < 4 {
		t.Errorf("%d applies were sent in all: nothing is proven", total)
	}
}
