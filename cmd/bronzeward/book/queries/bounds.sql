-- The first and last place of the tree recorded in a range; $1, $2: from, and before.
with found as (select tree, index from audit.leaves where recorded_at >= $1 and recorded_at < $2)
select (select count(*) from found), first.tree, first.index, last.tree, last.index
from (select tree, index from found order by tree, index limit 1) as first,
     (select tree, index from found order by tree desc, index desc limit 1) as last
