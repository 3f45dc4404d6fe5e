-- For rows that are found by words: as insert_entries.sql, and their words into audit.terms.
with row as (
    insert into audit.entries (
        id, kind, verdict, method, class, mode, dry_run,
        caller_issuer, caller_subject, caller_kind, proof, client_address,
        machine_id, machine_name, cluster, digest, base_digest, persistent_digest,
        change_id, attempt_id, epoch, authority_version, policy_revision, codes, instance, count, record)
    select
        id, kind, verdict, method, class, mode, dry_run,
        caller_issuer, caller_subject, caller_kind, proof, client_address,
        machine_id, machine_name, cluster, digest, base_digest, persistent_digest,
        change_id, attempt_id, epoch, authority_version, policy_revision,
        string_to_array(codes, e'\x1f'), instance, count, record
    from unnest(
        $1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::boolean[],
        $8::text[], $9::text[], $10::text[], $11::text[], $12::text[],
        $13::uuid[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[],
        $19::text[], $20::uuid[], $21::uuid[], $22::bigint[], $23::text[], $24::text[], $25::text[], $26::bigint[], $27::bytea[])
    as given (
        id, kind, verdict, method, class, mode, dry_run,
        caller_issuer, caller_subject, caller_kind, proof, client_address,
        machine_id, machine_name, cluster, digest, base_digest, persistent_digest,
        change_id, attempt_id, epoch, authority_version, policy_revision, codes, instance, count, record)
    returning recorded_at, id, leaf, machine_name, caller_subject, codes, case when audit.names_paths(record) then record end as changing
), waiting as (
    insert into audit.unsequenced (recorded_at, id, source, leaf) select recorded_at, id, 'entry', leaf from row
), searched as (
    insert into audit.terms (field, term, recorded_at, id, machine_name, caller_subject)
    select 'code', code, recorded_at, id, machine_name, caller_subject from row, unnest(codes) as code where codes is not null
    union
    select 'path', path, recorded_at, id, machine_name, caller_subject from row, audit.path_terms(changing) as path where changing is not null
)
select id, recorded_at, leaf from row
