package house

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"bronzeward/gateway"
	"bronzeward/policy"
)

// watchEvery is how often policy.watch_directory is looked at.
const watchEvery = 500 * time.Millisecond

// watchPolicy makes a directory live whenever it changes, until ctx ends. A law that does
// not pass its trial is logged, and the live one stays: no call is dropped.
func watchPolicy(ctx context.Context, acts *gateway.Acts, dir string, log *slog.Logger) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	last := ""
	for {
		if now := folderStamp(dir); now != last {
			last = now
			if revision, err := activateFolder(ctx, acts, dir); err != nil {
				log.WarnContext(ctx, "the law in the watched directory does not become live", slog.String("directory", dir), slog.Any("cause", err))
			} else {
				log.InfoContext(ctx, "the law in the watched directory is live", slog.String("revision", revision))
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func activateFolder(ctx context.Context, acts *gateway.Acts, dir string) (string, error) {
	b, err := policy.Load(os.DirFS(dir))
	if err != nil {
		return "", err
	}
	tried, err := policy.Trial(ctx, b)
	if err != nil {
		return "", err
	}
	return b.Revision(), acts.ActivateWatched(ctx, gateway.Draft{Bundle: b, Tried: tried})
}

// folderStamp changes when a file of the folder does.
func folderStamp(dir string) string {
	out := ""
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			out += path + err.Error()
			return nil
		}
		if info, err := d.Info(); err == nil && !d.IsDir() {
			out += fmt.Sprint(path, info.ModTime().UnixNano(), info.Size(), ";")
		}
		return nil
	})
	return out
}
