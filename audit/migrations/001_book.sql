-- The book: what was decided (entries) and what came of it (outcomes).
--
-- Whoever runs this is bronzeward_owner (audit.Migrate changes to that role). The gateway's role inserts and selects; it
-- owns nothing, so it can neither drop a trigger nor a partition. It may not name recorded_at or leaf in an INSERT: the
-- time is the database's clock and the leaf is computed from it, whatever the gateway says.

create function audit.leaf(record bytea, recorded_at timestamptz) returns bytea
    language sql immutable strict parallel safe
    return sha256('\x00'::bytea || record
        || int8send((extract(epoch from recorded_at at time zone 'UTC') * 1000000)::bigint));
comment on function audit.leaf(bytea, timestamptz) is
    'Leaf hash of a record: SHA-256 of one zero byte, the record, and recorded_at as microseconds since 1970 in eight bytes, big endian.';

create table audit.entries (
    recorded_at       timestamptz not null default clock_timestamp(),
    id                uuid        not null,
    kind              text        not null,
    verdict           text        not null,
    method            text,
    class             text,
    mode              text,
    dry_run           boolean     not null default false,
    caller_issuer     text,
    caller_subject    text,
    caller_kind       text,
    proof             text,
    client_address    text,
    machine_id        uuid,
    machine_name      text,
    cluster           text,
    digest            text,
    base_digest       text,
    persistent_digest text,
    change_id         text,
    attempt_id        uuid,
    epoch             uuid,
    authority_version bigint      not null,
    policy_revision   text,
    codes             text[],
    instance          text,
    count             bigint      not null,
    record            bytea       not null,
    leaf              bytea       generated always as (audit.leaf(record, recorded_at)) stored,
    constraint entries_pk primary key (recorded_at, id),
    constraint entries_kind_known check (kind in ('rpc', 'http', 'policy', 'system')),
    constraint entries_verdict_known check (verdict in ('allow', 'deny', 'refuse')),
    constraint entries_count_positive check (count >= 1),
    constraint entries_record_present check (octet_length(record) > 2)
) partition by range (recorded_at);

create index entries_by_id on audit.entries (id);
create index entries_by_machine on audit.entries (machine_id, recorded_at, id) where machine_id is not null;
create index entries_by_caller on audit.entries (caller_subject, recorded_at, id) where caller_subject is not null;
create index entries_by_digest on audit.entries (digest, recorded_at, id) where digest is not null;
create index entries_by_attempt on audit.entries (attempt_id, recorded_at, id) where attempt_id is not null;
create index entries_by_change on audit.entries (change_id, recorded_at, id) where change_id is not null;

create table audit.outcomes (
    recorded_at        timestamptz not null default clock_timestamp(),
    id                 uuid        not null,
    entry_id           uuid        not null,
    attempt_id         uuid,
    kind               text        not null,
    state              text,
    code               text,
    digest             text,
    persistent_digest  text,
    caller_issuer      text,
    caller_subject     text,
    duration_us        bigint      not null,
    bytes_out          bigint      not null,
    instance           text,
    record             bytea       not null,
    leaf               bytea       generated always as (audit.leaf(record, recorded_at)) stored,
    constraint outcomes_pk primary key (recorded_at, id),
    constraint outcomes_kind_known check (kind in ('answered', 'unanswered', 'read-back', 'state', 'accounted', 'late-landing')),
    constraint outcomes_record_present check (octet_length(record) > 2)
) partition by range (recorded_at);

create index outcomes_by_entry on audit.outcomes (entry_id, recorded_at, id);
create index outcomes_by_attempt on audit.outcomes (attempt_id, recorded_at, id) where attempt_id is not null;

-- Rows that wait for their place in the tree. Only the sequencer takes rows out, and it alone will be granted DELETE.
create table audit.unsequenced (
    recorded_at timestamptz not null,
    id          uuid        not null,
    source      text        not null,
    constraint unsequenced_pk primary key (recorded_at, id),
    constraint unsequenced_source_known check (source in ('entry', 'outcome'))
);

create table audit.schema_checksums (
    version    integer     not null,
    name       text        not null,
    sha256     bytea       not null,
    applied_at timestamptz not null default clock_timestamp(),
    constraint schema_checksums_pk primary key (version),
    constraint schema_checksums_sha256_size check (octet_length(sha256) = 32)
);

