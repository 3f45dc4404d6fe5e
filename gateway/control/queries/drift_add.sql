insert into control.drifts (id, machine_id, cluster, since, applied_active, applied_persistent, found_active, found_persistent,
    before_active, before_persistent, active_version, persistent_version, changes, known, entry_id)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
