select tree, index, source, recorded_at, id, leaf from audit.leaves where (tree, index) > ($1, $2) order by tree, index limit $3
