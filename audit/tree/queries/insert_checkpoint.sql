-- Stores a checkpoint: tree $1, size $2, root $3, note $4. One of that size that is there stays.
insert into audit.checkpoints (tree, size, root, note) values ($1, $2, $3, $4)
on conflict on constraint checkpoints_pk do nothing
