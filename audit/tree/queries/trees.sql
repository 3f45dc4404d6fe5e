-- All trees with their sizes.
select t.tree, t.epoch, t.origin, t.began_at,
    coalesce((select l.index + 1 from audit.leaves l where l.tree = t.tree order by l.index desc limit 1), 0)
from audit.trees t
order by t.tree
