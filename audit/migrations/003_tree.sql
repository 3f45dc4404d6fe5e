-- The tree over the book: in which order rows were sequenced, and what was signed of it.
--
-- One tree per epoch (RFC 6962). A leaf is a row of entries or outcomes; its index is its place for ever. A tile is 256
-- hashes one level below it: tile n of level 0 covers leaves 256n to 256n+255, tile n of level k the tiles 256n to
-- 256n+255 of level k-1. Only the root of a full tile is kept, written once, so that nothing here is ever updated; the
-- hashes of a tile are the leaves, or the roots of the tiles, that it covers.
--
-- None of these tables is partitioned: a month that is detached from entries and outcomes takes its records along, and
-- every leaf, tile and checkpoint stays.

alter table audit.unsequenced add column leaf bytea;
comment on column audit.unsequenced.leaf is 'Leaf of the row; null for rows of schema version 2 and older.';

create table audit.trees (
    tree     integer     not null,
    epoch    uuid        not null,
    origin   text        not null,
    began_at timestamptz not null default clock_timestamp(),
    constraint trees_pk primary key (tree),
    constraint trees_one_per_epoch unique (epoch),
    constraint trees_tree_positive check (tree > 0)
);

create table audit.leaves (
    recorded_at timestamptz not null,
    index       bigint      not null,
    id          uuid        not null,
    tree        integer     not null,
    source      text        not null,
    leaf        bytea       not null,
    constraint leaves_pk primary key (tree, index),
    constraint leaves_one_place unique (id),
    constraint leaves_index_not_negative check (index >= 0),
    constraint leaves_source_known check (source in ('entry', 'outcome')),
    constraint leaves_leaf_size check (octet_length(leaf) = 32)
);
-- Leaves lie nearly in the order of recorded_at, so that a few pages per thousand rows suffice to find a range.
create index leaves_by_time on audit.leaves using brin (recorded_at) with (pages_per_range = 32);

create table audit.tiles (
    tree  integer  not null,
    level smallint not null,
    index bigint   not null,
    root  bytea    not null,
    constraint tiles_pk primary key (tree, level, index),
    constraint tiles_level_known check (level between 0 and 7),
    constraint tiles_index_not_negative check (index >= 0),
    constraint tiles_root_size check (octet_length(root) = 32)
);

create table audit.checkpoints (
    tree      integer     not null,
    size      bigint      not null,
    root      bytea       not null,
    signed_at timestamptz not null default clock_timestamp(),
    note      text        not null,
    constraint checkpoints_pk primary key (tree, size),
    constraint checkpoints_size_positive check (size > 0),
    constraint checkpoints_root_size check (octet_length(root) = 32)
);

do $$
declare
    name text;
begin
    foreach name in array array['trees', 'leaves', 'tiles', 'checkpoints'] loop
        execute format('create trigger %I before update or delete on audit.%I for each row execute function audit.refuse_change()', name || '_no_change', name);
        execute format('create trigger %I before truncate on audit.%I for each statement execute function audit.refuse_change()', name || '_no_truncate', name);
        execute format('alter table audit.%I enable always trigger %I', name, name || '_no_change');
        execute format('alter table audit.%I enable always trigger %I', name, name || '_no_truncate');
    end loop;
end
$$;

-- What waits for its place is taken out by the sequencer, which deletes, and changed by nobody. The owner's own DELETE is
-- refused too: a row that leaves without a leaf would be in neither place.
create function audit.refuse_taking() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if not pg_has_role(current_user, 'bronzeward_gateway', 'member') then
        raise exception 'only the sequencer takes rows out of %.%', tg_table_schema, tg_table_name using errcode = 'BW001';
    end if;
    return null;
end
$$;
revoke all on function audit.refuse_taking() from public;
comment on function audit.refuse_taking() is 'Trigger: refuses DELETE with SQLSTATE BW001, but for the gateway''s role.';
create trigger unsequenced_no_change before update on audit.unsequenced
    for each row execute function audit.refuse_change();
create trigger unsequenced_no_taking before delete on audit.unsequenced
    for each statement execute function audit.refuse_taking();
create trigger unsequenced_no_truncate before truncate on audit.unsequenced
    for each statement execute function audit.refuse_change();
alter table audit.unsequenced enable always trigger unsequenced_no_change;
alter table audit.unsequenced enable always trigger unsequenced_no_taking;
alter table audit.unsequenced enable always trigger unsequenced_no_truncate;

-- Bounds are told as text, which can be read back in one style of dates alone.
create function audit.partitions() returns table (parent text, name text, lower timestamptz, upper timestamptz)
    language sql stable set search_path = pg_catalog, pg_temp set datestyle = 'ISO' set timezone = 'UTC'
as $$
    select p.relname::text, c.relname::text, (b.bounds)[1]::timestamptz, (b.bounds)[2]::timestamptz
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    join pg_class p on p.oid = i.inhparent
    cross join lateral (select regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''([^'']+)''\) TO \(''([^'']+)''\)') as bounds) b
    where i.inhparent in ('audit.entries'::regclass, 'audit.outcomes'::regclass) and not i.inhdetachpending
    order by (b.bounds)[1]::timestamptz, p.relname;
