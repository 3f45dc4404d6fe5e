insert into control.replicas (instance, process, loaded_revision, counter, wanted_revision, failed_why, version, stopped_at, prepared, preparing, unprepared)
values ($1, $2, $3, $4, $5, $6, $7, case when $8 then clock_timestamp() end, $9, $10, $11)
on conflict (instance, process) do update set loaded_revision = excluded.loaded_revision, counter = excluded.counter,
    wanted_revision = excluded.wanted_revision, failed_why = excluded.failed_why, version = excluded.version, stopped_at = excluded.stopped_at,
    prepared = excluded.prepared, preparing = excluded.preparing, unprepared = excluded.unprepared
