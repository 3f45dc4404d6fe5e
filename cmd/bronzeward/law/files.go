package law

import (
	"os"
	"path/filepath"

	"bronzeward/policy"
)

// writeFiles writes files into a directory.
func writeFiles(dir string, files []policy.File) error {
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.Body, 0o644); err != nil {
			return err
		}
	}
	return nil
}
