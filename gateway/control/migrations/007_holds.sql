-- Holds that people set: freezes, and retirements, which are for good. And landings that were seen
-- after their attempt had been accounted for.

create table control.freezes (
    id uuid not null,
    machine_id uuid not null,
    issuer text not null,
    subject text not null,
    reason text not null,
    frozen_at timestamptz not null,
    entry_id uuid not null,
    lifted_at timestamptz,
    lifted_issuer text,
    lifted_subject text,
    lifted_reason text,
    lifted_entry_id uuid,
    constraint freezes_pkey primary key (id),
    constraint freezes_machine_fkey foreign key (machine_id) references control.machines (id),
    constraint freezes_reason check (reason <> ''),
    constraint freezes_lifted_whole check
        (num_nonnulls(lifted_at, lifted_issuer, lifted_subject, lifted_reason, lifted_entry_id) in (0, 5)),
    constraint freezes_lifted_reason check (lifted_reason <> ''),
    constraint freezes_lifted_after check (lifted_at >= frozen_at)
);
create unique index freezes_one_standing on control.freezes (machine_id) where lifted_at is null;
create index freezes_by_machine on control.freezes (machine_id, frozen_at desc);

create function control.freeze_lifts_once() returns trigger
    language plpgsql as $$
begin
    if old.lifted_at is not null then
        raise exception 'a freeze is lifted once' using errcode = 'BW018', constraint = 'freezes_lifted_once';
    end if;
    if (new.id, new.machine_id, new.issuer, new.subject, new.reason, new.frozen_at, new.entry_id)
       is distinct from (old.id, old.machine_id, old.issuer, old.subject, old.reason, old.frozen_at, old.entry_id)
       or new.lifted_at is null then
        raise exception 'a freeze changes by being lifted, and in nothing else'
            using errcode = 'BW018', constraint = 'freezes_immutable';
    end if;
    return new;
end $$;
create trigger freezes_lift before update on control.freezes
    for each row execute function control.freeze_lifts_once();
create trigger freezes_kept before delete or truncate on control.freezes
    for each statement execute function control.never_changes();

create table control.retirements (
    machine_id uuid not null,
    issuer text not null,
    subject text not null,
    reason text not null,
    addresses inet[] not null,
    retired_at timestamptz not null,
    entry_id uuid not null,
    constraint retirements_pkey primary key (machine_id),
    constraint retirements_machine_fkey foreign key (machine_id) references control.machines (id),
    constraint retirements_reason check (reason <> '')
);
create trigger retirements_permanent before update or delete or truncate on control.retirements
    for each statement execute function control.never_changes();

-- I18, told by the rows themselves. Whoever freezes or retires holds the authority lock exclusively,
-- so what this reads cannot move until the attempt's transaction has ended.
create function control.attempt_machine_open_to_changes() returns trigger
    language plpgsql as $$
begin
    if exists (select from control.freezes f where f.machine_id = new.machine_id and f.lifted_at is null) then
        raise exception 'the machine is frozen' using errcode = 'BW018', constraint = 'attempts_machine_not_frozen';
    end if;
    if exists (select from control.retirements r where r.machine_id = new.machine_id) then
        raise exception 'the machine is retired' using errcode = 'BW018', constraint = 'attempts_machine_not_retired';
    end if;
    return new;
end $$;
create trigger attempts_machine_open_to_changes before insert on control.attempts
    for each row execute function control.attempt_machine_open_to_changes();

create function control.retired_has_no_address() returns trigger
    language plpgsql as $$
begin
    if exists (select from control.retirements r where r.machine_id = new.machine_id) then
        raise exception 'a retired machine has no address'
            using errcode = 'BW018', constraint = 'machine_addresses_not_retired';
    end if;
    return new;
end $$;
create trigger machine_addresses_not_retired before insert or update on control.machine_addresses
    for each row execute function control.retired_has_no_address();

create table control.late_landings (
    attempt_id uuid not null,
    machine_id uuid not null,
    active text not null,
    persistent text not null,
    seen_at timestamptz not null,
    outcome_id uuid not null,
    constraint late_landings_pkey primary key (attempt_id),
    constraint late_landings_attempt_fkey foreign key (attempt_id) references control.attempts (id),
    constraint late_landings_machine_fkey foreign key (machine_id) references control.machines (id)
);
create index late_landings_by_machine on control.late_landings (machine_id, seen_at desc);
create trigger late_landings_permanent before update or delete or truncate on control.late_landings
    for each statement execute function control.never_changes();

create function control.late_landing_is_one() returns trigger
    language plpgsql as $$
begin
    if not exists (select from control.attempts a
                   where a.id = new.attempt_id and a.machine_id = new.machine_id and a.state in ('accounted', 'failed')
                       and new.active = a.digest and new.persistent = a.digest) then
        raise exception 'what landed late is what an attempt of this machine sent that was accounted for'
            using errcode = 'BW018', constraint = 'late_landings_recognised';
    end if;
    return new;
