-- Changes: proposed acts on one machine, the approvals of them, and what takes both away.

create table control.changes (
    id uuid not null,
    entry_id uuid not null,
    machine_id uuid not null,
    cluster text not null,
    kind text not null,
    mode text not null,
    try_timeout interval not null,
    digest text not null,
    size bigint not null,
    base_active text not null,
    base_persistent text not null,
    node_id text not null,
    talos_cluster_id text not null,
    smbios text not null,
    epoch uuid not null,
    binding text not null,
    set_name text not null,
    issuer text not null,
    subject text not null,
    created_at timestamptz not null,
    approve_by timestamptz not null,
    use_within interval not null,
    constraint changes_pkey primary key (id),
    constraint changes_machine_fkey foreign key (machine_id, cluster) references control.machines (id, cluster),
    constraint changes_kind check (kind in ('apply', 'revert', 'adopt')),
    constraint changes_mode check (mode = 'no-reboot'),
    constraint changes_try_timeout check (try_timeout = interval '0' or mode = 'try'),
    constraint changes_digests check (digest <> '' and base_active <> '' and base_persistent <> ''),
    constraint changes_binding_shape check (binding ~ '^[0-9a-f]{64}$'),
    constraint changes_size check (size between 1 and 33554432),
    constraint changes_clocks check (approve_by > created_at and use_within > interval '0')
);
create index changes_by_time on control.changes (created_at, id);
create index changes_by_machine on control.changes (machine_id, id);
create index changes_by_requester on control.changes (issuer, subject);
create index changes_by_set on control.changes (set_name) where set_name <> '';

-- What a person looks at before approving: paths and fingerprints, never a secret value.
create table control.change_reviews (
    change_id uuid not null,
    changes json not null,
    diffs integer not null generated always as (json_array_length(changes)) stored,
    discards json not null,
    warnings json not null,
    constraint change_reviews_pkey primary key (change_id),
    constraint change_reviews_change_fkey foreign key (change_id) references control.changes (id)
);

-- The exact bytes, sealed by a key that is not in the database. Dropped some time after the end.
create table control.sealed_bytes (
    change_id uuid not null,
    sealed bytea not null,
    constraint sealed_bytes_pkey primary key (change_id),
    constraint sealed_bytes_change_fkey foreign key (change_id) references control.changes (id)
);
alter table control.sealed_bytes alter column sealed set storage external;

create table control.change_states (
    change_id uuid not null,
    machine_id uuid not null,
    binding text not null,
    state text not null default 'waiting',
    since timestamptz not null,
    use_by timestamptz,
    attempt_id uuid,
    issuer text not null default '',
    subject text not null default '',
    reason text not null default '',
    overtaken_by text not null default '',
    entry_id uuid,
    required integer not null,
    groups text[] not null,
    self_approval boolean not null,
    constraint change_states_required check (required between 0 and 100),
    constraint change_states_pkey primary key (change_id),
    constraint change_states_change_fkey foreign key (change_id) references control.changes (id),
    constraint change_states_state check
        (state in ('waiting', 'approved', 'spent', 'superseded', 'cancelled', 'rejected', 'expired', 'revoked')),
    constraint change_states_approved_whole check ((state in ('approved')) <= (use_by is not null)),
    constraint change_states_spent_whole check ((state = 'spent') = (attempt_id is not null)),
    constraint change_states_rejected_whole check (state <> 'rejected' or reason <> '')
);

-- The very same proposal is one change for as long as it is live.
create unique index change_states_one_live_per_binding on control.change_states (binding)
    where state in ('waiting', 'approved');
create index change_states_live_by_machine on control.change_states (machine_id)
    where state in ('waiting', 'approved');

create table control.change_steps (
    change_id uuid not null,
    position bigint generated always as identity,
    state text not null,
    at timestamptz not null,
    issuer text not null,
    subject text not null,
    reason text not null,
    overtaken_by text not null,
    attempt_id uuid,
    entry_id uuid,
    constraint change_steps_pkey primary key (change_id, position),
    constraint change_steps_change_fkey foreign key (change_id) references control.changes (id)
);

create table control.approvals (
    id uuid not null,
    change_id uuid not null,
    digest text not null,
    epoch uuid not null,
    issuer text not null,
    subject text not null,
    kind text not null,
    groups text[] not null,
    self text[] not null,
    comment text not null,
    entry_id uuid not null,
    at timestamptz not null,
    constraint approvals_pkey primary key (id),
    constraint approvals_change_fkey foreign key (change_id) references control.changes (id),
    constraint approvals_by_people check (kind = 'human')
);
create index approvals_by_change on control.approvals (change_id);
create index approvals_by_person on control.approvals (issuer, subject);