$$;
revoke all on function audit.partitions() from public;
grant execute on function audit.partitions() to bronzeward_gateway, bronzeward_auditor;
comment on function audit.partitions() is
    'The attached partitions of entries and outcomes, oldest first, with the first moment each takes and the first it does not take; null for a default partition.';

-- As in 001, and: a partition that was attached by hand, and so has no trigger against TRUNCATE of its own, gets one; a
-- table that has a month's name and is no partition is named instead of being taken for one.
create or replace function audit.ensure_partitions(months integer) returns integer
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
            continue when exists (select from pg_class where relnamespace = 'audit'::regnamespace and relname = part and relispartition);
            -- Not an advisory lock: any login could hold one for ever.
            lock table audit_gate.partitions in exclusive mode;
            -- A query of its own, with a new snapshot: while this one waited, another may have made it.
            continue when exists (select from pg_class where relnamespace = 'audit'::regnamespace and relname = part and relispartition);
            if to_regclass(format('audit.%I', part)) is not null then
                raise exception 'audit.% is there and is no partition of audit.%: attach it, or rename it', part, parent
                    using errcode = 'duplicate_table', table = part;
            end if;
            -- VACUUM comes often, so that indexes answer without a look at the rows (004_search.sql).
            execute format('create table audit.%I (like audit.%I including all) with (autovacuum_vacuum_insert_threshold = 20000, autovacuum_vacuum_insert_scale_factor = 0)', part, parent);
            execute format('create trigger %I before truncate on audit.%I for each statement execute function audit.refuse_change()',
                parent || '_no_truncate', part);
            execute format('alter table audit.%I enable always trigger %I', part, parent || '_no_truncate');
            execute format('alter table audit.%I attach partition audit.%I for values from (%L) to (%L)', parent, part, lower, upper);
            execute format('comment on table audit.%I is %L', part, 'Partition of audit.' || parent || ' for one month (UTC).');
            made := made + 1;
        end loop;
    end loop;
    for parent, part in
        select p.relname, c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_class p on p.oid = i.inhparent
        where i.inhparent in ('audit.entries'::regclass, 'audit.outcomes'::regclass) and c.relnamespace = 'audit'::regnamespace
            and not exists (select from pg_trigger t where t.tgrelid = c.oid and t.tgname = p.relname || '_no_truncate')
    loop
        execute format('create or replace trigger %I before truncate on audit.%I for each statement execute function audit.refuse_change()',
            parent || '_no_truncate', part);
        execute format('alter table audit.%I enable always trigger %I', part, parent || '_no_truncate');
    end loop;
    return made;
end
$$;
comment on function audit.ensure_partitions(integer) is
    'Makes the partitions of this month and of so many months ahead, gives those attached by hand their trigger against TRUNCATE, and returns how many it made. Runs as its owner; the gateway may call it.';

grant select on audit.trees, audit.leaves, audit.tiles, audit.checkpoints to bronzeward_gateway, bronzeward_auditor;
grant insert (tree, epoch, origin) on audit.trees to bronzeward_gateway;
grant insert on audit.leaves, audit.tiles to bronzeward_gateway;
grant insert (tree, size, root, note) on audit.checkpoints to bronzeward_gateway;
-- The sequencer alone takes rows out. A row that is taken out without a leaf is in neither place, and `decisions verify`
-- names it.
grant delete on audit.unsequenced to bronzeward_gateway;

comment on table audit.trees is 'One row per epoch: the tree that its rows are sequenced into.';
comment on column audit.trees.tree is 'Number of the tree; 1 is the first.';
comment on column audit.trees.epoch is 'The epoch.';
comment on column audit.trees.origin is 'First line of its checkpoints: bronzeward/<installation>/<epoch>.';
comment on column audit.trees.began_at is 'Database clock when the tree began.';
comment on table audit.leaves is 'The order of the book: one row per entry and outcome that was sequenced.';
comment on column audit.leaves.recorded_at is 'recorded_at of the row.';
comment on column audit.leaves.index is 'Its place in the tree, from 0, without gaps.';
comment on column audit.leaves.id is 'id of the row.';
comment on column audit.leaves.tree is 'The tree.';
comment on column audit.leaves.source is 'entry or outcome: the table the row is in.';
comment on column audit.leaves.leaf is 'Leaf hash of the row.';
comment on table audit.tiles is 'Roots of full tiles: of 256 leaves, of 256 tiles of the level below.';
comment on column audit.tiles.tree is 'The tree.';
comment on column audit.tiles.level is '0: covers 256 leaves; k: covers 256 tiles of level k-1.';
comment on column audit.tiles.index is 'Place among the tiles of its level, from 0.';
comment on column audit.tiles.root is 'RFC 6962 hash over what it covers.';
comment on table audit.checkpoints is 'Signed heads of the trees.';
comment on column audit.checkpoints.tree is 'The tree.';
comment on column audit.checkpoints.size is 'How many leaves it covers: those with a lower index.';
comment on column audit.checkpoints.root is 'RFC 6962 hash of those leaves.';
comment on column audit.checkpoints.signed_at is 'Database clock when it was stored.';
comment on column audit.checkpoints.note is 'The signed note: origin, size, root in base64, and the signature (c2sp.org/tlog-checkpoint).';
