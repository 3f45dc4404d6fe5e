-- The largest checkpoint of tree $1.
select c.tree, c.size, c.root, c.signed_at, c.note, t.origin
from audit.checkpoints c join audit.trees t using (tree)
where c.tree = $1
order by c.size desc
limit 1
