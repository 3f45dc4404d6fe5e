-- Drift: configurations that are not the last known as applied, what was last seen of each machine, and the sealed copies
-- by which a machine goes back.

create table control.drifts (
    id uuid not null,
    machine_id uuid not null,
    cluster text not null,
    state text not null default 'open',
    since timestamptz not null,
    applied_active text not null,
    applied_persistent text not null,
    found_active text not null,
    found_persistent text not null,
    before_active text not null,
    before_persistent text not null,
    active_version text not null,
    persistent_version text not null,
    changes json not null,
    known boolean not null,
    entry_id uuid not null,
    closed_at timestamptz,
    closed_entry_id uuid,
    change_id uuid,
    constraint drifts_pkey primary key (id),
    constraint drifts_machine_fkey foreign key (machine_id, cluster) references control.machines (id, cluster),
    constraint drifts_change_fkey foreign key (change_id) references control.changes (id),
    constraint drifts_state check (state in ('open', 'adopted', 'reverted', 'returned')),
    constraint drifts_digests check (applied_active <> '' and applied_persistent <> '' and found_active <> '' and found_persistent <> ''),
    constraint drifts_closed_whole check ((state = 'open') = (closed_at is null) and (state = 'open') = (closed_entry_id is null)),
    constraint drifts_settled_whole check ((state in ('adopted', 'reverted')) = (change_id is not null))
);
-- Opening is idempotent: whoever comes second finds it open.
create unique index drifts_one_open_per_machine on control.drifts (machine_id) where state = 'open';
create index drifts_by_time on control.drifts (since, id);
create index drifts_by_machine on control.drifts (machine_id, id);

-- Every state and every finding a drift has had.
create table control.drift_steps (
    drift_id uuid not null,
    position bigint generated always as identity,
    state text not null,
    at timestamptz not null,
    found_active text not null,
    found_persistent text not null,
    active_version text not null,
    persistent_version text not null,
    entry_id uuid not null,
    constraint drift_steps_pkey primary key (drift_id, position),
    constraint drift_steps_drift_fkey foreign key (drift_id) references control.drifts (id)
);

-- What was last seen of a machine while nothing was under way: by it a step is told that changed no digest.
create table control.machine_sights (
    machine_id uuid not null,
    active text not null,
    persistent text not null,
    active_version text not null,
    persistent_version text not null,
    landed bigint not null,
    staged json,
    at timestamptz not null,
    constraint machine_sights_pkey primary key (machine_id),
    constraint machine_sights_machine_fkey foreign key (machine_id) references control.machines (id)
);

-- Sealed copies of configurations that were applied, for going back. The key is not in this database.
create table control.applied_copies (
    machine_id uuid not null,
    digest text not null,
    sealed_for uuid not null,
    sealed bytea not null,
    kept_at timestamptz not null default clock_timestamp(),
    constraint applied_copies_pkey primary key (machine_id, digest),
    constraint applied_copies_machine_fkey foreign key (machine_id) references control.machines (id)
);
alter table control.applied_copies alter column sealed set storage external;
create index applied_copies_by_time on control.applied_copies (kept_at);

-- A change that settles a drift names it; an adoption is the spending of one that sends nothing.
alter table control.changes add column drift_id uuid,
    add column why text not null default '',
    add constraint changes_drift_fkey foreign key (drift_id) references control.drifts (id),
    add constraint changes_drift_named check ((kind = 'apply') = (drift_id is null));

create table control.adoptions (
    change_id uuid not null,
    drift_id uuid not null,
    machine_id uuid not null,
    entry_id uuid not null,
    epoch uuid not null,
    issuer text not null,
    subject text not null,
    digest text not null,
    size bigint not null,
    base_active text not null,
    base_persistent text not null,
    node_id text not null,
    talos_cluster_id text not null,
    smbios text not null,
    approvals_required integer not null,
    approval_groups text[] not null,
    self_approval boolean not null,
    at timestamptz not null,
    constraint adoptions_pkey primary key (change_id),
    constraint adoptions_drift_unique unique (drift_id),
    constraint adoptions_change_fkey foreign key (change_id) references control.changes (id),
    constraint adoptions_drift_fkey foreign key (drift_id) references control.drifts (id),
    constraint adoptions_machine_fkey foreign key (machine_id) references control.machines (id)
);

alter table control.change_states add column adopted boolean not null default false,
    drop constraint change_states_spent_whole,
    add constraint change_states_spent_whole check ((state = 'spent') = (attempt_id is not null or adopted)),
    add constraint change_states_spent_one_way check (attempt_id is null or not adopted);

create function control.drift_may_become(from_state text, to_state text) returns boolean
    language sql immutable as $$
    select from_state = 'open' and to_state in ('adopted', 'reverted', 'returned')
