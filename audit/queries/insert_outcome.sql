with row as (
    insert into audit.outcomes (
        id, entry_id, attempt_id, kind, state, code, digest, persistent_digest,
        caller_issuer, caller_subject, duration_us, bytes_out, instance, record)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
    returning recorded_at, id, leaf
), waiting as (
    insert into audit.unsequenced (recorded_at, id, source, leaf) select recorded_at, id, 'outcome', leaf from row
)
select id, recorded_at, leaf from row
