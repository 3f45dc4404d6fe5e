-- Recovery: what is true of a house whose database is older than it was, and how it comes back.

-- One row: what is known of the anchor outside of this database, and what was found wrong by it.
create table control.recovery (
    singleton boolean not null default true,
    anchor_version bigint not null default 0,
    mark text not null default 'none',
    message text not null default '',
    lost_rows bigint not null default 0,
    lost_from timestamptz,
    lost_until timestamptz,
    lost_revocations bigint not null default 0,
    revocations bigint not null default 0,
    old_size bigint not null default 0,
    old_root text not null default '',
    since timestamptz,
    constraint recovery_pkey primary key (singleton),
    constraint recovery_one_row check (singleton),
    constraint recovery_mark check (mark in ('none', 'rolled-back', 'older-openbao')),
    constraint recovery_marked_whole check ((mark = 'none') = (since is null) and (mark = 'none') = (message = '')),
    constraint recovery_counts check (anchor_version >= 0 and lost_rows >= 0 and lost_revocations >= 0 and revocations >= 0 and old_size >= 0)
);
insert into control.recovery default values;

create table control.recoveries (
    epoch uuid not null,
    old_epoch uuid not null,
    old_size bigint not null,
    old_root text not null,
    cause text not null,
    lost_rows bigint not null,
    lost_from timestamptz,
    lost_until timestamptz,
    lost_revocations bigint not null,
    revocations bigint not null,
    approvals_voided bigint not null,
    changes_ended bigint not null,
    issuer text not null,
    subject text not null,
    reason text not null,
    entry_id uuid not null,
    entered_at timestamptz not null,
    constraint recoveries_pkey primary key (epoch),
    constraint recoveries_cause check (cause in ('none', 'rolled-back', 'older-openbao')),
    constraint recoveries_reason check (reason <> ''),
    constraint recoveries_other_epoch check (epoch <> old_epoch)
);

create table control.recovery_releases (
    epoch uuid not null,
    machine_id uuid not null,
    observation_id uuid not null,
    issuer text not null,
    subject text not null,
    entry_id uuid not null,
    released_at timestamptz not null,
    constraint recovery_releases_pkey primary key (epoch, machine_id),
    constraint recovery_releases_recovery_fkey foreign key (epoch) references control.recoveries (epoch),
    constraint recovery_releases_machine_fkey foreign key (machine_id) references control.machines (id),
    constraint recovery_releases_observation_fkey foreign key (observation_id) references control.observations (id)
);

create table control.recovery_exits (
    epoch uuid not null,
    revocations_settled boolean not null,
    issuer text not null,
    subject text not null,
    reason text not null,
    entry_id uuid not null,
    exited_at timestamptz not null,
    constraint recovery_exits_pkey primary key (epoch),
    constraint recovery_exits_recovery_fkey foreign key (epoch) references control.recoveries (epoch),
    constraint recovery_exits_settled_said check (not revocations_settled or reason <> '')
);

-- The state of the house in one word. Whatever was found wrong comes before a recovery under way.
create function control.recovery_state() returns text
    language sql stable as $$
    select case
        when r.mark <> 'none' then r.mark
        when exists (select from control.recoveries e where e.epoch = i.epoch
            and not exists (select from control.recovery_exits x where x.epoch = e.epoch)) then 'entered'
        else 'none' end
    from control.recovery r, control.installation i
$$;

-- No attempt opens while the house is in recovery, or may be older than it was (I18).
create function control.refused_in_recovery() returns trigger
    language plpgsql as $$
begin
    if control.recovery_state() <> 'none' then
        raise exception 'the house is in recovery' using errcode = 'BW018', constraint = tg_table_name || '_not_in_recovery';
    end if;
    return new;
end $$;
create trigger attempts_not_in_recovery before insert on control.attempts
    for each row execute function control.refused_in_recovery();

-- Nor is anything taken as applied meanwhile, though nothing is sent by that.
create trigger adoptions_not_in_recovery before insert on control.adoptions
    for each row execute function control.refused_in_recovery();

