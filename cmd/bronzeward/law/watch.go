package law

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long a directory must be quiet before it is looked at: editors write a file in
// several steps.
const settle = 200 * time.Millisecond

// watch calls again once, and whenever something in the directory changed, until ctx ends, which is
// no error. It watches the folders and not the files, because editors put a new file in the place of
// the old one.
func watch(ctx context.Context, dir string, again func()) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watching %s: %w", dir, err)
	}
	defer w.Close()
	if err := watchFolders(w, dir); err != nil {
		return fmt.Errorf("watching %s: %w", dir, err)
	}
	again()
	quiet := time.NewTimer(settle)
	quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case ev := <-w.Events:
			if ev.Op == fsnotify.Chmod || passing(ev.Name) {
				continue
			}
			if info, err := os.Stat(ev.Name); err == nil && info.IsDir() {
				_ = watchFolders(w, ev.Name) // gone again meanwhile
			}
			quiet.Reset(settle)
		case err := <-w.Errors:
			return fmt.Errorf("watching %s: %w", dir, err)
		case <-quiet.C:
			again()
		}
	}
}

// passing tells the files that editors keep beside what is edited.
func passing(name string) bool {
	base := filepath.Base(name)
	return strings.HasPrefix(base, ".") || strings.HasSuffix(base, "~")
}

func watchFolders(w *fsnotify.Watcher, dir string) error {
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case p != dir && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		}
		return w.Add(p)
	})
}