end $$;
create trigger late_landings_recognised before insert on control.late_landings
    for each row execute function control.late_landing_is_one();

create index attempts_judged on control.attempts (machine_id, closed_at) where state in ('accounted', 'failed');

-- An attempt of a retired machine holds nobody up, whatever became of it.
create or replace view audit.unresolved as
    select a.opened_at, a.unresolved_at, a.id as attempt_id, a.entry_id as decision_id, a.state,
        a.state in ('open', 'unresolved') and not exists (select from control.retirements r where r.machine_id = a.machine_id) as holds,
        a.machine_id, m.name as machine_name, a.cluster, a.digest, audit.typed('chg', a.change_id) as change, a.issuer as spender_issuer, a.subject as spender_subject,
        a.instance, control.settle_after(a) as account_after,
        o.recorded_at as accounted_at, o.caller_issuer as accounted_by_issuer, o.caller_subject as accounted_by_subject,
        audit.members(o.record) ->> 'message' as accounted_reason, a.landed as accounted_landed, a.closed_at
    from control.attempts a
    join control.machines m on m.id = a.machine_id
    left join lateral (
        select o.recorded_at, o.caller_issuer, o.caller_subject, o.record
        from audit.outcomes o
        where o.attempt_id = a.id and o.recorded_at >= a.opened_at - interval '1 hour' and o.kind = 'accounted'
        order by o.recorded_at desc, o.id desc limit 1
    ) o on true
    where a.state in ('open', 'unresolved') or a.unresolved_at is not null;

revoke all on function control.freeze_lifts_once(), control.attempt_machine_open_to_changes(),
    control.retired_has_no_address(), control.late_landing_is_one() from public;
grant execute on function control.freeze_lifts_once(), control.attempt_machine_open_to_changes(),
    control.retired_has_no_address(), control.late_landing_is_one() to bronzeward_gateway;
grant select on control.freezes, control.retirements, control.late_landings to bronzeward_gateway, bronzeward_auditor;
grant insert on control.freezes, control.retirements, control.late_landings to bronzeward_gateway;
grant update (lifted_at, lifted_issuer, lifted_subject, lifted_reason, lifted_entry_id) on control.freezes to bronzeward_gateway;

comment on table control.freezes is 'Machines that somebody froze: they take no change until an approver lifts it. At most one per machine stands. Kept for good; a row changes once, when it is lifted.';
comment on column control.freezes.id is 'The freeze, as a hold names it.';
comment on column control.freezes.machine_id is 'The machine.';
comment on column control.freezes.issuer is 'Who vouched for who froze it.';
comment on column control.freezes.subject is 'Who froze it.';
comment on column control.freezes.reason is 'Why, in that person''s words.';
comment on column control.freezes.frozen_at is 'Since when.';
comment on column control.freezes.entry_id is 'The entry of the freeze.';
comment on column control.freezes.lifted_at is 'Until when; null while it stands.';
comment on column control.freezes.lifted_issuer is 'Who vouched for who lifted it.';
comment on column control.freezes.lifted_subject is 'Who lifted it.';
comment on column control.freezes.lifted_reason is 'Why, in that person''s words.';
comment on column control.freezes.lifted_entry_id is 'The entry of the lifting.';
comment on table control.retirements is 'Machines that never come back: no call reaches them, and they hold nobody up. Append-only.';
comment on column control.retirements.machine_id is 'The machine. Its name stays taken.';
comment on column control.retirements.issuer is 'Who vouched for who retired it.';
comment on column control.retirements.subject is 'Who retired it.';
comment on column control.retirements.reason is 'Why, in that person''s words.';
comment on column control.retirements.addresses is 'The addresses it had; another machine may have them by now.';
comment on column control.retirements.retired_at is 'Since when.';
comment on column control.retirements.entry_id is 'The entry of the retirement.';
comment on table control.late_landings is 'Attempts whose configuration showed up on the machine after somebody had accounted for them. Their state stays what it was judged. Append-only.';
comment on column control.late_landings.attempt_id is 'The attempt.';
comment on column control.late_landings.machine_id is 'Its machine.';
comment on column control.late_landings.active is 'Digest of the active configuration that was seen: the attempt''s.';
comment on column control.late_landings.persistent is 'Digest of the one on the disk: the attempt''s.';
comment on column control.late_landings.seen_at is 'When it was seen.';
comment on column control.late_landings.outcome_id is 'The outcome that says so in the book.';
comment on function control.attempt_machine_open_to_changes() is 'Refuses an attempt on a machine that is frozen or retired (I18).';
comment on function control.late_landing_is_one() is 'Refuses a late landing that no attempt explains.';
comment on function control.freeze_lifts_once() is 'Refuses every change of a freeze but its lifting.';
comment on function control.retired_has_no_address() is 'Refuses an address for a retired machine.';