-- What was found stays until a recovery is entered; an older OpenBao may be brought back.
create function control.recovery_steps() returns trigger
    language plpgsql as $$
begin
    if old.mark = 'rolled-back' and new.mark <> 'rolled-back' and not exists (select from control.recoveries e, control.installation i
        where e.epoch = i.epoch and e.entered_at >= old.since) then
        raise exception 'only entering recovery ends a rolled back state' using errcode = 'BW018', constraint = 'recovery_latched';
    end if;
    if new.anchor_version < old.anchor_version and new.mark = 'none' and not exists (select from control.recoveries e, control.installation i
        where e.epoch = i.epoch and e.cause = 'older-openbao') then
        raise exception 'the version of the anchor only moves forward' using errcode = 'BW018', constraint = 'recovery_anchor_forward';
    end if;
    return new;
end $$;
create trigger recovery_step before update on control.recovery
    for each row execute function control.recovery_steps();
create trigger recovery_kept before delete or truncate on control.recovery
    for each statement execute function control.never_changes();

-- An epoch begins with a recovery, and no epoch comes twice.
create function control.epoch_by_recovery() returns trigger
    language plpgsql as $$
begin
    if new.id <> old.id then
        raise exception 'an installation keeps its id' using errcode = 'BW018', constraint = 'installation_keeps_id';
    end if;
    if new.epoch <> old.epoch and not exists (select from control.recoveries e
        where e.epoch = new.epoch and e.old_epoch = old.epoch and e.entered_at = new.epoch_at) then
        raise exception 'an epoch begins with a recovery' using errcode = 'BW018', constraint = 'installation_epoch_by_recovery';
    end if;
    return new;
end $$;
create trigger installation_epoch before update on control.installation
    for each row execute function control.epoch_by_recovery();
create trigger installation_kept before delete or truncate on control.installation
    for each statement execute function control.never_changes();

-- What a person released was read after the recovery was entered, and is the machine it is pinned to.
create function control.release_was_observed() returns trigger
    language plpgsql as $$
begin
    if not exists (select from control.observations o join control.recoveries e on e.epoch = new.epoch
        join control.machines m on m.id = o.machine_id
        where o.id = new.observation_id and o.machine_id = new.machine_id and o.began_at >= e.entered_at
            and (m.pinned_at is null or (o.node_id, o.talos_cluster_id, o.smbios) = (m.node_id, m.talos_cluster_id, m.smbios))) then
        raise exception 'the machine was not observed since recovery was entered'
            using errcode = 'BW018', constraint = 'recovery_releases_observed';
    end if;
    return new;
end $$;
create trigger recovery_releases_observed before insert on control.recovery_releases
    for each row execute function control.release_was_observed();
create trigger recoveries_immutable before update or delete or truncate on control.recoveries
    for each statement execute function control.never_changes();
create trigger recovery_releases_immutable before update or delete or truncate on control.recovery_releases
    for each statement execute function control.never_changes();
create trigger recovery_exits_immutable before update or delete or truncate on control.recovery_exits
    for each statement execute function control.never_changes();

revoke all on function control.recovery_state(), control.refused_in_recovery(), control.recovery_steps(),
    control.epoch_by_recovery(), control.release_was_observed() from public;
grant execute on function control.recovery_state(), control.refused_in_recovery(), control.recovery_steps(),
    control.epoch_by_recovery(), control.release_was_observed() to bronzeward_gateway;
grant execute on function control.recovery_state() to bronzeward_auditor;
grant select on control.recovery, control.recoveries, control.recovery_releases, control.recovery_exits
    to bronzeward_gateway, bronzeward_auditor;
grant insert on control.recoveries, control.recovery_releases, control.recovery_exits to bronzeward_gateway;
grant update on control.recovery to bronzeward_gateway;
grant update (epoch, epoch_at) on control.installation to bronzeward_gateway;