create table control.approval_revocations (
    approval_id uuid not null,
    reason text not null,
    issuer text not null,
    subject text not null,
    authority_version bigint not null,
    entry_id uuid not null,
    revoked_at timestamptz not null,
    constraint approval_revocations_pkey primary key (approval_id),
    constraint approval_revocations_approval_fkey foreign key (approval_id) references control.approvals (id),
    constraint approval_revocations_reason check (reason <> '')
);

-- Who has been seen with which groups, by the freshest token. Nothing is decided by it but what a policy asks.
create table control.people (
    issuer text not null,
    subject text not null,
    kind text not null,
    groups text[] not null,
    proof_issued timestamptz not null,
    seen_at timestamptz not null default clock_timestamp(),
    constraint people_pkey primary key (issuer, subject)
);

-- One row per requester: its lock makes the cap on waiting changes exact.
create table control.requesters (
    issuer text not null,
    subject text not null,
    constraint requesters_pkey primary key (issuer, subject)
);

create table control.idempotency_keys (
    issuer text not null,
    subject text not null,
    key text not null,
    route text not null,
    body text not null,
    status integer not null default 0,
    answer bytea not null default '',
    ref uuid,
    created_at timestamptz not null default clock_timestamp(),
    constraint idempotency_keys_pkey primary key (issuer, subject, key),
    constraint idempotency_keys_key check (key <> '' and length(key) <= 255)
);
create index idempotency_keys_by_time on control.idempotency_keys (created_at);

-- The outbox: one row per waiting change and receiver, sent by whichever replica takes it.
create table control.notices (
    id uuid not null,
    change_id uuid not null,
    state text not null default 'waiting',
    tries integer not null default 0,
    next_at timestamptz not null default clock_timestamp(),
    created_at timestamptz not null default clock_timestamp(),
    ended_at timestamptz,
    error text not null default '',
    constraint notices_pkey primary key (id),
    constraint notices_change_unique unique (change_id),
    constraint notices_change_fkey foreign key (change_id) references control.changes (id),
    constraint notices_state check (state in ('waiting', 'sent', 'dead')),
    constraint notices_ended_whole check ((ended_at is null) = (state = 'waiting'))
);
create index notices_by_time on control.notices (created_at, id);
create index notices_dead on control.notices (created_at) where state = 'dead';
create index notices_due on control.notices (next_at) where state = 'waiting';

-- Whether the book knew the person: a misspelled one can be revoked too.
alter table control.identity_revocations add column seen boolean not null default false;

alter table control.attempts add column change_id uuid,
    add column approvals_required integer not null default 0,
    add column approval_groups text[] not null default '{}',
    add column self_approval boolean not null default false,
    add column size bigint not null default 0,
    add constraint attempts_change_fkey foreign key (change_id) references control.changes (id),
    add constraint attempts_change_required check (approvals_required = 0 or change_id is not null);

-- Spent once: an attempt that was rejected or never sent is the only one that leaves its change unspent.
create unique index attempts_spend_once on control.attempts (change_id)
    where change_id is not null and state not in ('rejected', 'not_sent');

create function control.change_may_become(from_state text, to_state text) returns boolean
    language sql immutable as $$
    select from_state in ('waiting', 'approved') and to_state in ('superseded', 'cancelled', 'rejected', 'expired', 'revoked')
        or (from_state, to_state) in (('waiting', 'approved'), ('approved', 'waiting'), ('approved', 'spent'), ('spent', 'approved'))
$$;

create function control.change_state_steps() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op = 'INSERT' then
        if new.state <> 'waiting' then
            raise exception 'a change begins waiting' using errcode = 'BW006', constraint = 'changes_begin_waiting';
        end if;
    else
        if (new.change_id, new.machine_id, new.binding) is distinct from (old.change_id, old.machine_id, old.binding) then
            raise exception 'a state row stays with its change' using errcode = 'BW006', constraint = 'changes_immutable';
        end if;
        if new.state = old.state then
            return new;
        end if;
        if not control.change_may_become(old.state, new.state) then
            raise exception 'a change that is % does not become %', old.state, new.state
                using errcode = 'BW006', constraint = 'changes_step';
        end if;
        if old.state = 'spent' and not exists (select from control.attempts a
            where a.id = old.attempt_id and a.state in ('rejected', 'not_sent')) then
            raise exception 'what was sent stays spent' using errcode = 'BW006', constraint = 'changes_spent_once';
        end if;
    end if;
    insert into control.change_steps (change_id, state, at, issuer, subject, reason, overtaken_by, attempt_id, entry_id)
    values (new.change_id, new.state, new.since, new.issuer, new.subject, new.reason, new.overtaken_by, new.attempt_id, new.entry_id);
    return new;
end $$;
create trigger change_states_step before insert or update on control.change_states
    for each row execute function control.change_state_steps();
