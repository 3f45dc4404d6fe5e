select coalesce(l.revision, ''), l.counter, coalesce(r.instance, ''), coalesce(r.process, '00000000-0000-0000-0000-000000000000'),
    coalesce(r.loaded_revision, ''), coalesce(r.counter, 0), r.loaded_at, coalesce(r.wanted_revision, ''), coalesce(r.failed_why, ''),
    coalesce(r.version, ''), r.started_at, r.heard_at, coalesce(extract(epoch from clock_timestamp() - r.heard_at)::float8, 0),
    coalesce(r.prepared, '{}'), coalesce(r.preparing, '{}'), coalesce(r.unprepared, '{}')
from control.live_bundle l
left join control.replicas r on r.stopped_at is null and r.heard_at > clock_timestamp() - interval '1 day'
    -- A process that is silent is gone when another one of its name has begun since.
    and not (r.heard_at <= clock_timestamp() - $1::interval and exists (select from control.replicas n
        where n.instance = r.instance and n.started_at > r.heard_at))
order by r.instance, r.started_at, r.process
limit 1000
