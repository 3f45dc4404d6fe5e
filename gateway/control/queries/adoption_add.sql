insert into control.adoptions (change_id, drift_id, machine_id, entry_id, epoch, issuer, subject, digest, size, base_active, base_persistent,
    node_id, talos_cluster_id, smbios, approvals_required, approval_groups, self_approval, at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
