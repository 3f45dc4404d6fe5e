-- Intent: what the house means to be true. The lock order is in doc.go.

create table control.installation (
    singleton boolean not null default true,
    id uuid not null default gen_random_uuid(),
    epoch uuid not null default gen_random_uuid(),
    created_at timestamptz not null default clock_timestamp(),
    epoch_at timestamptz not null default clock_timestamp(),
    constraint installation_pkey primary key (singleton),
    constraint installation_one_row check (singleton)
);
insert into control.installation default values;

create table control.authority (
    singleton boolean not null default true,
    version bigint not null default 1,
    constraint authority_pkey primary key (singleton),
    constraint authority_one_row check (singleton),
    constraint authority_version_positive check (version > 0)
);
insert into control.authority default values;

-- The authority lock: a lock on an empty table, in a schema that only its owner may use. Every
-- decision takes the shared side as its first statement; whatever takes authority away takes
-- the other one. An advisory lock would be anybody's to take, and so would be the lock of a
-- table whose schema can be used: parsing a prepared statement locks what it names before
-- any privilege on it is asked for.
revoke all on schema control_gate from public;
create table control_gate.authority ();
revoke all on control_gate.authority from public;

-- ROW SHARE goes with itself, and is among the modes a session takes without the shared lock table.
create function control.lock_authority_shared() returns void
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    lock table control_gate.authority in row share mode;
end $$;

create function control.lock_authority() returns void
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    lock table control_gate.authority in exclusive mode;
end $$;
revoke all on function control.lock_authority_shared(), control.lock_authority() from public;

create sequence control.generations as bigint;

create table control.clusters (
    name text not null,
    rollout_limit integer not null default 1,
    created_at timestamptz not null default clock_timestamp(),
    constraint clusters_pkey primary key (name),
    constraint clusters_name_shape check (name ~ '^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$'),
    constraint clusters_rollout_limit check (rollout_limit between 1 and 1000)
);

create table control.machines (
    id uuid not null,
    name text not null,
    cluster text not null,
    role text not null,
    port integer not null default 50000,
    labels jsonb not null default '{}',
    serial bigint not null default 1,
    node_id text not null default '',
    talos_cluster_id text not null default '',
    smbios text not null default '',
    pinned_at timestamptz,
    applied_active text not null default '',
    applied_persistent text not null default '',
    applied_at timestamptz,
    created_at timestamptz not null default clock_timestamp(),
    constraint machines_pkey primary key (id),
    constraint machines_name_unique unique (name),
    constraint machines_id_cluster_unique unique (id, cluster),
    constraint machines_cluster_fkey foreign key (cluster) references control.clusters (name),
    constraint machines_name_shape check (name ~ '^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$'),
    constraint machines_role check (role in ('worker', 'controlplane')),
    constraint machines_port check (port between 1 and 65535),
    constraint machines_labels_object check (jsonb_typeof(labels) = 'object'),
    constraint machines_serial_positive check (serial > 0),
    constraint machines_pinned_whole check
        ((pinned_at is null) = (node_id = '') and (pinned_at is null) = (talos_cluster_id = ''))
);

create function control.serial_moves_forward() returns trigger
    language plpgsql as $$
begin
    if new.serial < old.serial or new.id <> old.id or new.cluster <> old.cluster then
        raise exception 'a machine keeps its id and cluster, and its serial never goes back'
            using errcode = 'BW007', constraint = 'machines_forward_only';
    end if;
    return new;
end $$;
create trigger machines_forward_only before update on control.machines
    for each row execute function control.serial_moves_forward();

create table control.machine_addresses (
    cluster text not null,
    address inet not null,
    machine_id uuid not null,
    position integer not null,
    constraint machine_addresses_pkey primary key (address),
    constraint machine_addresses_machine_fkey foreign key (machine_id, cluster) references control.machines (id, cluster),
    constraint machine_addresses_host check (masklen(address) = case family(address) when 4 then 32 else 128 end)
);
create index machine_addresses_by_machine on control.machine_addresses (machine_id, position);

