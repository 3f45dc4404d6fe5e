with row as (
    insert into audit.outcomes (
        id, entry_id, attempt_id, kind, state, code, digest, persistent_digest,
        caller_issuer, caller_subject, duration_us, bytes_out, instance, record)
    select
        id, entry_id, attempt_id, kind, state, code, digest, persistent_digest,
        caller_issuer, caller_subject, duration_us, bytes_out, instance, record
    from unnest(
        $1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
        $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::text[], $14::bytea[])
    as given (
        id, entry_id, attempt_id, kind, state, code, digest, persistent_digest,
        caller_issuer, caller_subject, duration_us, bytes_out, instance, record)
    returning recorded_at, id, leaf
), waiting as (
    insert into audit.unsequenced (recorded_at, id, source, leaf) select recorded_at, id, 'outcome', leaf from row
)
select id, recorded_at, leaf from row
