package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// benchProcess is this program running as something else.
type benchProcess struct {
	cmd  *exec.Cmd
	done chan error // one value
}

// start runs this program and gives the first line it prints.
func (h *benchHouse) start(args ...string) (string, error) {
	cmd, err := selfCommand(args...)
	if err != nil {
		return "", err
	}
	log, err := os.Create(filepath.Join(h.Dir, "bench-"+args[0]+strconv.Itoa(len(h.processes))+".log"))
	if err != nil {
		return "", err
	}
	defer log.Close()
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	p := &benchProcess{cmd: cmd, done: make(chan error, 1)}
	h.processes = append(h.processes, p)
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() {
		_, _ = io.Copy(io.Discard, out)
		p.done <- cmd.Wait()
	}()
	if err != nil {
		said, _ := os.ReadFile(log.Name())
		return "", fmt.Errorf("it ended without a word: %w\n%s", err, said)
	}
	return line[:len(line)-1], nil
}

// stop asks the process to end and waits for it.
func (p *benchProcess) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case err := <-p.done:
		return err
	case <-time.After(10 * time.Second):
		return errors.Join(errors.New("a process of the load program did not end within 10 s"), p.cmd.Process.Kill(), <-p.done)
	}
}
