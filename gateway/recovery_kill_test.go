package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/faults"
	"bronzeward/fixtures/world"
	"bronzeward/gateway/httpapi/api"
)

// anchor is what OpenBao remembers.
func (s *street) anchor(t *testing.T) map[string]any {
	t.Helper()
	status, answer, err := s.OpenBao.API(context.Background(), http.MethodGet, "bronzeward/data/anchor", nil)
	if err != nil || status != http.StatusOK {
		t.Fatalf("reading the anchor: %d, %v", status, err)
	}
	data, _ := answer["data"].(map[string]any)
	there, _ := data["data"].(map[string]any)
	return there
}

func (s *street) epoch(t *testing.T) string {
	t.Helper()
	return must(s.db.Texts(context.Background(), "select epoch::text from control.installation"))(t)[0]
}

// sessionsEnd waits until the database has seen the end of a killed process. What it was still to do
// for that process it does not do.
func (s *street) sessionsEnd(t *testing.T, instance string) {
	t.Helper()
	eventually(t, instance+"'s sessions to end", func() bool {
		return must(s.db.Count(context.Background(), `select count(pg_terminate_backend(pid)) from pg_stat_activity
			where application_name = $1`, "bronzeward "+instance))(t) == 0
	})
}

// recovery readies a command about recovery, as rhea gives it, at a process.
func (s *street) recovery(at *process, args ...string) *exec.Cmd {
	cmd := exec.Command(s.Binary, append([]string{"recovery"}, args...)...)
	cmd.Env = world.Environment(s.At(at.Gateway).ClientEnvironment("rhea")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// again gives it to a fresh process; once more when a machine under load did not answer in time, as
// the answer says.
func (s *street) again(t *testing.T, at *process, args ...string) (string, error) {
	t.Helper()
	out, err := s.recovery(at, args...).CombinedOutput()
	for tries := 0; exitOf(err) == 5 && tries < 10; tries++ {
		t.Logf("%s\nthe gateway:\n%s", out, at.Log())
		out, err = s.recovery(at, args...).CombinedOutput()
	}
	return string(out), err
}

// stands holds what recovery status says: the state, and what is open on its list.
func (s *street) stands(t *testing.T, at *process, state api.RecoveryState, open ...string) {
	t.Helper()
	out, err := s.again(t, at, "status", "-o", "json")
	ok(t, err)
	var now api.RecoveryStatus
	ok(t, json.Unmarshal([]byte(out), &now))
	var names []string
	for _, i := range now.Items {
		if i.Open {
			names = append(names, i.Name)
		}
	}
	if now.State != state || strings.Join(names, " ") != strings.Join(open, " ") {
		t.Errorf("it stands %s with %v open, want %s with %v", now.State, names, state, open)
	}
}

// applies has olga apply another configuration to worker-1. It is to be refused with the code, or to
// land when that is empty.
func (s *street) applies(t *testing.T, value, code string) {
	t.Helper()
	active, _ := s.Nodes["worker-1"].Active()
	text := append(bytes.Clone(active), "# "+value+"\n"...)
	a := s.as(t, "olga").apply(t, "worker-1", noReboot(t, text))
	if code == "" {
		succeeded(t, a)
		return
	}
	refusedWith(t, a, codes.PermissionDenied, code)
}

var entering = []string{"enter", "--yes", "--reason", "restored"}

// enteringPoint is where a process that enters recovery dies, and what must be left.
type enteringPoint struct {
	name  string
	pause func(*testing.T, *street) (reached, release func())
	// entered is that the database's epoch has moved, and told that OpenBao remembers it.
	entered, told bool
	state         api.RecoveryState
	open          []string
	// refused is the code of an apply that comes then, and of entering once more; empty when it is done.
	refused, again string
}

// A gateway that is killed between any two writings of entering recovery leaves a house in which
// nothing is applied that should not be, and entering again at a fresh process completes it. The
// points are those of EnterRecovery's comment, and of the table in docs/recovery.md.
func TestAGatewayKilledWhileItEntersRecovery(t *testing.T) {
	for _, point := range []enteringPoint{
		{
			name: "the anchor has a pending epoch, the database is old",
			pause: func(t *testing.T, s *street) (func(), func()) {
				let := must(s.db.HoldAuthority(context.Background()))(t)
				return func() {
					eventually(t, "the epoch to be pending", func() bool { return s.anchor(t)["pending"] != nil })
					eventually(t, "entering to wait", func() bool { return must(s.db.Waiting(context.Background()))(t) > 0 })
				}, func() { ok(t, let()) }
			},
			state: api.None,
		},
		{
			name: "the database has entered, the anchor is old",
			pause: func(_ *testing.T, s *street) (func(), func()) {
				f := s.proxy.Order(faults.HoldReply, "insert into control.recoveries")
				return func() { <-f.Met() }, f.Release
			},
			entered: true, state: api.Entered, open: []string{"observe", "anchor"}, refused: codeInRecovery,
		},
		{
			name: "both have entered, and nobody was told",
			pause: func(t *testing.T, s *street) (func(), func()) {
				f := s.proxy.Order(faults.HoldReply, "insert into control.recoveries")
				var let func() error
				return func() {
					<-f.Met()
					// The database is to remember the version that the anchor got: it waits for this row.
					let = must(s.db.Hold(context.Background(), "select from control.recovery for update"))(t)
					f.Release()
					eventually(t, "OpenBao to be told", func() bool { return s.anchor(t)["recovering"] == true })
				}, func() { ok(t, let()) }
			},
			entered: true, told: true, state: api.Entered, open: []string{"observe"}, refused: codeInRecovery, again: "BW-RECOVERY-006",
		},
	} {
		t.Run(point.name, point.run)
	}
}

func (p enteringPoint) run(t *testing.T) {
	s := newStreet(t, 1, 0)
	victim := s.serve(t, "victim")
	before := s.epoch(t)
	reached, release := p.pause(t, s)
	first := s.recovery(victim, entering...)
	ok(t, first.Start())
	reached()
	victim.kill()
	if p.told {
		s.sessionsEnd(t, "victim") // while it waits: it does not remember
	}
	release()
	if err := first.Wait(); err == nil {
		t.Error("whoever entered was told of a success")
	}
	s.sessionsEnd(t, "victim")
	next, _ := s.anchor(t)["pending"].(string)
	if p.told {
		next, _ = s.anchor(t)["epoch"].(string)
	}
	if moved := s.epoch(t) != before; moved != p.entered || next == "" || (s.anchor(t)["epoch"] != before) != p.told {
		t.Fatalf("the epoch moved: %v; the anchor has %v", moved, s.anchor(t))
	}
	heir := s.serve(t, "heir")
	s.stands(t, heir, p.state, p.open...)
	s.applies(t, "before it was entered again", p.refused)
	out, err := s.again(t, heir, entering...)
	if p.again == "" && err != nil || p.again != "" && (err == nil || !strings.Contains(out, p.again)) {
		t.Fatalf("entering again: %v\n%s\nthe gateway:\n%s", err, out, heir.Log())
	}
	if there := s.anchor(t); s.epoch(t) != next || there["epoch"] != next || there["pending"] != nil || there["recovering"] != true {
		t.Errorf("epoch %s of %s, the anchor has %v", s.epoch(t), next, there)
	}
	if n := must(s.db.Count(context.Background(), "select count(*) from control.recoveries"))(t); n != 1 {
		t.Errorf("%d recoveries", n)
	}
	s.stands(t, heir, api.Entered, "observe")
	s.applies(t, "once it was entered", codeInRecovery)
	if strings.Contains(heir.Log(), "panic") {
		t.Errorf("the fresh process panicked:\n%s", heir.Log())
	}
}

// exitOf is the code a command ended with; 0 for one that did not fail.
func exitOf(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}
