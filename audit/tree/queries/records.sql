-- The entry $1 and its outcomes, each with its place in the tree if it has one. The entry comes first.
select r.entry, r.recorded_at, r.record, l.tree, l.index, l.leaf
from (
    (select true as entry, e.recorded_at, e.id, e.record from audit.entries e where e.id = $1 order by e.recorded_at limit 1)
    union all
    select false, o.recorded_at, o.id, o.record from audit.outcomes o where o.entry_id = $1
) r
left join audit.leaves l on l.id = r.id
order by r.entry desc, l.tree, l.index
