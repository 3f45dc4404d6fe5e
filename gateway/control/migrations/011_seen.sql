-- What a drift was stays when it is over, and what was last read of a machine is kept whenever it is read.

-- The steps have every finding: of a drift that is over, the last one while it was open is what was found.
create or replace view control.drift_rows as
    select d.id, d.machine_id, m.name as machine, d.cluster, d.state, d.since, d.applied_active, d.applied_persistent,
        coalesce(s.found_active, d.found_active) as found_active, coalesce(s.found_persistent, d.found_persistent) as found_persistent,
        d.before_active, d.before_persistent, d.active_version, d.persistent_version,
        d.changes, d.known, d.entry_id, d.closed_at, d.closed_entry_id, d.change_id,
        case when d.state <> 'open' then d.found_active else '' end as closed_active,
        case when d.state <> 'open' then d.found_persistent else '' end as closed_persistent
    from control.drifts d
    join control.machines m on m.id = d.machine_id
    left join lateral (
        select x.found_active, x.found_persistent from control.drift_steps x
        where x.drift_id = d.id and x.state = 'open' and d.state <> 'open'
        order by x.position desc limit 1
    ) s on true;

comment on view control.drift_rows is 'Every drift with its machine''s name, what was found while it was open, and what the machine held when it was closed.';
comment on column control.drifts.found_active is 'Digest of what runs instead; it follows the machine, and is what ran when it was closed. What was found while it was open is in control.drift_steps.';

alter table control.machine_sights add column version text not null default '',
    add column stage text not null default '',
    add column live_type text not null default '';
grant update (version, stage, live_type) on control.machine_sights to bronzeward_gateway;

comment on column control.machine_sights.at is 'When it was last read. A reading that shows all as it was moves this alone.';
comment on column control.machine_sights.version is 'The Talos version that ran; empty when it was not read since.';
comment on column control.machine_sights.stage is 'The stage of the machine.';
comment on column control.machine_sights.live_type is 'The type it said to be.';
