-- $1: whether the record is wanted; $2: whether the last outcome is. The rows e, made of audit.entries, are defined before, and their order follows. A row
-- that is not wanted but ends what was looked through (last_scanned) says where the next page begins.
select e.recorded_at, e.id, e.kind, e.verdict, coalesce(e.method, ''), coalesce(e.class, ''), coalesce(e.mode, ''), e.dry_run,
       coalesce(e.caller_issuer, ''), coalesce(e.caller_subject, ''), coalesce(e.caller_kind, ''), coalesce(e.proof, ''),
       coalesce(e.client_address, ''),
       coalesce(e.machine_id, '00000000-0000-0000-0000-000000000000'), coalesce(e.machine_name, ''), coalesce(e.cluster, ''),
       coalesce(e.digest, ''), coalesce(e.base_digest, ''), coalesce(e.persistent_digest, ''), coalesce(e.change_id, ''),
       coalesce(e.attempt_id, '00000000-0000-0000-0000-000000000000'), coalesce(e.epoch, '00000000-0000-0000-0000-000000000000'),
       e.authority_version, coalesce(e.policy_revision, ''), e.codes, coalesce(e.instance, ''), e.count, e.leaf,
       case when $1 then e.record end,
       o.recorded_at, o.id, o.attempt_id, o.kind, o.state, o.code, o.duration_us, o.bytes_out, e.wanted, e.last_scanned
from e
left join lateral (
    select recorded_at, id, coalesce(attempt_id, '00000000-0000-0000-0000-000000000000') as attempt_id, kind,
           coalesce(state, '') as state, coalesce(code, '') as code, duration_us, bytes_out
    from audit.outcomes
    where $2 and entry_id = e.id and recorded_at >= e.recorded_at
    order by recorded_at desc, id desc limit 1
) o on true
