-- The triggers that keep the book append-only and are not there, or not always on. $1: ask it of detached months too.
select c.relname, wanted.what
from pg_class c
cross join (values ('UPDATE', 16), ('DELETE', 8), ('TRUNCATE', 32)) as wanted (what, bit)
where c.relnamespace = 'audit'::regnamespace and c.relkind in ('r', 'p')
  and c.relname not in ('schema_version', 'schema_checksums') -- what migrations keep
  and ($1 or c.relkind = 'p' or c.relispartition or c.relname !~ '^(entries|outcomes)_')
  and not exists (
    select from pg_trigger t
    where t.tgrelid = c.oid and t.tgenabled = 'A' and t.tgtype & 2 <> 0 and t.tgtype & wanted.bit <> 0
      and t.tgattr = '' and t.tgqual is null
      -- TRUNCATE has no row triggers; a partition's row triggers fire however it is addressed.
      and (t.tgtype & 1 <> 0 or wanted.what = 'TRUNCATE' or c.relname = 'unsequenced')
      and t.tgfoid = case when c.relname = 'unsequenced' and wanted.what = 'DELETE'
        then 'audit.refuse_taking'::regproc else 'audit.refuse_change'::regproc end)
order by c.relname, wanted.what
