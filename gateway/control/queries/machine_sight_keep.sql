insert into control.machine_sights (machine_id, active, persistent, active_version, persistent_version, landed, staged, at, version, stage, live_type)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
on conflict (machine_id) do update set active = excluded.active, persistent = excluded.persistent, active_version = excluded.active_version,
    persistent_version = excluded.persistent_version, landed = excluded.landed, staged = excluded.staged, at = excluded.at,
    version = excluded.version, stage = excluded.stage, live_type = excluded.live_type
