package machines

import (
	"context"
	"fmt"
	"strings"

	"bronzeward/cmd/bronzeward/ask"
	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/gateway/httpapi/api"
)

// Clusters are the commands about clusters.
type Clusters struct {
	List     clustersListCmd  `cmd:"" help:"List clusters, how many of their machines may be changed at once, and what uses that up." aliases:"ls"`
	SetLimit clustersLimitCmd `cmd:"" name:"set-limit" help:"Set how many machines of a cluster may have an apply under way at the same time."`
}

type clustersListCmd struct {
	ask.Flags
}

func (c *clustersListCmd) Run(ctx context.Context, g *cli.Globals) error {
	a, err := c.Open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	list, _, err := ask.Received[api.ClusterList](a.ListClusters(ctx))
	if err != nil {
		return err
	}
	err = g.Print(list.Items, []string{"NAME", "MACHINES", "LIMIT", "USED", "BY"}, func(row func(...string)) {
		for _, one := range list.Items {
			var held []string
			for _, h := range one.Holds {
				held = append(held, ask.Hold(h))
			}
			row(one.Name, fmt.Sprint(one.Machines), fmt.Sprint(one.RolloutLimit), fmt.Sprint(len(one.Holds)), strings.Join(held, "; "))
		}
	})
	g.More(len(list.Items), "there is no cluster", "")
	return err
}

type clustersLimitCmd struct {
	ask.Flags
	Name  string `arg:"" help:"Cluster name."`
	Limit int    `arg:"" help:"1 to 1000."`
}

func (c *clustersLimitCmd) Run(ctx context.Context, g *cli.Globals) error {
	if c.Limit < 1 || c.Limit > 1000 {
		return cli.Usage(fmt.Errorf("the limit is 1 to 1000, not %d", c.Limit))
	}
	a, err := c.Open(g)
	if err != nil {
		return err
	}
	defer a.Close()
	now, said, err := ask.Received[api.Cluster](a.UpdateCluster(ctx, c.Name, api.ClusterUpdate{RolloutLimit: c.Limit}))
	if err != nil {
		return err
	}
	return g.Done(now, "cluster %s: up to %s at a time (decision %s)\n", now.Name, cli.Plural(now.RolloutLimit, "machine"), said.Decision)
}
