package law

import (
	"os"
	"path/filepath"

	"bronzeward/policy"
)

// writeBundle writes a bundle's files into a directory.
func writeBundle(dir string, b *policy.Bundle) error {
	for _, f := range b.Files() {
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
