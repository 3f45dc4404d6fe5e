-- An apply that comes before the watch has looked is held by its own evidence, in Go. The row says it
-- once more: what the machine was read to hold is what was applied last, or a drift is open, which
-- attempts_drift judges, or an attempt explains it that was accounted for within a day and has
-- landed since. Digests of two keys are never compared. Nothing is refused here that Go lets through.
create function control.attempt_sees_no_drift() returns trigger
    language plpgsql as $$
declare
    m control.machines;
begin
    select * into strict m from control.machines where id = new.machine_id;
    if (new.base_active, new.base_persistent) = (m.applied_active, m.applied_persistent)
        or (substring(new.base_active from '^(.+):') = substring(m.applied_active from '^(.+):')) is not true
        or (substring(new.base_persistent from '^(.+):') = substring(m.applied_persistent from '^(.+):')) is not true
        or exists (select from control.drifts d where d.machine_id = m.id and d.state = 'open')
        or new.base_active = new.base_persistent and exists (select from control.attempts a
            where a.machine_id = m.id and a.state in ('accounted', 'failed') and a.digest = new.base_active
                and a.closed_at >= new.opened_at - interval '24 hours'
                and (a.base_active, a.base_persistent) <> (a.digest, a.digest)
                and not exists (select from control.late_landings l where l.attempt_id = a.id)) then
        return new;
    end if;
    raise exception 'the machine runs, or has on its disk, something else than what was applied last, and nothing explains it'
        using errcode = 'BW018', constraint = 'attempts_no_unseen_drift';
end $$;
create trigger attempts_unseen_drift before insert on control.attempts
    for each row execute function control.attempt_sees_no_drift();

revoke all on function control.attempt_sees_no_drift() from public;
grant execute on function control.attempt_sees_no_drift() to bronzeward_gateway;

comment on function control.attempt_sees_no_drift() is 'Refuses an attempt whose evidence shows a drift that no sight has opened yet.';
