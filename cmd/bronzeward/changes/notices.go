package changes

import (
	"context"
	"fmt"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// Notices are the commands about what approvers were told.
type Notices struct {
	List noticesListCmd `cmd:"" help:"List notices to approvers, newest first." aliases:"ls"`
}

type noticesListCmd struct {
	clientFlags
	Dead  bool `help:"Only those that are given up."`
	Limit int  `default:"50" help:"At most this many, up to 500."`
}

func (n *noticesListCmd) Run(ctx context.Context, g *cli.Globals) error {
	if n.Limit < 1 || n.Limit > ask.MostPage {
		return cli.Usage(fmt.Errorf("--limit %d is not between 1 and %d", n.Limit, ask.MostPage))
	}
	a, err := n.open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	params := api.ListNoticesParams{Limit: &n.Limit}
	if n.Dead {
		params.Dead = &n.Dead
	}
	page, _, err := ask.Received[api.NoticeList](a.ListNotices(ctx, &params))
	if err != nil {
		return err
	}
	err = g.Print(page.Items, []string{"ID", "CHANGE", "STATE", "TRIES", "CREATED", "NEXT", "ERROR"}, func(row func(...string)) {
		for _, one := range page.Items {
			next := ""
			if one.State == api.NoticeStateWaiting {
				next = cli.Stamp(&one.NextAt)
			}
			row(one.ID, one.ChangeID, string(one.State), fmt.Sprint(one.Tries), cli.Stamp(&one.CreatedAt), next, one.Error)
		}
	})
	g.More(len(page.Items), "no notice matches", "")
	return err
}