comment on function control.refused_in_recovery() is 'Refuses what may not happen in recovery.';
comment on function control.recovery_state() is 'none, rolled-back, older-openbao or entered. In all but none no attempt opens.';
comment on table control.recovery is 'One row: the version of the anchor in OpenBao that was last written, and what was found by comparing with it.';
comment on column control.recovery.singleton is 'Always true.';
comment on column control.recovery.anchor_version is 'KV version of the anchor, as this database last wrote it. An OpenBao that has a lower one is older than the database.';
comment on column control.recovery.mark is 'none; rolled-back: this database is older than OpenBao remembers, or another; older-openbao: OpenBao is older than this database remembers.';
comment on column control.recovery.message is 'What was found, as a sentence for whoever is refused.';
comment on column control.recovery.lost_rows is 'How many entries and outcomes OpenBao remembers and this database lacks, at most.';
comment on column control.recovery.lost_from is 'Time of the last row that is surely of the book OpenBao remembers.';
comment on column control.recovery.lost_until is 'When the anchor was last written before this was found.';
comment on column control.recovery.lost_revocations is 'How many revoked identities OpenBao remembers and this database lacks.';
comment on column control.recovery.revocations is 'How many identities were revoked here when it was found.';
comment on column control.recovery.old_size is 'Size of the head that OpenBao remembers.';
comment on column control.recovery.old_root is 'Root of that head in hexadecimal digits.';
comment on column control.recovery.since is 'When it was found.';
comment on table control.recoveries is 'Recoveries that were entered: each begins an epoch. Append-only.';
comment on column control.recoveries.epoch is 'The epoch that began.';
comment on column control.recoveries.old_epoch is 'The epoch that ended.';
comment on column control.recoveries.old_size is 'Size of the last head of the old epoch, as OpenBao remembers it.';
comment on column control.recoveries.old_root is 'Root of that head in hexadecimal digits.';
comment on column control.recoveries.cause is 'What had been found; none when somebody entered without that.';
comment on column control.recoveries.lost_rows is 'How many entries and outcomes were lost, at most.';
comment on column control.recoveries.lost_from is 'From when on.';
comment on column control.recoveries.lost_until is 'Until when.';
comment on column control.recoveries.lost_revocations is 'How many revoked identities were lost.';
comment on column control.recoveries.revocations is 'How many identities were revoked in this database when that was counted.';
comment on column control.recoveries.approvals_voided is 'Unspent approvals that became void.';
comment on column control.recoveries.changes_ended is 'Live changes that ended.';
comment on column control.recoveries.issuer is 'Issuer of who entered.';
comment on column control.recoveries.subject is 'Subject of who entered.';
comment on column control.recoveries.reason is 'Why.';
comment on column control.recoveries.entry_id is 'The entry, which is the first leaf of the new tree.';
comment on column control.recoveries.entered_at is 'When.';
comment on table control.recovery_releases is 'Machines that were observed and released in a recovery. Append-only.';
comment on column control.recovery_releases.epoch is 'The recovery.';
comment on column control.recovery_releases.machine_id is 'The machine.';
comment on column control.recovery_releases.observation_id is 'What was read of it.';
comment on column control.recovery_releases.issuer is 'Issuer of who released it.';
comment on column control.recovery_releases.subject is 'Subject of who released it.';
comment on column control.recovery_releases.entry_id is 'The entry.';
comment on column control.recovery_releases.released_at is 'When.';
comment on table control.recovery_exits is 'Recoveries that were ended. Append-only.';
comment on column control.recovery_exits.epoch is 'The recovery.';
comment on column control.recovery_exits.revocations_settled is 'Whether a person said that lost revocations need not be made again.';
comment on column control.recovery_exits.issuer is 'Issuer of who ended it.';
comment on column control.recovery_exits.subject is 'Subject of who ended it.';
comment on column control.recovery_exits.reason is 'Why they need not; empty otherwise.';
comment on column control.recovery_exits.entry_id is 'The entry.';
comment on column control.recovery_exits.exited_at is 'When.';
