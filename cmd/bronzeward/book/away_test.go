package book

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/cli"
)

// Following waits for a database that is away, and not for one that refuses the question.
func TestAway(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		waits  bool
		advice string
	}{
		"no connection":      {errors.New("connection reset"), true, ""},
		"shutting down":      {&pgconn.PgError{Code: "57P01"}, true, ""},
		"no room":            {&audit.RowError{SQLState: "53300"}, true, ""},
		"no rights":          {&pgconn.PgError{Code: "42501"}, false, "bronzeward_auditor"},
		"no rights, in tree": {&audit.RowError{SQLState: "42501"}, false, "bronzeward_auditor"},
		"no book":            {&audit.RowError{SQLState: "42P01"}, false, "bronzeward_auditor"},
		"another refusal":    {&audit.RowError{SQLState: "22000"}, false, "22000"},
	} {
		got := away(fmt.Errorf("reading: %w", c.err))
		if cli.IsUnavailable(got) != c.waits {
			t.Errorf("%s: %v waits: %t", name, got, !c.waits)
		}
		has(t, got.Error(), c.advice)
	}
}
