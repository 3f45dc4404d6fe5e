package book

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/cmd/bronzeward/cli"
)

type showCmd struct {
	SourceFlags
	ID string `arg:"" help:"Decision id, as a refusal, a receipt or the list names it: all of it."`
}

// idSize is how long an id is.
const idSize = 36

// decisionID reads the id of one decision, and says what else it is that was given.
func decisionID(s string) (uuid.UUID, error) {
	if n := len(s); n > 0 && n < idSize && uuid.Validate(s+"019a5c3e-7b1d-7f00-8000-0123456789ab"[n:]) == nil {
		return uuid.Nil, cli.Usage(fmt.Errorf("%q is the beginning of an id, and a whole one is needed: two decisions may begin alike", s))
	}
	if strings.HasPrefix(s, "chg_") {
		return uuid.Nil, cli.Usage(fmt.Errorf("%q is a change, not a decision: bronzeward decisions list --change ID finds the decisions about it", s))
	}
	return cli.ParseID(s)
}

// Run prints one decision as a story, or all of it as JSON or YAML.
func (d *showCmd) Run(ctx context.Context, g *cli.Globals, from Settings) error {
	id, err := decisionID(d.ID)
	if err != nil {
		return err
	}
	where, done, err := d.open(ctx, g, from)
	if err != nil {
		return err
	}
	defer done()
	w, err := where.show(ctx, id)
	if err != nil {
		return err
	}
	if g.Output != "table" {
		return g.Print(w, nil, nil)
	}
	entry, err := audit.ParseEntry(w.raw)
	if err != nil {
		return errors.Join(fmt.Errorf("reading the record of %s: %w", id, err),
			cli.Changed(errors.New("the record does not read as this program writes it: bronzeward decisions verify tells whether it was changed, and -o json shows it")))
	}
	tell(g.Out, w, &entry)
	return nil
}