-- Append-only, also against the owner's own slip of the hand. Row triggers on a partitioned table come with every
-- partition, made by whatever hand; TRUNCATE has no row trigger, so every partition gets its own from ensure_partitions.
-- ENABLE ALWAYS: a session that calls itself a replica does not get past them.
create function audit.refuse_change() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'the book is append-only: % on %.% is refused', tg_op, tg_table_schema, tg_table_name
        using errcode = 'BW001';
end
$$;
comment on function audit.refuse_change() is 'Trigger: refuses UPDATE, DELETE and TRUNCATE with SQLSTATE BW001.';

create trigger entries_no_change before update or delete on audit.entries
    for each row execute function audit.refuse_change();
create trigger entries_no_truncate before truncate on audit.entries
    for each statement execute function audit.refuse_change();
create trigger outcomes_no_change before update or delete on audit.outcomes
    for each row execute function audit.refuse_change();
create trigger outcomes_no_truncate before truncate on audit.outcomes
    for each statement execute function audit.refuse_change();
alter table audit.entries enable always trigger entries_no_change;
alter table audit.entries enable always trigger entries_no_truncate;
alter table audit.outcomes enable always trigger outcomes_no_change;
alter table audit.outcomes enable always trigger outcomes_no_truncate;

create table audit_gate.partitions ();
comment on table audit_gate.partitions is 'Empty: whoever makes partitions locks it.';

-- A partition is built beside its parent and attached when it is whole: ATTACH lets inserts and reads go on, CREATE ...
-- PARTITION OF does not. Calls from several replicas take turns. Nothing happens, and no lock is taken, for what is there.
create function audit.ensure_partitions(months integer) returns integer
    language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '10s'
as $$
declare
    parent text;
    part   text;
    lower  timestamptz;
    upper  timestamptz;
    made   integer := 0;
begin
    if months is null or months < 0 or months > 120 then
        raise exception 'months must be between 0 and 120' using errcode = 'invalid_parameter_value';
    end if;
    for ahead in 0..months loop
        lower := (date_trunc('month', clock_timestamp() at time zone 'UTC') + make_interval(months => ahead)) at time zone 'UTC';
        upper := (lower at time zone 'UTC' + interval '1 month') at time zone 'UTC';
        foreach parent in array array['entries', 'outcomes'] loop
            part := parent || to_char(lower at time zone 'UTC', '"_"YYYY"_"MM');
            continue when to_regclass(format('audit.%I', part)) is not null;
            -- Not an advisory lock: any login could hold one for ever.
            lock table audit_gate.partitions in exclusive mode;
            -- A query of its own, with a new snapshot: to_regclass would answer from a cache that waiting does not refresh.
            continue when exists (select from pg_class where relnamespace = 'audit'::regnamespace and relname = part);
            execute format('create table audit.%I (like audit.%I including all)', part, parent);
            execute format('create trigger %I before truncate on audit.%I for each statement execute function audit.refuse_change()',
                parent || '_no_truncate', part);
            execute format('alter table audit.%I enable always trigger %I', part, parent || '_no_truncate');
            execute format('alter table audit.%I attach partition audit.%I for values from (%L) to (%L)', parent, part, lower, upper);
            execute format('comment on table audit.%I is %L', part, 'Partition of audit.' || parent || ' for one month (UTC).');
            made := made + 1;
        end loop;
    end loop;
    return made;
end
$$;
comment on function audit.ensure_partitions(integer) is
    'Makes the partitions of this month and of so many months ahead, and returns how many it made. Runs as its owner; the gateway may call it.';

revoke all on function audit.leaf(bytea, timestamptz), audit.refuse_change(), audit.ensure_partitions(integer) from public;
grant execute on function audit.leaf(bytea, timestamptz) to bronzeward_gateway, bronzeward_auditor;
grant execute on function audit.ensure_partitions(integer) to bronzeward_gateway;

grant usage on schema audit to bronzeward_gateway, bronzeward_auditor;
grant select on audit.entries, audit.outcomes, audit.unsequenced, audit.schema_version, audit.schema_checksums
    to bronzeward_gateway, bronzeward_auditor;
grant insert (id, kind, verdict, method, class, mode, dry_run, caller_issuer, caller_subject, caller_kind, proof,
    client_address, machine_id, machine_name, cluster, digest, base_digest, persistent_digest, change_id, attempt_id, epoch,
    authority_version, policy_revision, codes, instance, count, record) on audit.entries to bronzeward_gateway;
grant insert (id, entry_id, attempt_id, kind, state, code, digest, persistent_digest, caller_issuer, caller_subject,
    duration_us, bytes_out, instance, record) on audit.outcomes to bronzeward_gateway;
grant insert on audit.unsequenced to bronzeward_gateway;
