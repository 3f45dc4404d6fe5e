insert into control.bundle_approvals (revision, follows, epoch, issuer, subject, kind, groups, entry_id)
select $1, l.counter, i.epoch, $2, $3, $4, $5, $6
from control.live_bundle l, control.installation i
