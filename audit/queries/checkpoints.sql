select c.tree, t.origin, t.epoch, c.size, c.root, c.signed_at, c.note
from audit.checkpoints c join audit.trees t on t.tree = c.tree
where (c.tree, c.size) < ($1, $2) order by c.tree desc, c.size desc limit $3