$$;

create function control.drift_steps_on() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    m control.machines;
begin
    select * into strict m from control.machines where id = new.machine_id;
    if tg_op = 'INSERT' then
        if new.state <> 'open' then
            raise exception 'a drift begins open' using errcode = 'BW021', constraint = 'drifts_begin_open';
        end if;
        if exists (select from control.attempts a where a.machine_id = new.machine_id and a.state in ('open', 'unresolved')) then
            raise exception 'what is under way may explain it' using errcode = 'BW021', constraint = 'drifts_unexplained';
        end if;
        if (m.applied_active, m.applied_persistent) is distinct from (new.applied_active, new.applied_persistent) then
            raise exception 'another configuration was applied last' using errcode = 'BW021', constraint = 'drifts_last_applied';
        end if;
        if (new.found_active, new.found_persistent) = (new.applied_active, new.applied_persistent) then
            raise exception 'what was applied is no drift' using errcode = 'BW021', constraint = 'drifts_differ';
        end if;
    else
        if old.state <> 'open' then
            raise exception 'a drift that is % is final', old.state using errcode = 'BW021', constraint = 'drifts_final';
        end if;
        if new.state <> old.state and not control.drift_may_become(old.state, new.state) then
            raise exception 'a drift that is % does not become %', old.state, new.state using errcode = 'BW021', constraint = 'drifts_step';
        end if;
        if (new.id, new.machine_id, new.cluster, new.since, new.applied_active, new.applied_persistent, new.before_active, new.before_persistent, new.entry_id)
            is distinct from
            (old.id, old.machine_id, old.cluster, old.since, old.applied_active, old.applied_persistent, old.before_active, old.before_persistent, old.entry_id) then
            raise exception 'what a drift was opened with does not change' using errcode = 'BW021', constraint = 'drifts_immutable';
        end if;
        if new.state = 'adopted' and not exists (select from control.adoptions a where a.drift_id = new.id and a.change_id = new.change_id) then
            raise exception 'nobody adopted it' using errcode = 'BW021', constraint = 'drifts_adopted_by_a_change';
        end if;
        if new.state = 'reverted' and not exists (select from control.attempts a join control.changes c on c.id = a.change_id
                where c.id = new.change_id and c.kind = 'revert' and c.drift_id = new.id and a.state = 'completed') then
            raise exception 'no revert of it is completed' using errcode = 'BW021', constraint = 'drifts_reverted_by_a_change';
        end if;
        if new.state = 'returned' and (new.found_active, new.found_persistent) is distinct from (new.applied_active, new.applied_persistent) then
            raise exception 'the machine does not run what was applied' using errcode = 'BW021', constraint = 'drifts_returned_by_itself';
        end if;
    end if;
    insert into control.drift_steps (drift_id, state, at, found_active, found_persistent, active_version, persistent_version, entry_id)
    values (new.id, new.state, case when tg_op = 'INSERT' then new.since else coalesce(new.closed_at, clock_timestamp()) end,
        new.found_active, new.found_persistent, new.active_version, new.persistent_version, coalesce(new.closed_entry_id, new.entry_id));
    return new;
end $$;
-- After the row is there, so that a step names a drift that exists.
create trigger drifts_step after insert or update on control.drifts
    for each row execute function control.drift_steps_on();
create trigger drifts_kept before delete or truncate on control.drifts
    for each statement execute function control.never_changes();
create trigger drift_steps_immutable before update or delete or truncate on control.drift_steps
    for each statement execute function control.never_changes();
create trigger adoptions_immutable before update or delete or truncate on control.adoptions
    for each statement execute function control.never_changes();
create trigger machine_sights_kept before delete or truncate on control.machine_sights
    for each statement execute function control.never_changes();
create trigger applied_copies_immutable before update or truncate on control.applied_copies
    for each statement execute function control.never_changes();

create function control.applied_copies_end() returns trigger
    language plpgsql as $$
begin
    if exists (select from control.machines m where m.id = old.machine_id and old.digest in (m.applied_active, m.applied_persistent)) then
        raise exception 'the copy of what was applied last is kept' using errcode = 'BW021', constraint = 'applied_copies_kept';
    end if;
    return old;
end $$;
create trigger applied_copies_end before delete on control.applied_copies
    for each row execute function control.applied_copies_end();

-- While a drift is open only the change that names it may run (I18).
create function control.attempt_heeds_drift() returns trigger
    language plpgsql as $$
declare
    d uuid;
    named uuid;
    adopts boolean;
