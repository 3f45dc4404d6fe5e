package cli

import (
	"fmt"
	"io"
	"os"
)

// Configuration reads a file, or standard input for -, that is not empty.
func (g *Globals) Configuration(file string) ([]byte, error) {
	var raw []byte
	var err error
	if file == "-" {
		raw, err = io.ReadAll(g.In)
	} else {
		raw, err = os.ReadFile(file)
	}
	switch {
	case err != nil:
		return nil, Usage(fmt.Errorf("reading the configuration: %w", err))
	case len(raw) == 0:
		return nil, Usage(fmt.Errorf("reading the configuration: %s is empty", file))
	}
	return raw, nil
}
