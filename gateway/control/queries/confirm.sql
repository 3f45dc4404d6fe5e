select a.version, i.epoch, coalesce(l.revision, ''), l.counter, clock_timestamp()
from control.authority a, control.installation i, control.live_bundle l