begin
    select x.id into d from control.drifts x where x.machine_id = new.machine_id and x.state = 'open';
    select c.drift_id, c.kind = 'adopt' into named, adopts from control.changes c where c.id = new.change_id;
    if d is distinct from named then
        raise exception 'drift % is open on the machine, and the change names %', coalesce(d::text, 'none'), coalesce(named::text, 'none')
            using errcode = 'BW018', constraint = 'attempts_no_other_drift';
    end if;
    if adopts then
        raise exception 'an adoption sends nothing' using errcode = 'BW018', constraint = 'attempts_adopt_nothing';
    end if;
    return new;
end $$;
create trigger attempts_drift before insert on control.attempts
    for each row execute function control.attempt_heeds_drift();

-- I6 for both ways of spending a change. kind is the attempt's own: a revert is sent like any other.
create or replace function control.attempt_has_approvals() returns trigger
    language plpgsql as $$
declare
    c control.changes;
begin
    if new.change_id is null then
        return new;
    end if;
    select * into strict c from control.changes where id = new.change_id;
    if (c.machine_id, c.kind in ('apply', 'revert') and (c.kind = 'apply') = (c.drift_id is null), c.mode, c.try_timeout, c.digest, c.size, c.base_active, c.base_persistent,
            c.node_id, c.talos_cluster_id, c.smbios, c.epoch)
        is distinct from
        (new.machine_id, true, new.mode, interval '0', new.digest, new.size, new.base_active, new.base_persistent,
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

create function control.adoption_holds() returns trigger
    language plpgsql as $$
declare
    c control.changes;
    m control.machines;
begin
    select * into strict c from control.changes where id = new.change_id;
    select * into strict m from control.machines where id = new.machine_id;
    if (c.machine_id, c.kind, c.drift_id, c.digest, c.size, c.base_active, c.base_persistent, c.node_id, c.talos_cluster_id, c.smbios, c.epoch)
        is distinct from
        (new.machine_id, 'adopt', new.drift_id, new.digest, new.size, new.base_active, new.base_persistent,
            new.node_id, new.talos_cluster_id, new.smbios, new.epoch) or new.digest <> new.base_active then
        raise exception 'the change is for something else' using errcode = 'BW018', constraint = 'adoptions_change_binding';
    end if;
    if not exists (select from control.drifts d where d.id = new.drift_id and d.machine_id = new.machine_id and d.state = 'open') then
        raise exception 'the drift is not open' using errcode = 'BW018', constraint = 'adoptions_drift_open';
    end if;
    if m.pinned_at is null or (m.node_id, m.talos_cluster_id, m.smbios) is distinct from (new.node_id, new.talos_cluster_id, new.smbios) then
        raise exception 'the machine is not pinned to the identity that was read' using errcode = 'BW018', constraint = 'adoptions_expected_identity';
    end if;
    if exists (select from control.retirements r where r.machine_id = new.machine_id) then
        raise exception 'the machine is retired' using errcode = 'BW018', constraint = 'adoptions_machine_not_retired';
    end if;
    if exists (select from control.attempts a where a.machine_id = new.machine_id and a.state in ('open', 'unresolved')) then
        raise exception 'an apply may still land' using errcode = 'BW018', constraint = 'adoptions_nothing_under_way';
    end if;
    if new.epoch <> (select epoch from control.installation) then
        raise exception 'the epoch is not current' using errcode = 'BW018', constraint = 'adoptions_epoch_current';
    end if;
    if not exists (select from control.change_states s where s.change_id = c.id
        and (s.state = 'waiting' and new.at < c.approve_by or s.state = 'approved' and new.at < s.use_by)) then
        raise exception 'the change is not live' using errcode = 'BW018', constraint = 'adoptions_change_live';
    end if;
    if exists (select from control.identity_revocations r where (r.issuer, r.subject) in ((c.issuer, c.subject), (new.issuer, new.subject))) then
        raise exception 'the requester or the caller is revoked' using errcode = 'BW018', constraint = 'adoptions_nobody_revoked';
    end if;
    if new.approvals_required > control.approvals_that_count(c.id, new.approval_groups, new.self_approval, new.issuer, new.subject) then
        raise exception 'too few approvals count' using errcode = 'BW018', constraint = 'adoptions_approvals';
    end if;
    return new;
end $$;
create trigger adoptions_hold before insert on control.adoptions
    for each row execute function control.adoption_holds();

create function control.change_adopted() returns trigger
    language plpgsql as $$
begin
    if new.adopted and not exists (select from control.adoptions a where a.change_id = new.change_id)
        or old.adopted and not new.adopted then
        raise exception 'a change is adopted by its adoption, for good' using errcode = 'BW006', constraint = 'changes_adopted_once';
    end if;
    return new;
end $$;
create trigger change_states_adopted before update on control.change_states
    for each row execute function control.change_adopted();

create or replace view control.change_rows as
    select c.id, c.machine_id, m.name as machine, c.cluster, c.kind, c.mode, c.try_timeout, c.digest, c.size,
        c.base_active, c.base_persistent, c.node_id, c.talos_cluster_id, c.smbios, c.epoch, c.set_name, c.issuer, c.subject,
        c.entry_id, s.required, s.groups, s.self_approval, c.created_at, c.approve_by, c.use_within,
        s.state, s.since, s.use_by, s.attempt_id, s.issuer as by_issuer, s.subject as by_subject, s.reason, s.overtaken_by,
        exists (select from control.identity_revocations r where (r.issuer, r.subject) = (c.issuer, c.subject)) as requester_revoked,
        exists (select from control.sealed_bytes b where b.change_id = c.id) as sealed,
        coalesce((select v.diffs from control.change_reviews v where v.change_id = c.id), 0) as diffs,
        c.drift_id, c.why
    from control.changes c
    join control.change_states s on s.change_id = c.id
    join control.machines m on m.id = c.machine_id;

create view control.drift_rows as
    select d.id, d.machine_id, m.name as machine, d.cluster, d.state, d.since, d.applied_active, d.applied_persistent,
        d.found_active, d.found_persistent, d.before_active, d.before_persistent, d.active_version, d.persistent_version,
        d.changes, d.known, d.entry_id, d.closed_at, d.closed_entry_id, d.change_id
    from control.drifts d
    join control.machines m on m.id = d.machine_id;

revoke all on function control.drift_may_become(text, text), control.drift_steps_on(), control.applied_copies_end(), control.attempt_heeds_drift(),
    control.adoption_holds(), control.change_adopted() from public;
grant execute on function control.drift_may_become(text, text), control.drift_steps_on(), control.applied_copies_end(), control.attempt_heeds_drift(),
    control.adoption_holds(), control.change_adopted() to bronzeward_gateway;
grant select on control.drifts, control.drift_steps, control.machine_sights, control.applied_copies, control.adoptions, control.drift_rows to bronzeward_gateway;
grant select on control.drifts, control.drift_steps, control.machine_sights, control.adoptions, control.drift_rows to bronzeward_auditor;
grant insert on control.drifts, control.machine_sights, control.applied_copies, control.adoptions to bronzeward_gateway;
grant update (state, found_active, found_persistent, active_version, persistent_version, changes, known, closed_at, closed_entry_id, change_id)
    on control.drifts to bronzeward_gateway;
grant update (active, persistent, active_version, persistent_version, landed, staged, at) on control.machine_sights to bronzeward_gateway;
grant update (adopted) on control.change_states to bronzeward_gateway;
grant delete on control.applied_copies to bronzeward_gateway;

comment on table control.drifts is 'Configurations found on machines that are not the last known as applied, and that no attempt explains. One may be open per machine; it holds it.';
comment on column control.drifts.since is 'Database clock when it was found.';
comment on column control.drifts.applied_active is 'Digest of what was last known as applied.';
comment on column control.drifts.found_active is 'Digest of what runs instead; it follows the machine while the drift is open.';
comment on column control.drifts.before_active is 'Time of creation and version of the active configuration when it was last seen as applied; empty when it never was.';
comment on column control.drifts.active_version is 'The same of what was found.';
comment on column control.drifts.changes is 'What changed, by path, with fingerprints for what may be secret.';
comment on column control.drifts.known is 'False when no copy of what was applied could be compared with, and so no change is listed.';
comment on column control.drifts.change_id is 'The change that adopted or reverted it.';
comment on table control.drift_steps is 'Every state and finding of each drift. Append-only, written by a trigger.';
comment on table control.machine_sights is 'What was last seen of each machine while nothing was under way.';
comment on column control.machine_sights.landed is 'How many attempts on the machine had landed by then: each explains one step of a version.';
comment on column control.machine_sights.staged is 'What the next reboot would change, when the configuration on disk is not the one that runs; null else.';
comment on table control.applied_copies is 'Sealed copies of applied configurations, for reverting; the key is not in this database. Dropped after a while, the last applied one never.';
comment on column control.applied_copies.sealed_for is 'The id it was sealed with.';
comment on column control.changes.drift_id is 'The drift that a revert or adoption settles; null for an apply.';
comment on column control.changes.why is 'What its requester said; empty when nothing.';
comment on table control.adoptions is 'Spent adoptions: what was found is taken as applied, and nothing is sent. Append-only.';
comment on column control.change_states.adopted is 'True when it was spent by an adoption, which has no attempt.';
comment on function control.drift_may_become(text, text) is 'The transition table of drifts.';
comment on view control.drift_rows is 'Every drift with its machine''s name.';