create trigger change_states_kept before delete or truncate on control.change_states
    for each statement execute function control.never_changes();
create trigger changes_immutable before update or delete or truncate on control.changes
    for each statement execute function control.never_changes();
create trigger change_reviews_immutable before update or delete or truncate on control.change_reviews
    for each statement execute function control.never_changes();
create trigger sealed_bytes_immutable before update or truncate on control.sealed_bytes
    for each statement execute function control.never_changes();
create trigger change_steps_immutable before update or delete or truncate on control.change_steps
    for each statement execute function control.never_changes();
create trigger approvals_immutable before update or delete or truncate on control.approvals
    for each statement execute function control.never_changes();
create trigger approval_revocations_permanent before update or delete or truncate on control.approval_revocations
    for each statement execute function control.never_changes();

create function control.sealed_bytes_end() returns trigger
    language plpgsql as $$
begin
    if exists (select from control.change_states s where s.change_id = old.change_id
               and (s.state in ('waiting', 'approved') or exists (select from control.attempts a
                    where a.id = s.attempt_id and a.state in ('open', 'unresolved')))) then
        raise exception 'the bytes of a change that may still be applied are kept'
            using errcode = 'BW006', constraint = 'sealed_bytes_kept';
    end if;
    return old;
end $$;
create trigger sealed_bytes_end before delete on control.sealed_bytes
    for each row execute function control.sealed_bytes_end();

-- How many people's approvals count for a spender, told by the rows themselves.
create function control.approvals_that_count(change uuid, of_groups text[], self_allowed boolean, spender_issuer text, spender_subject text)
    returns bigint language plpgsql stable as $$
begin
    return (select count(distinct (a.issuer, a.subject))
    from control.approvals a
    join control.changes c on c.id = a.change_id
    where a.change_id = change and a.kind = 'human' and a.digest = c.digest and a.groups && of_groups
        and a.epoch = c.epoch and a.epoch = (select epoch from control.installation)
        and not exists (select from control.approval_revocations r where r.approval_id = a.id)
        and not exists (select from control.identity_revocations r where (r.issuer, r.subject) = (a.issuer, a.subject))
        and (self_allowed or (a.issuer, a.subject) not in ((c.issuer, c.subject), (spender_issuer, spender_subject))));
end $$;

-- The attempt's change is for exactly what is sent, is spent by it, and enough people agreed (I6).
create function control.attempt_has_approvals() returns trigger
    language plpgsql as $$
declare
    c control.changes;
begin
    if new.change_id is null then
        return new;
    end if;
    select * into strict c from control.changes where id = new.change_id;
    if (c.machine_id, c.kind, c.mode, c.try_timeout, c.digest, c.size, c.base_active, c.base_persistent,
            c.node_id, c.talos_cluster_id, c.smbios, c.epoch)
        is distinct from
        (new.machine_id, 'apply', new.mode, interval '0', new.digest, new.size, new.base_active, new.base_persistent,
            new.node_id, new.talos_cluster_id, new.smbios, new.epoch) then
        raise exception 'the change is for something else' using errcode = 'BW018', constraint = 'attempts_change_binding';
    end if;
    if not exists (select from control.change_states s where s.change_id = c.id
        and (s.state = 'waiting' and new.opened_at < c.approve_by or s.state = 'approved' and new.opened_at < s.use_by)) then
        raise exception 'the change is not live' using errcode = 'BW018', constraint = 'attempts_change_live';
    end if;
    if exists (select from control.identity_revocations r where (r.issuer, r.subject) = (c.issuer, c.subject)) then
        raise exception 'the requester is revoked' using errcode = 'BW018', constraint = 'attempts_requester_not_revoked';
    end if;
    if new.approvals_required > control.approvals_that_count(c.id, new.approval_groups, new.self_approval, new.issuer, new.subject) then
        raise exception 'too few approvals count' using errcode = 'BW018', constraint = 'attempts_approvals';
    end if;
    return new;
end $$;
create trigger attempts_approved before insert on control.attempts
    for each row execute function control.attempt_has_approvals();

create function control.attempt_keeps_change() returns trigger
    language plpgsql as $$
begin
    if (new.change_id, new.approvals_required, new.approval_groups, new.self_approval, new.size)
        is distinct from (old.change_id, old.approvals_required, old.approval_groups, old.self_approval, old.size) then
        raise exception 'what an attempt was opened with does not change'
            using errcode = 'BW012', constraint = 'attempts_immutable';
    end if;
    return new;
end $$;
create trigger attempts_keep_change before update on control.attempts
    for each row execute function control.attempt_keeps_change();

