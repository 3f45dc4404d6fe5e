-- Begins the tree of epoch $1 with origin $2, unless it has one.
insert into audit.trees (tree, epoch, origin)
select coalesce(max(t.tree), 0) + 1, $1, $2 from audit.trees t
having not exists (select from audit.trees o where o.epoch = $1)
on conflict on constraint trees_one_per_epoch do nothing
