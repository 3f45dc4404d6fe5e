insert into control.changes (id, entry_id, machine_id, cluster, kind, mode, try_timeout, digest, size, base_active, base_persistent,
    node_id, talos_cluster_id, smbios, epoch, binding, set_name, issuer, subject, created_at, approve_by, use_within, drift_id, why)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24)
