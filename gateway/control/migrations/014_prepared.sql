-- Laws that replicas are asked to compile before they become live, and which of them each has compiled. State,
-- not history: nothing is decided by it. Whoever makes a law live waits for it a moment, and no longer.

create table control.bundle_preparations (
    revision text not null,
    asked_at timestamptz not null default clock_timestamp(),
    constraint bundle_preparations_pkey primary key (revision),
    constraint bundle_preparations_bundle_fkey foreign key (revision) references control.bundles (revision)
);
create index bundle_preparations_by_time on control.bundle_preparations (asked_at);

alter table control.replicas
    add column prepared text[] not null default '{}',
    add column preparing text[] not null default '{}',
    add column unprepared text[] not null default '{}',
    add constraint replicas_prepared_size check (cardinality(prepared) <= 16 and cardinality(preparing) <= 16 and cardinality(unprepared) <= 16
        and length(array_to_string(prepared || preparing || unprepared, '')) <= 4096);

grant select on control.bundle_preparations to bronzeward_gateway, bronzeward_auditor;
grant insert, update on control.bundle_preparations to bronzeward_gateway;

comment on table control.bundle_preparations is 'Saved laws that replicas are asked to compile ahead. Each compiles the two that were asked for last; what is live is said by control.live_bundle alone.';
comment on column control.bundle_preparations.revision is 'The law to compile.';
comment on column control.bundle_preparations.asked_at is 'When it was last asked for.';
comment on column control.replicas.prepared is 'Laws it has compiled, live or not.';
comment on column control.replicas.preparing is 'Laws it was asked for and is about to compile.';
comment on column control.replicas.unprepared is 'Laws it was asked for and could not compile; its log says why.';
