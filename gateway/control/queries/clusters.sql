select name, rollout_limit from control.clusters order by name
