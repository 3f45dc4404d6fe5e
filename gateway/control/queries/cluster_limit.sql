update control.clusters set rollout_limit = $2 where name = $1
