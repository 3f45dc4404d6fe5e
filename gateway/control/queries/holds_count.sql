-- Of machines in service. What is staged is told by what was last read, of digests of one scheme and key.
with in_service as (
    select m.id from control.machines m
    where not exists (select from control.retirements r where r.machine_id = m.id)
)
select
    (select count(*) from control.freezes f where f.lifted_at is null and f.machine_id in (select id from in_service)),
    (select count(*) from control.attempts a where a.state = 'unresolved' and a.machine_id in (select id from in_service)),
    (select count(*) from in_service s
     cross join lateral (
        select y.active, y.persistent from (
            (select x.active, x.persistent, x.recorded_at from control.observations x where x.machine_id = s.id order by x.recorded_at desc limit 1)
            union all
            select x.active, x.persistent, x.at from control.machine_sights x where x.machine_id = s.id
        ) y order by y.recorded_at desc limit 1
     ) o
     where o.active <> o.persistent and o.active <> '' and o.persistent <> ''
        and substring(o.active from '^(.*):[^:]*$') = substring(o.persistent from '^(.*):[^:]*$'))
