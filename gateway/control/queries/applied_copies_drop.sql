-- Copies that are old, a few at a time. That of what was applied last stays.
delete from control.applied_copies
where (machine_id, digest) in (
    select x.machine_id, x.digest
    from control.applied_copies x
    join control.machines m on m.id = x.machine_id
    where x.kept_at < clock_timestamp() - $1::interval and x.digest not in (m.applied_active, m.applied_persistent)
    limit 100)
