select a.version, i.epoch, coalesce(l.revision, ''),
    exists (select from control.identity_revocations r where r.issuer = $1 and r.subject = $2),
    clock_timestamp(), control.recovery_state(), r.message, r.since
from control.authority a, control.installation i, control.live_bundle l, control.recovery r
