-- Begins the tree of epoch $1 with origin $2, and gives the row $3, which this transaction wrote, its first place.
with begun as (
    insert into audit.trees (tree, epoch, origin)
    select coalesce(max(t.tree), 0) + 1, $1, $2 from audit.trees t
    returning tree
), taken as (
    delete from audit.unsequenced where id = $3 returning recorded_at, id, source, leaf
)
insert into audit.leaves (recorded_at, index, id, tree, source, leaf)
select w.recorded_at, 0, w.id, b.tree, w.source, w.leaf from taken w, begun b
