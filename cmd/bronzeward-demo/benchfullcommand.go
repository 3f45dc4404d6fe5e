package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// process is one run of the product's command.
type process struct {
	took   time.Duration
	memory int64 // bytes, at most
}

// command runs the product with the auditor's login alone.
func (h *fullHouse) command(ctx context.Context, args ...string) (process, error) {
	cmd := exec.CommandContext(ctx, h.product, args...)
	cmd.Env = []string{"BRONZEWARD_AUDITOR_URL=" + h.dsn("auditor"), "HOME=/nonexistent"}
	var out bytes.Buffer
	cmd.Stderr = &out // what it prints goes to the null device
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return process{}, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	ended, memory := make(chan struct{}), make(chan int64, 1)
	go watchMemory(cmd.Process.Pid, ended, memory)
	err := cmd.Wait()
	p := process{took: time.Since(began)}
	close(ended)
	p.memory = <-memory
	if err != nil {
		return process{}, fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, tailOf(out.String()))
	}
	return p, nil
}

// watchMemory gives the most memory that a process had, in bytes, when ended is closed. What the system tells when a process
// has ended counts what the process had that began it.
func watchMemory(pid int, ended <-chan struct{}, most chan<- int64) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var kib int64
	for {
		if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
			if _, rest, ok := strings.Cut(string(raw), "VmHWM:"); ok {
				var now int64
				if _, err := fmt.Sscan(rest, &now); err == nil {
					kib = max(kib, now)
				}
			}
		}
		select {
		case <-ended:
			most <- kib << 10
			return
		case <-tick.C:
		}
	}
}

func tailOf(s string) string { return s[max(0, len(s)-2000):] }
