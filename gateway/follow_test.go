package gateway

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"
	"google.golang.org/grpc/codes"

	"bronzeward/fixtures/talosd"
	"bronzeward/fixtures/world"
)

// Whoever asks for an apply that is under way follows it: the terminal says what is waited for, the
// command ends as the attempt does, and nothing is sent twice. The same bytes once more are told
// which attempt they are, and whoever asks later is told what became of it.
func TestAnApplyThatIsUnderWayIsFollowed(t *testing.T) {
	s := newStreet(t, 2, 1)
	at := s.serve(t, "gateway-2").Gateway
	house := s.At(at)
	for _, row := range []struct {
		name, worker string
		goesOn       func(*talosd.Node) error
		state, says  string
		code         int
		whose        string // what is said of it afterwards: who sent it only where it is known that it was sent
	}{
		{"it lands late", "worker-1", func(*talosd.Node) error { return nil }, "completed", "is completed", 0, "applied by olga"},
		{"it is lost", "worker-2", (*talosd.Node).Reboot, "unresolved", "nobody knows whether worker-2 took the configuration", 1, "the attempt is of olga"},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx, node := bounded(t), s.Nodes[row.worker]
			text := s.Labelled(row.worker, "followed")
			change := s.Apply(ctx, at, "olga", row.worker, text).Change()
			ok(t, house.Approve(ctx, "ada", change))
			ok(t, node.Fault(talosd.Fault{Kind: talosd.Pause}))
			first := onTerminal(t, house, "olga", "changes", "apply", change)
			ok(t, node.Log().Wait(ctx, heldNow))
			id := must(s.db.Texts(ctx, "select a.id::text from control.attempts a join control.machines m on m.id = a.machine_id where m.name = $1", row.worker))(t)[0]

			second := onTerminal(t, house, "otto", "changes", "apply", change, "--wait")
			for _, one := range []*typed{first, second} {
				eventually(t, "the terminal to say what is waited for", func() bool {
					return strings.Contains(one.screen(), "applying "+change+" to "+row.worker+" …")
				})
			}
			same := s.Apply(ctx, at, "olga", row.worker, text)
			if same.Code != codes.Aborted || same.Reason() != "BW-ATTEMPT-001" || !strings.Contains(same.Text, id) {
				t.Errorf("the same bytes while it is under way: %v %s", same.Code, same.Text)
			}
			ok(t, row.goesOn(node))
			node.Resume()

			for who, one := range map[string]*typed{"who began it": first, "who followed it": second} {
				code, said := one.ends(t)
				if code != row.code || !strings.Contains(said, row.says) || !strings.Contains(said, "attempt "+id+" is "+row.state) {
					t.Errorf("%s: code %d, want %d and %q\n%s", who, code, row.code, row.says, said)
				}
			}
			code, said := onTerminal(t, house, "olga", "changes", "apply", change, "--wait").ends(t)
			if code != row.code || !strings.Contains(said, row.says) || !strings.Contains(said, row.whose) {
				t.Errorf("asked once more: code %d, want %d and %q\n%s", code, row.code, row.says, said)
			}
			if n := len(node.Log().Applies()); n != 1 {
				t.Errorf("%s was sent %d applies", row.worker, n)
			}
		})
	}
}

// typed is a command of the product that somebody runs at a terminal which cannot be drawn on anew.
type typed struct {
	cmd  *exec.Cmd
	out  bytes.Buffer // what it prints for a pipe; read when it has ended
	read chan struct{}

	mu   sync.Mutex // guards told
	told bytes.Buffer
}

// onTerminal begins a command with standard error on a terminal.
func onTerminal(t *testing.T, w *world.World, person string, args ...string) *typed {
	t.Helper()
	master, tty, err := pty.Open()
	ok(t, err)
	c := &typed{cmd: exec.CommandContext(bounded(t), w.Binary, args...), read: make(chan struct{})}
	c.cmd.Env = world.Environment(append(w.ClientEnvironment(person), "TERM=dumb")...)
	c.cmd.Stdout, c.cmd.Stderr = &c.out, tty
	ok(t, c.cmd.Start())
	ok(t, tty.Close())
	go func() {
		defer close(c.read)
		defer master.Close()
		_, _ = io.Copy(c, master) // ends with EIO when the program closes its terminal
	}()
	return c
}

// Write takes more of what the terminal shows.
func (c *typed) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.told.Write(p)
}

func (c *typed) screen() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.told.String()
}

// ends waits for the command's end, and gives its exit code and all it has said.
func (c *typed) ends(t *testing.T) (code int, said string) {
	t.Helper()
	err := c.cmd.Wait()
	<-c.read
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.cmd.ProcessState.ExitCode(), c.out.String() + c.screen()
}
