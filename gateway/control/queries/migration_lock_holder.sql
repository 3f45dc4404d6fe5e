-- An advisory lock's key of 64 bits is split over classid and objid.
select l.pid, coalesce(a.usename, '')
from pg_locks l
left join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory' and l.granted and l.objsubid = 1
    and l.database = (select oid from pg_database where datname = current_database())
    and (l.classid::bigint << 32 | l.objid::bigint) = $1
limit 1
