-- take.sql for a queue that holds a row which can have no place: one whose id has a place, or stands in the queue twice,
-- or whose leaf is no hash. Such rows stay.
with taken as (
    delete from audit.unsequenced d
    where d.ctid = any (array(
        select fit.ctid
        from (
            select c.ctid, c.recorded_at, c.id, row_number() over (partition by c.id order by c.recorded_at) as nth
            from (
                select u.ctid, u.recorded_at, u.id
                from audit.unsequenced u
                where u.recorded_at >= coalesce($4::timestamptz, '-infinity')
                    and octet_length(coalesce(u.leaf, case u.source
                        when 'entry' then (select e.leaf from audit.entries e where e.recorded_at = u.recorded_at and e.id = u.id)
                        else (select o.leaf from audit.outcomes o where o.recorded_at = u.recorded_at and o.id = u.id)
                    end)) = 32
                    and (select l.index from audit.leaves l where l.id = u.id) is null
                order by u.recorded_at, u.id
                limit $3
            ) c
        ) fit
        where fit.nth = 1))
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
