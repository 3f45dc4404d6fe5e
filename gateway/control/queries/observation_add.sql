insert into control.observations (
    id, machine_id, entry_id, serial, began_at, node_id, talos_cluster_id, smbios, version, stage, live_type,
    active, persistent, active_version, persistent_version)
values ($1, $2, $3, $4, clock_timestamp() - $5::interval, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
