-- Size of the largest checkpoint of tree $1 that covers at most $2 leaves.
select coalesce(max(c.size), 0) from audit.checkpoints c where c.tree = $1 and c.size <= $2
