-- The recovery of the epoch in force; no row when it began with the installation.
select e.epoch, e.old_epoch, e.old_size, e.old_root, e.cause, e.lost_rows, e.lost_from, e.lost_until, e.lost_revocations, e.revocations,
    e.approvals_voided, e.changes_ended, e.issuer, e.subject, e.reason, e.entry_id, e.entered_at, x.exited_at,
    (select count(*) from control.identity_revocations)
from control.installation i
join control.recoveries e on e.epoch = i.epoch
left join control.recovery_exits x on x.epoch = e.epoch
