select a.version, i.epoch, coalesce(l.revision, ''), l.counter, clock_timestamp(), control.recovery_state(), r.message, coalesce(r.since, (select e.entered_at from control.recoveries e where e.epoch = i.epoch
        and not exists (select from control.recovery_exits x where x.epoch = e.epoch)))
from control.authority a, control.installation i, control.live_bundle l, control.recovery r
