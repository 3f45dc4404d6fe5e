-- $1: the lock's key. How many sessions hold it that are a gateway's, and how many that are not.
select count(*) filter (where pg_has_role(a.usesysid, 'bronzeward_gateway', 'member')),
       count(*) filter (where not pg_has_role(a.usesysid, 'bronzeward_gateway', 'member'))
from pg_locks l
join pg_stat_activity a using (pid)
where l.locktype = 'advisory' and l.granted and l.objsubid = 1
  and l.database = (select oid from pg_database where datname = current_database())
  and l.classid::bigint << 32 | l.objid::bigint = $1
