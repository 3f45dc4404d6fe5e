with row as (
    insert into audit.entries (
        id, kind, verdict, method, class, mode, dry_run,
        caller_issuer, caller_subject, caller_kind, proof, client_address,
        machine_id, machine_name, cluster, digest, base_digest, persistent_digest,
        change_id, attempt_id, epoch, authority_version, policy_revision, codes, instance, count, record)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, string_to_array($24, e'\x1f'), $25, $26, $27)
    returning recorded_at, id, leaf
), waiting as (
    insert into audit.unsequenced (recorded_at, id, source, leaf) select recorded_at, id, 'entry', leaf from row
)
select id, recorded_at, leaf from row