create table control.observations (
    id uuid not null,
    machine_id uuid not null,
    entry_id uuid not null,
    serial bigint not null,
    began_at timestamptz not null,
    recorded_at timestamptz not null default clock_timestamp(),
    node_id text not null,
    talos_cluster_id text not null,
    smbios text not null,
    version text not null,
    stage text not null,
    live_type text not null,
    active text not null,
    persistent text not null,
    active_version text not null,
    persistent_version text not null,
    constraint observations_pkey primary key (id),
    constraint observations_machine_fkey foreign key (machine_id) references control.machines (id),
    constraint observations_began_before check (began_at <= recorded_at)
);
create index observations_latest on control.observations (machine_id, recorded_at desc);

create table control.identity_revocations (
    issuer text not null,
    subject text not null,
    reason text not null,
    authority_version bigint not null,
    entry_id uuid not null,
    revoked_at timestamptz not null default clock_timestamp(),
    constraint identity_revocations_pkey primary key (issuer, subject),
    constraint identity_revocations_reason check (reason <> '')
);
create index identity_revocations_by_version on control.identity_revocations (authority_version);

create table control.bundles (
    revision text not null,
    content bytea not null,
    entry_id uuid not null,
    saved_at timestamptz not null default clock_timestamp(),
    constraint bundles_pkey primary key (revision),
    constraint bundles_revision_shape check (revision ~ '^[0-9a-f]{64}$')
);

create table control.bundle_activations (
    counter bigint not null,
    revision text not null,
    entry_id uuid not null,
    activated_at timestamptz not null default clock_timestamp(),
    constraint bundle_activations_pkey primary key (counter),
    constraint bundle_activations_counter check (counter > 0),
    constraint bundle_activations_bundle_fkey foreign key (revision) references control.bundles (revision)
);

create table control.live_bundle (
    singleton boolean not null default true,
    revision text,
    counter bigint not null default 0,
    constraint live_bundle_pkey primary key (singleton),
    constraint live_bundle_one_row check (singleton),
    constraint live_bundle_bundle_fkey foreign key (revision) references control.bundles (revision)
);
insert into control.live_bundle default values;

create function control.counter_moves_forward() returns trigger
    language plpgsql as $$
begin
    if new.counter <= old.counter then
        raise exception 'the bundle counter only moves forward'
            using errcode = 'BW011', constraint = 'live_bundle_forward_only';
    end if;
    return new;
end $$;
create trigger live_bundle_forward_only before update on control.live_bundle
    for each row execute function control.counter_moves_forward();

create function control.never_changes() returns trigger
    language plpgsql as $$
begin
    raise exception '% is append-only', tg_table_name using errcode = 'BW004';
end $$;
create trigger identity_revocations_permanent before update or delete or truncate on control.identity_revocations
    for each statement execute function control.never_changes();
create trigger bundles_immutable before update or delete or truncate on control.bundles
    for each statement execute function control.never_changes();
create trigger bundle_activations_immutable before update or delete or truncate on control.bundle_activations
    for each statement execute function control.never_changes();
create trigger observations_immutable before update or delete or truncate on control.observations
    for each statement execute function control.never_changes();

comment on schema control is 'Intent: machines, attempts, bundles, revocations. Written by the gateway only.';
comment on schema control_gate is 'The authority lock. Nobody but its owner may use this schema; control.lock_authority_shared and control.lock_authority are the way in.';
comment on table control_gate.authority is 'Empty. Its lock is the authority lock: ROW SHARE for decisions, EXCLUSIVE for what takes authority away.';
comment on table control.installation is 'One row: this installation and its epoch. An approval or attempt of another epoch authorizes nothing.';
comment on table control.authority is 'One row: a counter that moves whenever authority is taken away or the law changes.';
comment on table control.clusters is 'Sets of machines. Its row, locked, is the cluster slot; rollout_limit is how many machines may have an attempt that may still land.';
comment on table control.machines is 'Talos nodes: what they are called, and the identity they are pinned to. serial moves when an attempt opens or closes, and when pin or addresses change.';
comment on table control.machine_addresses is 'Where a machine is dialled, in order of preference. From one gateway an address leads to one machine, so it is one machine''s in all clusters.';
comment on table control.observations is 'What was read from machines outside of calls. Append-only.';
comment on table control.identity_revocations is 'People whose authority was taken away, for good. Append-only.';
comment on table control.bundles is 'Policy bundles by their SHA-256. Immutable.';
comment on table control.bundle_activations is 'Which bundle became live, under which counter. Append-only.';
comment on table control.live_bundle is 'One row: the bundle that judges. Its counter only moves forward.';
