package people

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

func TestABrowserIsOpenedWhereThereIsAScreen(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems have a program of another name")
	}
	folder := t.TempDir()
	pipe := filepath.Join(folder, "said")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nprintf '%s|' \"$@\" > " + pipe + "\n"
	if err := os.WriteFile(filepath.Join(folder, "xdg-open"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	t.Setenv("DISPLAY", "")
	t.Setenv("WAYLAND_DISPLAY", "")
	if Browser() != nil {
		t.Error("without a screen there is a browser")
	}
	t.Setenv("DISPLAY", ":0")
	address := "https://i.example/authorize?state=a&x=$(rm)"
	open := Browser()
	if open == nil {
		t.Fatal("with a screen there is no browser")
	}
	if err := open(address); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(pipe); err != nil || string(raw) != address+"|" { // waits for the program
		t.Errorf("it was told to open %q, %v", raw, err)
	}
	t.Setenv("PATH", t.TempDir())
	if Browser() != nil {
		t.Error("without a program there is a browser")
	}
}
