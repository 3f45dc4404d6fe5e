-- Takes up to $3 waiting rows, of those recorded at $4 or later if it is not null, and gives them the places of tree $1 from $2
-- on, in the order of (recorded_at, id). Returns how many, their leaves joined in the order of their places, and the time of the
-- last, at most now.
--
-- Only a row of schema version 2 or older has no leaf of its own; it takes that of its row in the book. One that has
-- none there either stays.
with taken as (
    delete from audit.unsequenced d
    where d.ctid = any (array(
        select u.ctid from audit.unsequenced u
        where u.recorded_at >= coalesce($4::timestamptz, '-infinity')
            and (u.leaf is not null
            or case u.source
                when 'entry' then (select e.leaf from audit.entries e where e.recorded_at = u.recorded_at and e.id = u.id)
                else (select o.leaf from audit.outcomes o where o.recorded_at = u.recorded_at and o.id = u.id)
            end is not null)
        order by u.recorded_at, u.id
        limit $3))
    returning d.recorded_at, d.id, d.source, coalesce(d.leaf, case d.source
        when 'entry' then (select e.leaf from audit.entries e where e.recorded_at = d.recorded_at and e.id = d.id)
        else (select o.leaf from audit.outcomes o where o.recorded_at = d.recorded_at and o.id = d.id)
    end) as leaf
), placed as (
    select t.recorded_at, $2::bigint - 1 + row_number() over (order by t.recorded_at, t.id) as index, t.id, t.source, t.leaf
    from taken t
), stored as (
    insert into audit.leaves (recorded_at, index, id, tree, source, leaf)
    select p.recorded_at, p.index, p.id, $1, p.source, p.leaf from placed p order by p.index
)
select count(*)::int, coalesce(string_agg(p.leaf, ''::bytea order by p.index), ''::bytea),
    least(max(p.recorded_at) filter (where isfinite(p.recorded_at)), clock_timestamp())
from placed p
