package gateway

import (
	"context"
	"errors"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"bronzeward/fixtures/faults"
	"bronzeward/fixtures/world"
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

// A gateway that is killed between any two writings of entering recovery leaves a house in which
// nothing is applied that should not be, and entering again at a fresh process completes it. The
// points are those of EnterRecovery's comment.
func TestAGatewayKilledWhileItEntersRecovery(t *testing.T) {
	for _, point := range []struct {
		name    string
		pause   func(*testing.T, *street) (reached, release func())
		entered bool // the database's epoch has moved
	}{
		{"the anchor has a pending epoch, the database is old", func(t *testing.T, s *street) (func(), func()) {
			let := must(s.db.HoldAuthority(context.Background()))(t)
			return func() {
				eventually(t, "the epoch to be pending", func() bool { return s.anchor(t)["pending"] != nil })
				eventually(t, "entering to wait", func() bool { return must(s.db.Waiting(context.Background()))(t) > 0 })
			}, func() { ok(t, let()) }
		}, false},
		{"the database has entered, the anchor is old", func(_ *testing.T, s *street) (func(), func()) {
			f := s.proxy.Order(faults.HoldReply, "insert into control.recoveries")
			return func() { <-f.Met() }, f.Release
		}, true},
	} {
		t.Run(point.name, func(t *testing.T) {
			s := newStreet(t, 1, 0)
			victim := s.serve(t, "victim")
			before := s.epoch(t)
			enter := func() *exec.Cmd {
				cmd := exec.Command(s.Binary, "recovery", "enter", "--yes", "--reason", "restored")
				cmd.Env = world.Environment(s.At(&world.Gateway{HTTP: victim.HTTP}).ClientEnvironment("rhea")...)
				cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
				return cmd
			}
			reached, release := point.pause(t, s)
			first := enter()
			ok(t, first.Start())
			reached()
			victim.kill()
			release()
			if err := first.Wait(); err == nil {
				t.Error("whoever entered was told of a success")
			}
			eventually(t, "the victim's sessions to end", func() bool {
				return must(s.db.Count(context.Background(), "select count(*) from pg_stat_activity where application_name = 'bronzeward victim'"))(t) == 0
			})
			pending, _ := s.anchor(t)["pending"].(string)
			if moved := s.epoch(t) != before; moved != point.entered || pending == "" || s.anchor(t)["epoch"] != before {
				t.Fatalf("the epoch moved: %v; the anchor has %v", moved, s.anchor(t))
			}
			victim = s.serve(t, "heir")
			out, err := enter().CombinedOutput()
			for tries := 0; exitOf(err) == 5 && tries < 10; tries++ { // a machine under load: asked again, as the answer says
				t.Logf("%s\nthe gateway:\n%s", out, victim.Log())
				out, err = enter().CombinedOutput()
			}
			if err != nil {
				t.Fatalf("entering again: %v\n%s\nthe gateway:\n%s", err, out, victim.Log())
			}
			if there := s.anchor(t); s.epoch(t) != pending || there["epoch"] != pending || there["pending"] != nil || there["recovering"] != true {
				t.Errorf("epoch %s of pending %s, the anchor has %v", s.epoch(t), pending, there)
			}
			if n := must(s.db.Count(context.Background(), "select count(*) from control.recoveries"))(t); n != 1 {
				t.Errorf("%d recoveries", n)
			}
			a := s.as(t, "olga").apply(t, "worker-1", noReboot(t, labelled("killed")))
			if a.err == nil || !strings.Contains(a.err.Error(), codeInRecovery) {
				t.Errorf("an apply in recovery: %v", a.err)
			}
			if strings.Contains(victim.Log(), "panic") {
				t.Errorf("the fresh process panicked:\n%s", victim.Log())
			}
		})
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
