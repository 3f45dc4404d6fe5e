-- Which law each replica has loaded, as it last told. State, not history: nothing is decided by it.

create table control.replicas (
    instance text not null,
    process uuid not null,
    loaded_revision text not null default '',
    counter bigint not null default 0,
    loaded_at timestamptz,
    wanted_revision text not null default '',
    failed_why text not null default '',
    version text not null default '',
    started_at timestamptz not null default clock_timestamp(),
    heard_at timestamptz not null default clock_timestamp(),
    stopped_at timestamptz,
    constraint replicas_pkey primary key (instance, process),
    constraint replicas_instance check (length(instance) between 1 and 128),
    constraint replicas_counter check (counter >= 0),
    constraint replicas_size check (length(loaded_revision) <= 64 and length(wanted_revision) <= 64
        and length(failed_why) <= 2000 and length(version) <= 128)
);

-- The times are the database's: a replica's own clock does not count, however wrong it is.
create function control.replica_is_heard() returns trigger
    language plpgsql as $$
begin
    new.heard_at := clock_timestamp();
    new.started_at := new.heard_at;
    new.loaded_at := new.heard_at;
    if tg_op = 'UPDATE' then
        new.started_at := old.started_at;
        if new.loaded_revision = old.loaded_revision then
            new.loaded_at := old.loaded_at;
        end if;
    end if;
    if new.loaded_revision = '' then
        new.loaded_at := null;
    end if;
    if new.stopped_at is not null then
        new.stopped_at := new.heard_at;
    end if;
    return new;
end $$;
create trigger replicas_heard before insert or update on control.replicas
    for each row execute function control.replica_is_heard();

revoke all on function control.replica_is_heard() from public;
grant execute on function control.replica_is_heard() to bronzeward_gateway;
grant select on control.replicas to bronzeward_gateway, bronzeward_auditor;
grant insert, update on control.replicas to bronzeward_gateway;

comment on function control.replica_is_heard() is 'Sets the times of a replica''s report by the database''s clock.';
comment on table control.replicas is 'Which law each replica has loaded, as it last told. For people to look at; nothing is decided by it.';
comment on column control.replicas.instance is 'The replica''s name in its configuration.';
comment on column control.replicas.process is 'Random id of the process.';
comment on column control.replicas.loaded_revision is 'The law it has loaded; empty when none.';
comment on column control.replicas.counter is 'Counter of the activation that it loaded that law by.';
comment on column control.replicas.loaded_at is 'When it first told of that law.';
comment on column control.replicas.wanted_revision is 'The law that was live as far as it knew.';
comment on column control.replicas.failed_why is 'Why it has not loaded the live law; empty when it has, or is at it.';
comment on column control.replicas.version is 'Of its program.';
comment on column control.replicas.started_at is 'When the process first told.';
comment on column control.replicas.heard_at is 'When it last told. Set by a trigger.';
comment on column control.replicas.stopped_at is 'When it told that it stops; null while it has not.';
