-- Runs of hashes: $1 the tree, $2 levels, $3 first indexes, $4 ends. One row per run, in any order: its number from 1, how
-- many hashes it has, and the hashes joined in the order of their index.
select given.number::int, found.count, coalesce(found.data, ''::bytea)
from unnest($2::int[], $3::bigint[], $4::bigint[]) with ordinality as given (level, lo, hi, number)
cross join lateral (
    select count(*) as count, string_agg(h.hash, ''::bytea order by h.index) as data
    from (
        select l.index, l.leaf as hash from audit.leaves l
        where given.level = 0 and l.tree = $1 and l.index >= given.lo and l.index < given.hi
        union all
        select t.index, t.root from audit.tiles t
        where given.level > 0 and t.tree = $1 and t.level = given.level - 1 and t.index >= given.lo and t.index < given.hi
    ) h
) found
