-- Checkpoints of tree $1 with a size over $2, at most $3, in the order of size.
select c.tree, c.size, c.root, c.signed_at, c.note, t.origin
from audit.checkpoints c join audit.trees t using (tree)
where c.tree = $1 and c.size > $2
order by c.size
limit $3
