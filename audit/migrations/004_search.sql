-- Searching the book: what an auditor asks for has an index, so that a page costs the same however large the book is.
--
-- Every index ends in (recorded_at, id), which is the order of a page. What most rows have in common (an allowed read)
-- is left out where that can be, so that such a row pays for one more index alone, that of its method. An index made on the partitioned table is made on every partition it has, and ensure_partitions copies it to new ones.
--
-- While this runs, nobody can write: PostgreSQL builds the indexes of a partitioned table under a lock.

create index entries_by_method on audit.entries (method, recorded_at, id) where method is not null;
create index entries_by_verdict on audit.entries (verdict, recorded_at, id) where verdict <> 'allow';
create index entries_by_kind on audit.entries (kind, recorded_at, id) where kind <> 'rpc';
create index entries_by_class on audit.entries (class, recorded_at, id) where class <> 'read';
-- Refusals of one machine or person, and what they did beyond reading, are asked for most.
create index entries_refused_machine on audit.entries (machine_name, recorded_at, id) where verdict <> 'allow' and machine_name is not null;
create index entries_refused_caller on audit.entries (caller_subject, recorded_at, id) where verdict <> 'allow' and caller_subject is not null;
create index entries_acted_machine on audit.entries (machine_name, recorded_at, id) where class <> 'read' and machine_name is not null;
create index entries_acted_caller on audit.entries (caller_subject, recorded_at, id) where class <> 'read' and caller_subject is not null;
-- People know a machine by its name, and so do refusals that were written before its row was looked up. The index by id is
-- of no more use: whoever asks by id knows the name.
create index entries_by_machine_name on audit.entries (machine_name, recorded_at, id) where machine_name is not null;
drop index audit.entries_by_machine;

-- Words a row has any number of: the codes of its reasons, and the configuration paths it changes or would change. The
-- statement that inserts the entry inserts them. Not partitioned: a month that is detached leaves its terms behind, which
-- then find nothing.
create table audit.terms (
    field       text        not null,
    term        text        not null,
    recorded_at timestamptz not null,
    id          uuid        not null,
    constraint terms_pk primary key (field, term, recorded_at, id),
    constraint terms_field_known check (field in ('code', 'path'))
);

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
-- itself. Whatever a record holds, it gives something or nothing: a search aid refuses no decision.
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
        select distinct left(prefix, 512) from (
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
comment on function audit.path_terms(bytea) is 'The configuration paths a record names in facts.config.changes, and all that they lie in, each cut to 512 characters.';

insert into audit.terms (field, term, recorded_at, id)
select 'code', code, recorded_at, id from audit.entries, unnest(codes) as code where codes is not null
union
select 'path', path, recorded_at, id from audit.entries, audit.path_terms(record) as path where audit.names_paths(record);

revoke all on function audit.names_paths(bytea), audit.path_terms(bytea) from public;
grant execute on function audit.names_paths(bytea), audit.path_terms(bytea) to bronzeward_gateway, bronzeward_auditor;
grant select on audit.terms to bronzeward_gateway, bronzeward_auditor;
grant insert on audit.terms to bronzeward_gateway;

comment on table audit.terms is 'For searching: the codes and the changed paths of entries. entries.record is the truth.';
comment on column audit.terms.field is 'code: a reason''s code; path: a changed configuration path, or what it lies in.';
comment on column audit.terms.term is 'The code or path.';
comment on column audit.terms.recorded_at is 'recorded_at of the entry.';
comment on column audit.terms.id is 'id of the entry.';
