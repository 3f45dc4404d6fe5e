select a.version, i.epoch, coalesce(l.revision, ''), l.counter, clock_timestamp(), control.recovery_state(), r.message, r.since
from control.authority a, control.installation i, control.live_bundle l, control.recovery r
