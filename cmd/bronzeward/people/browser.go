package people

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// Browser is what opens an address in a person's browser; null on a computer without a
// screen, where a browser in the terminal would take the terminal.
func Browser() func(address string) error {
	var program string
	var args []string
	switch runtime.GOOS {
	case "darwin":
		program = "open"
	case "windows":
		program, args = "rundll32", []string{"url.dll,FileProtocolHandler"}
	default:
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return nil
		}
		program = "xdg-open"
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return nil
	}
	return func(address string) error {
		// It outlives this process, and what it prints is not for this terminal.
		run := exec.Command(path, append(args, address)...)
		if err := run.Start(); err != nil {
			return fmt.Errorf("opening a browser: %w", err)
		}
		go func() { _ = run.Wait() }() // whether a browser came is seen by its answer
		return nil
	}
}
