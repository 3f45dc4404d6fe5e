-- Searching the book: what an auditor asks for has an index, so that a page costs the same however large the book is.
--
-- Every index has (recorded_at, id) after what it is asked for, which is the order of a page. What most rows have in
-- common (an allowed read) is left out where that can be, so that such a row pays for one more index alone, that of its
-- method. An index made on the partitioned table is made on every partition it has, and ensure_partitions copies it to new
-- ones.
--
-- What is included is asked for together with what leads, and is found out in the index, without a look at the row: rows of
-- one machine lie far apart. A row of an index must stay under 2704 bytes, else the INSERT fails: these texts are cut to 512
-- bytes each (audit.Projected), so that four of them and a time and an id fit.
--
-- While this runs, nobody can write: PostgreSQL builds the indexes of a partitioned table under a lock.

create index entries_by_method on audit.entries (method, recorded_at, id)
    include (machine_name, caller_subject) where method is not null;
create index entries_by_verdict on audit.entries (verdict, recorded_at, id) where verdict <> 'allow';
create index entries_by_kind on audit.entries (kind, recorded_at, id) where kind <> 'rpc';
create index entries_by_class on audit.entries (class, recorded_at, id) where class <> 'read';
-- Refusals of one machine or person, and what they did beyond reading, are asked for most.
create index entries_refused_machine on audit.entries (machine_name, recorded_at, id)
    include (caller_subject, method, verdict) where verdict <> 'allow' and machine_name is not null;
create index entries_refused_caller on audit.entries (caller_subject, recorded_at, id)
    include (method, verdict) where verdict <> 'allow' and caller_subject is not null;
create index entries_acted_machine on audit.entries (machine_name, recorded_at, id)
    include (caller_subject, method, class) where class <> 'read' and machine_name is not null;
create index entries_acted_caller on audit.entries (caller_subject, recorded_at, id)
    include (method, class) where class <> 'read' and caller_subject is not null;
-- People know a machine by its name, and so do refusals that were written before its row was looked up. The index by id is
-- of no more use: whoever asks by id knows the name.
create index entries_by_machine_name on audit.entries (machine_name, recorded_at, id)
    include (caller_subject, method) where machine_name is not null;
drop index audit.entries_by_machine;
drop index audit.entries_by_caller;
create index entries_by_caller on audit.entries (caller_subject, recorded_at, id)
    include (method) where caller_subject is not null;

-- Words a row has any number of: the codes of its reasons, and the configuration paths it changes or would change. The
-- statement that inserts the entry inserts them, with the entry's machine and caller, whom they are asked for together with.
-- Not partitioned: a month that is detached leaves its terms behind, which then find nothing.
create table audit.terms (
    field          text        not null,
    term           text        not null,
    recorded_at    timestamptz not null,
    id             uuid        not null,
    machine_name   text,
    caller_subject text,
    constraint terms_pk primary key (field, term, recorded_at, id),
    constraint terms_field_known check (field in ('code', 'path'))
);
create index terms_by_machine on audit.terms (field, term, machine_name, recorded_at, id)
    include (caller_subject) where machine_name is not null;
create index terms_by_caller on audit.terms (field, term, caller_subject, recorded_at, id) where caller_subject is not null;

create trigger terms_no_change before update or delete on audit.terms
    for each row execute function audit.refuse_change();
create trigger terms_no_truncate before truncate on audit.terms
    for each statement execute function audit.refuse_change();
alter table audit.terms enable always trigger terms_no_change;
alter table audit.terms enable always trigger terms_no_truncate;

-- A quick look for whether a record names changed paths at all: a quotation mark within a string is escaped there, so
-- that these bytes stand for the member alone.
create function audit.names_paths(record bytea) returns boolean
    language sql immutable strict parallel safe
    return position('"changes":[{'::bytea in record) > 0;
comment on function audit.names_paths(bytea) is 'Whether a record names changed paths.';

-- Every changed path, its field, and all that they lie in: machine.sysctls["a.b"] gives machine, machine.sysctls and
-- itself. Whatever a record holds, it gives something or nothing: a search aid refuses no decision. 384 characters are at most
-- 1536 bytes, which fit into a row of an index with a machine and a caller.
create function audit.path_terms(record bytea) returns setof text
    language plpgsql immutable strict parallel safe set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        with given as (
            select distinct given.path
            from jsonb_array_elements(convert_from(record, 'UTF8')::jsonb #> '{facts,config,changes}') as change,
                 lateral (values (change ->> 'path'), (change ->> 'field')) as given (path)
            where given.path <> ''
        )
        select distinct left(prefix, 384) from (
            select path as prefix from given
            union all
            select string_agg(step[1], '') over (partition by path order by n)
            from given, regexp_matches(path, '(\.?[^.[]+|\[(?:"(?:[^"\\]|\\.)*"|[^]]*)\])', 'g') with ordinality as steps (step, n)
        ) as all_of_them;
exception
    when others then
        return;
end
$$;
comment on function audit.path_terms(bytea) is 'The configuration paths a record names in facts.config.changes, and all that they lie in, each cut to 384 characters.';

insert into audit.terms (field, term, recorded_at, id, machine_name, caller_subject)
select 'code', code, recorded_at, id, machine_name, caller_subject from audit.entries, unnest(codes) as code where codes is not null
union
select 'path', path, recorded_at, id, machine_name, caller_subject from audit.entries, audit.path_terms(record) as path where audit.names_paths(record);

-- An index answers without a look at the rows only where VACUUM has been since they were inserted. By default it comes when a
-- fifth of a month is new; there is nothing in a book for it to clean, so that coming often costs little.
do $$
declare
    part regclass;
begin
    for part in
        select inhrelid::regclass from pg_inherits where inhparent in ('audit.entries'::regclass, 'audit.outcomes'::regclass)
        union all select 'audit.terms'::regclass
    loop
        execute format('alter table %s set (autovacuum_vacuum_insert_threshold = 20000, autovacuum_vacuum_insert_scale_factor = 0)', part);
    end loop;
end
$$;

revoke all on function audit.names_paths(bytea), audit.path_terms(bytea) from public;
grant execute on function audit.names_paths(bytea), audit.path_terms(bytea) to bronzeward_gateway, bronzeward_auditor;
grant select on audit.terms to bronzeward_gateway, bronzeward_auditor;
grant insert on audit.terms to bronzeward_gateway;

comment on table audit.terms is 'For searching: the codes and the changed paths of entries. entries.record is the truth.';
comment on column audit.terms.field is 'code: a reason''s code; path: a changed configuration path, or what it lies in.';
comment on column audit.terms.term is 'The code or path.';
comment on column audit.terms.recorded_at is 'recorded_at of the entry.';
comment on column audit.terms.id is 'id of the entry.';
comment on column audit.terms.machine_name is 'machine_name of the entry.';
comment on column audit.terms.caller_subject is 'caller_subject of the entry.';
