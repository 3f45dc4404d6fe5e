package exitcode

import (
	"errors"
	"fmt"
	"testing"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway"
	"bronzeward/gateway/control"
	"bronzeward/gateway/upstream"
	"bronzeward/policy"
)

func TestTheExitCodeTellsWhatKindOfEndItWas(t *testing.T) {
	denied := &gateway.DeniedAct{Decision: policy.Deny("BW-ACT-003", "no", "")}
	for name, row := range map[string]struct {
		err  error
		want int
	}{
		"anything":              {errors.New("x"), cli.ExitFailed},
		"a wrong argument":      {cli.Usage(errors.New("x")), cli.ExitUsage},
		"what the room refuses": {fmt.Errorf("adding: %w", control.ErrInvalid), cli.ExitUsage},
		"problems were found":   {cli.ErrChanged, cli.ExitChanged},
		"a refused credential":  {cli.Denied(errors.New("x")), cli.ExitDenied},
		"a refused act":         {fmt.Errorf("acting: %w", denied), cli.ExitDenied},
		"the database is away":  {fmt.Errorf("opening: %w", control.ErrUnavailable), cli.ExitUnavailable},
		"the book is away":      {fmt.Errorf("writing: %w", audit.ErrUnavailable), cli.ExitUnavailable},
		"a machine is away":     {fmt.Errorf("observing: %w", &upstream.Error{Class: upstream.ClassUnreachable}), cli.ExitUnavailable},
		"a machine is another":  {&upstream.Error{Class: upstream.ClassUntrusted}, cli.ExitFailed},
		"the book is not whole": {cli.NotWhole(fmt.Errorf("verifying: %w", audit.ErrUnavailable)), cli.ExitNotWhole},
		"the reader's database": {cli.Unavailable(errors.New("x")), cli.ExitUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Of(row.err); got != row.want {
				t.Errorf("exit code %d, want %d", got, row.want)
			}
		})
	}
}
