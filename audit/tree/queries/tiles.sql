-- Roots of tiles of tree $1 that became full: levels $2, indexes $3, roots $4.
insert into audit.tiles (tree, level, index, root)
select $1, given.level, given.index, given.root
from unnest($2::smallint[], $3::bigint[], $4::bytea[]) as given (level, index, root)
