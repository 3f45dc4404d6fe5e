-- The place of a row in the tree, and the first checkpoint over it; $1: its id.
select l.tree, l.index, c.size, c.signed_at, c.root
from audit.leaves l
left join lateral (
    select size, signed_at, root from audit.checkpoints where tree = l.tree and size > l.index order by size limit 1
) c on true
where l.id = $1
