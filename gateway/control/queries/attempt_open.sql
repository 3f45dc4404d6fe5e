insert into control.attempts as a (
    id, entry_id, machine_id, cluster, instance, generation, epoch, issuer, subject, request_key, mode,
    digest, base_active, base_persistent, live_type, stage, minor, node_id, talos_cluster_id, smbios,
    opened_at, send_by, lease_until, transport_deadline, settle_floor,
    change_id, approvals_required, approval_groups, self_approval, size, credential_version)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
    $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, nullif($31::bigint, 0))
returning control.settle_after(a)
