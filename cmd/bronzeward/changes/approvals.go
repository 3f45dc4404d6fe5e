package changes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// Approvals are the commands about single approvals.
type Approvals struct {
	Revoke approvalsRevokeCmd `cmd:"" help:"Take an approval back: it counts no more."`
}

type approvalsRevokeCmd struct {
	clientFlags
	ID     string `arg:"" help:"Approval id, apr_…, as changes show prints it."`
	Reason string `required:"" help:"Why; it stays in the record."`
}

func (r *approvalsRevokeCmd) Run(ctx context.Context, g *cli.Globals) error {
	if strings.HasPrefix(r.ID, "chg_") {
		return cli.Usage(errors.New("that is the id of a change; an approval's begins with apr_, and `bronzeward changes show` prints it"))
	}
	a, err := r.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	done, said, err := ask.Received[api.Approval](a.RevokeApproval(ctx, r.ID, nil, api.Reason{Reason: r.Reason}))
	if err != nil {
		return err
	}
	for _, note := range done.Notes {
		fmt.Fprintf(g.ErrOut, "warning: %s\n", cli.OneLine(note))
	}
	return g.Done(done, "approval %s of %s is revoked (decision %s)\nsee: bronzeward changes show %s\n",
		done.ID, ask.Person(done.Approver), said.Decision, done.ChangeID)
}
