-- Rows of the tree in its order, behind a place ($1, $2) up to another ($3, $4); $5, $6: recorded from, and before; $7: whether entries
-- alone are wanted; $8: at most so many.
select tree, index, source, id, recorded_at, leaf
from audit.leaves
where (tree, index) > ($1, $2) and (tree, index) <= ($3, $4)
  and recorded_at >= $5 and recorded_at < $6 and (not $7 or source = 'entry')
order by tree, index
limit $8