-- One row per change as it stands, and one per approval: what every reader reads.
create view control.change_rows as
    select c.id, c.machine_id, m.name as machine, c.cluster, c.kind, c.mode, c.try_timeout, c.digest, c.size,
        c.base_active, c.base_persistent, c.node_id, c.talos_cluster_id, c.smbios, c.epoch, c.set_name, c.issuer, c.subject,
        c.entry_id, s.required, s.groups, s.self_approval, c.created_at, c.approve_by, c.use_within,
        s.state, s.since, s.use_by, s.attempt_id, s.issuer as by_issuer, s.subject as by_subject, s.reason, s.overtaken_by,
        exists (select from control.identity_revocations r where (r.issuer, r.subject) = (c.issuer, c.subject)) as requester_revoked,
        exists (select from control.sealed_bytes b where b.change_id = c.id) as sealed,
        coalesce((select v.diffs from control.change_reviews v where v.change_id = c.id), 0) as diffs
    from control.changes c
    join control.change_states s on s.change_id = c.id
    join control.machines m on m.id = c.machine_id;

create view control.approval_rows as
    select a.id, a.change_id, a.digest, a.epoch, a.issuer, a.subject, a.kind, a.groups, a.self, a.comment, a.entry_id, a.at,
        r.approval_id is not null or i.issuer is not null as revoked,
        coalesce(r.reason, i.reason, '') as revoked_reason,
        p.groups as groups_now
    from control.approvals a
    left join control.approval_revocations r on r.approval_id = a.id
    left join control.identity_revocations i on (i.issuer, i.subject) = (a.issuer, a.subject)
    left join control.people p on (p.issuer, p.subject) = (a.issuer, a.subject);

revoke all on function control.change_may_become(text, text), control.change_state_steps(), control.sealed_bytes_end(),
    control.approvals_that_count(uuid, text[], boolean, text, text), control.attempt_has_approvals(),
    control.attempt_keeps_change() from public;
grant execute on function control.change_may_become(text, text), control.change_state_steps(), control.sealed_bytes_end(),
    control.approvals_that_count(uuid, text[], boolean, text, text), control.attempt_has_approvals(),
    control.attempt_keeps_change() to bronzeward_gateway;
grant select on control.changes, control.change_reviews, control.sealed_bytes, control.change_states, control.change_steps,
    control.approvals, control.approval_revocations, control.people, control.requesters, control.idempotency_keys,
    control.notices, control.change_rows, control.approval_rows to bronzeward_gateway;
grant select on control.changes, control.change_reviews, control.change_states, control.change_steps,
    control.approvals, control.approval_revocations, control.people, control.notices,
    control.change_rows, control.approval_rows to bronzeward_auditor;
grant insert on control.changes, control.change_reviews, control.sealed_bytes, control.change_states,
    control.approvals, control.approval_revocations, control.people, control.requesters, control.idempotency_keys,
    control.notices to bronzeward_gateway;
grant update (state, since, use_by, attempt_id, issuer, subject, reason, overtaken_by, entry_id, required, groups, self_approval) on control.change_states to bronzeward_gateway;
grant update (kind, groups, proof_issued, seen_at) on control.people to bronzeward_gateway;
grant update on control.requesters to bronzeward_gateway;
grant update (status, answer, ref) on control.idempotency_keys to bronzeward_gateway;
grant update (state, tries, next_at, ended_at, error) on control.notices to bronzeward_gateway;
grant delete on control.sealed_bytes, control.idempotency_keys to bronzeward_gateway;

comment on view control.change_rows is 'Every change with the state it is in.';
comment on view control.approval_rows is 'Every approval, with whether it was taken back, and its approver''s groups as last seen.';
comment on table control.changes is 'Proposed acts on one machine: exact bytes by digest and size, base, identity, mode, requester, two clocks. Immutable.';
comment on column control.changes.binding is 'SHA-256 over all that an approval is for. Any difference is another change.';
comment on column control.change_states.required is 'Approvals the law asked for when it last judged the change; what counts is what it asks when the change is spent.';
comment on table control.change_reviews is 'What an approver is shown: differences by path with fingerprints, what is staged and would be discarded, warnings.';
comment on table control.sealed_bytes is 'The exact configuration, sealed; the key is not in this database. Dropped some time after the change has ended.';
comment on table control.change_states is 'Where each change stands now, and who or what brought it there.';
comment on table control.change_steps is 'Every state a change has had. Append-only, written by a trigger.';
comment on table control.approvals is 'One person''s approval of one change, naming its digest, in one epoch. Immutable.';
comment on table control.approval_revocations is 'Approvals that were taken back. Append-only.';
comment on table control.people is 'Groups people were last seen with, by their freshest token.';
comment on table control.requesters is 'Locked while a change is captured, so that the cap on waiting changes is exact.';
comment on table control.idempotency_keys is 'Idempotency-Key headers, their keyed body digest and their answer, per caller.';
comment on table control.notices is 'The outbox of webhooks: one row per captured change.';
