package facts

import (
	"context"
	"errors"
	"fmt"
)

// MachineType is the type that a machine with this configuration says it is: "worker",
// "controlplane", "init" or "unknown". The text is read as Reader.Read reads a machine's own; errors
// hold no value of it.
func MachineType(ctx context.Context, text []byte) (kind string, err error) {
	defer func() {
		if recover() != nil {
			kind, err = "", errors.New("reading the configuration stopped without a result")
		}
	}()
	out, problems := new(Reader).load(ctx, text)
	switch {
	case len(problems) > 0 && problems[0].Line > 0:
		return "", fmt.Errorf("line %d: %s", problems[0].Line, problems[0].Message)
	case len(problems) > 0:
		return "", errors.New(problems[0].Message)
	case out.main == nil:
		return "", errors.New("it has no v1alpha1 document")
	}
	return out.main.Machine().Type().String(), nil
}
