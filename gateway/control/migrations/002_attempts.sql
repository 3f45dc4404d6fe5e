-- Attempts: one row per sending of a real apply, written before the send.

create table control.attempts (
    id uuid not null,
    entry_id uuid not null,
    machine_id uuid not null,
    cluster text not null,
    state text not null default 'open',
    instance text not null,
    generation bigint not null,
    epoch uuid not null,
    issuer text not null,
    subject text not null,
    request_key text not null,
    mode text not null,
    digest text not null,
    base_active text not null,
    base_persistent text not null,
    live_type text not null,
    stage text not null,
    minor text not null,
    node_id text not null,
    talos_cluster_id text not null,
    smbios text not null,
    opened_at timestamptz not null,
    send_by timestamptz not null,
    lease_until timestamptz not null,
    transport_deadline timestamptz not null,
    settle_floor interval not null,
    unresolved_at timestamptz,
    closed_at timestamptz,
    closed_by text not null default '',
    read_active text not null default '',
    read_persistent text not null default '',
    landed boolean,
    reason text not null default '',
    constraint attempts_pkey primary key (id),
    constraint attempts_entry_unique unique (entry_id),
    constraint attempts_machine_fkey foreign key (machine_id, cluster) references control.machines (id, cluster),
    constraint attempts_state check
        (state in ('open', 'completed', 'rejected', 'not_sent', 'unresolved', 'failed', 'accounted')),
    constraint attempts_closed_whole check ((closed_at is null) = (state in ('open', 'unresolved'))),
    constraint attempts_unresolved_whole check (state <> 'unresolved' or unresolved_at is not null),
    constraint attempts_completed_shown check
        (state <> 'completed' or (read_active = digest and read_persistent = digest)),
    constraint attempts_accounted_whole check
        (state not in ('failed', 'accounted') or (landed is not null and reason <> '')),
    constraint attempts_mode check (mode = 'no-reboot'),
    constraint attempts_live_type check (live_type = 'worker'),
    constraint attempts_stage check (stage in ('running', 'booting')),
    constraint attempts_minor check (minor in ('1.13')),
    constraint attempts_digests check (digest <> '' and base_active <> '' and base_persistent <> ''),
    constraint attempts_send_by check (send_by = opened_at + interval '2 seconds'),
    constraint attempts_deadlines check (lease_until > opened_at and transport_deadline >= send_by),
    constraint attempts_settle_floor check (settle_floor >= interval '30 seconds')
);

-- At most one attempt that may still land per machine.
create unique index attempts_one_held_per_machine on control.attempts (machine_id)
    where state in ('open', 'unresolved');
create index attempts_held_by_cluster on control.attempts (cluster)
    where state in ('open', 'unresolved');
create index attempts_by_time on control.attempts (opened_at, id);

-- The first moment at which a person may judge an attempt nobody can answer for.
create function control.settle_after(a control.attempts) returns timestamptz
    language sql immutable as $$
    select greatest(a.transport_deadline, a.lease_until + (a.send_by - a.opened_at)) + a.settle_floor
$$;

create function control.attempt_may_become(from_state text, to_state text) returns boolean
    language sql immutable as $$
    select (from_state, to_state) in (
        ('open', 'completed'), ('open', 'rejected'), ('open', 'not_sent'), ('open', 'unresolved'),
        ('unresolved', 'completed'), ('unresolved', 'failed'), ('unresolved', 'accounted'))
$$;

-- What no policy can waive, told by the rows themselves.
create function control.attempt_opens() returns trigger
    language plpgsql as $$
declare
    m control.machines;
begin
    select * into strict m from control.machines where id = new.machine_id;
    if new.state <> 'open' then
        raise exception 'an attempt begins open' using errcode = 'BW018', constraint = 'attempts_begin_open';
    end if;
    if m.role <> 'worker' then
        raise exception 'the machine is not expected to be a worker'
            using errcode = 'BW018', constraint = 'attempts_expected_worker';
    end if;
    if m.pinned_at is null or m.node_id <> new.node_id
        or m.talos_cluster_id <> new.talos_cluster_id or m.smbios <> new.smbios then
        raise exception 'the machine is not pinned to the identity that was read'
            using errcode = 'BW018', constraint = 'attempts_expected_identity';
    end if;
    if new.epoch <> (select epoch from control.installation) then
        raise exception 'the epoch is not current' using errcode = 'BW018', constraint = 'attempts_epoch_current';
    end if;
    if exists (select from control.identity_revocations r
               where r.issuer = new.issuer and r.subject = new.subject) then
        raise exception 'the caller is revoked' using errcode = 'BW018', constraint = 'attempts_caller_not_revoked';
    end if;
    return new;
end $$;
create trigger attempts_open before insert on control.attempts
    for each row execute function control.attempt_opens();

create function control.attempt_steps() returns trigger
    language plpgsql as $$
begin
    if new.state <> old.state and not control.attempt_may_become(old.state, new.state) then
        raise exception 'an attempt that is % does not become %', old.state, new.state
            using errcode = 'BW012', constraint = 'attempts_step';
    end if;
    if old.state not in ('open', 'unresolved') then
        raise exception 'an attempt that is % is final', old.state
            using errcode = 'BW012', constraint = 'attempts_final';
    end if;
    if (new.id, new.entry_id, new.machine_id, new.cluster, new.instance, new.generation, new.epoch, new.issuer,
        new.subject, new.request_key, new.mode, new.digest, new.base_active, new.base_persistent, new.live_type,
        new.stage, new.minor, new.node_id, new.talos_cluster_id, new.smbios, new.opened_at, new.send_by,
        new.transport_deadline, new.settle_floor)
       is distinct from
       (old.id, old.entry_id, old.machine_id, old.cluster, old.instance, old.generation, old.epoch, old.issuer,
        old.subject, old.request_key, old.mode, old.digest, old.base_active, old.base_persistent, old.live_type,
        old.stage, old.minor, old.node_id, old.talos_cluster_id, old.smbios, old.opened_at, old.send_by,
        old.transport_deadline, old.settle_floor)
       or new.lease_until < old.lease_until then
        raise exception 'what an attempt was opened with does not change'
            using errcode = 'BW012', constraint = 'attempts_immutable';
    end if;
    return new;
end $$;
create trigger attempts_step before update on control.attempts
    for each row execute function control.attempt_steps();
create trigger attempts_kept before delete or truncate on control.attempts
    for each statement execute function control.never_changes();

comment on table control.attempts is 'Sendings of real applies, each written before its first byte. Open and unresolved ones hold their machine.';
comment on column control.attempts.send_by is 'No byte is written after it.';
comment on column control.attempts.lease_until is 'Until then the attempt is its owner''s (instance, generation, epoch).';
comment on column control.attempts.transport_deadline is 'The sending connection is reset then.';
comment on column control.attempts.landed is 'What a person said, when the attempt was accounted for.';
comment on function control.settle_after(control.attempts) is 'The first moment at which a person may account for the attempt.';
